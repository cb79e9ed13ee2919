// Losses of margins and distances, and negative log likelihoods of distributions. ops/loss.h
// describes shapes and reductions.
#pragma once

#include <functional>

#include "core/base/by_name.h"
#include "core/tape/variable.h"
#include "ops/loss_reduction.h"

namespace tapegrad {

struct TripletMarginOptions {
  double margin = 1.0;
  double p = 2.0;  // norm of the distance |a - b + eps|_p over the last dimension
  double eps = 1e-6;
  bool swap = false;  // use the smaller of the negative's distances to anchor and positive
  Reduction reduction = Reduction::kMean;
};
/// Returns max(margin + d(anchor, positive) - d(anchor, negative), 0) for each row. The operands
/// broadcast.
Variable triplet_margin_loss(const Variable& anchor, const Variable& positive,
                             const Variable& negative, TripletMarginOptions options = {},
                             Where where = Where::current());

struct TripletDistanceOptions {
  ByName by_name = {};
  /// Distance of each pair of rows. Default: pairwise_distance().
  std::function<Variable(const Variable&, const Variable&)> distance_function = {};
  double margin = 1.0;
  bool swap = false;
  Reduction reduction = Reduction::kMean;
};
/// Returns triplet_margin_loss with a distance of the caller.
Variable triplet_margin_with_distance_loss(const Variable& anchor, const Variable& positive,
                                           const Variable& negative,
                                           TripletDistanceOptions options = {},
                                           Where where = Where::current());

/// Options of margin_ranking_loss() and cosine_embedding_loss().
struct MarginOptions {
  double margin = 0.0;
  Reduction reduction = Reduction::kMean;
};
struct HingeEmbeddingOptions {
  double margin = 1.0;
  Reduction reduction = Reduction::kMean;
};
/// Returns max(margin - target (x1 - x2), 0), where target is 1 or -1. The operands broadcast.
Variable margin_ranking_loss(const Variable& x1, const Variable& x2, const Variable& target,
                             double margin = 0.0, Reduction reduction = Reduction::kMean,
                             Where where = Where::current());
Variable margin_ranking_loss(const Variable& x1, const Variable& x2, const Variable& target,
                             MarginOptions options, Where where = Where::current());

/// Returns 1 - c where target is 1, max(c - margin, 0) where target is -1, else 0, where c is the
/// cosine of the angle of x1 and x2 along the last dimension. x1 and x2 are [n, d] and target [n],
/// or [d] and [].
Variable cosine_embedding_loss(const Variable& x1, const Variable& x2, const Variable& target,
                               double margin = 0.0, Reduction reduction = Reduction::kMean,
                               Where where = Where::current());
Variable cosine_embedding_loss(const Variable& x1, const Variable& x2, const Variable& target,
                               MarginOptions options, Where where = Where::current());

/// Returns x where target is 1, max(margin - x, 0) where target is -1, and the sum of both
/// elsewhere.
Variable hinge_embedding_loss(const Variable& x, const Variable& target, double margin = 1.0,
                              Reduction reduction = Reduction::kMean,
                              Where where = Where::current());
Variable hinge_embedding_loss(const Variable& x, const Variable& target,
                              HingeEmbeddingOptions options, Where where = Where::current());

/// Returns log(1 + exp(-target x)), where target is 1 or -1.
Variable soft_margin_loss(const Variable& x, const Variable& target,
                          Reduction reduction = Reduction::kMean, Where where = Where::current());

struct MultiMarginOptions {
  int p = 1;  // 1 or 2
  double margin = 1.0;
  Variable weight = {};  // weight of each class, [C]; receives no gradient
  Reduction reduction = Reduction::kMean;
};
/// Returns the sum over i != t of w[t] max(margin - x[t] + x[i], 0)^p / C for class ids t. x is
/// [N, C] or [C], target [N] or []. Throws IndexError for an id outside [0, C).
Variable multi_margin_loss(const Variable& x, const Variable& target,
                           MultiMarginOptions options = {}, Where where = Where::current());

/// Returns the sum over target classes t and other classes i of max(1 - (x[t] - x[i]), 0) / C.
/// target has x's shape, [N, C] or [C], and holds class ids up to the first -1. Throws IndexError
/// for an id outside [-1, C).
Variable multilabel_margin_loss(const Variable& x, const Variable& target,
                                Reduction reduction = Reduction::kMean,
                                Where where = Where::current());

/// Returns the mean over the last dimension of -(t log(sigmoid(x)) + (1 - t) log(sigmoid(-x))).
/// weight broadcasts and multiplies the terms.
Variable multilabel_soft_margin_loss(const Variable& x, const Variable& target,
                                     const Variable& weight = {},
                                     Reduction reduction = Reduction::kMean,
                                     Where where = Where::current());

struct PoissonNllOptions {
  bool log_input = true;  // x is the logarithm of the rate
  bool full = false;      // add Stirling's t log t - t + log(2 pi t) / 2 where t > 1
  double eps = 1e-8;      // added to the rate before taking its logarithm
  Reduction reduction = Reduction::kMean;
};
/// Returns exp(x) - t x if log_input, else x - t log(x + eps). x and target broadcast.
Variable poisson_nll_loss(const Variable& x, const Variable& target, PoissonNllOptions options = {},
                          Where where = Where::current());

struct GaussianNllOptions {
  bool full = false;  // add log(2 pi) / 2
  double eps = 1e-6;  // lower bound of the variance; the gradient ignores the bound
  Reduction reduction = Reduction::kMean;
};
/// Returns (log var + (x - t)^2 / var) / 2. The shape of var is that of x, or that of x with a last
/// dimension of size 1 or without the last dimension. Throws ArgumentError for a negative
/// variance.
Variable gaussian_nll_loss(const Variable& x, const Variable& target, const Variable& var,
                           GaussianNllOptions options = {}, Where where = Where::current());
/// Overload with PyTorch's arguments by position.
template <std::same_as<bool> B>
Variable gaussian_nll_loss(const Variable& x, const Variable& target, const Variable& var, B full,
                           double eps = 1e-6, Reduction reduction = Reduction::kMean,
                           Where where = Where::current()) {
  return gaussian_nll_loss(x, target, var, GaussianNllOptions{full, eps, reduction}, where);
}

}  // namespace tapegrad
