// Losses of margins and distances, and negative log likelihoods of distributions. ops/loss.h says
// how shapes and reductions work.
#pragma once

#include "core/tape/variable.h"
#include "ops/loss_reduction.h"

namespace tapegrad {

struct TripletMarginOptions {
  double margin = 1.0;
  double p = 2.0;  // of the distance, |a - b + eps|_p over the last dimension
  double eps = 1e-6;
  bool swap = false;  // the negative's distance is the smaller of those to anchor and positive
  Reduction reduction = Reduction::kMean;
};
/// max(margin + d(anchor, positive) - d(anchor, negative), 0), one for each row. The three
/// broadcast.
Variable triplet_margin_loss(const Variable& anchor, const Variable& positive,
                             const Variable& negative, TripletMarginOptions options = {},
                             Where where = Where::current());

/// max(margin - target (x1 - x2), 0), where target is 1 or -1; the three broadcast.
Variable margin_ranking_loss(const Variable& x1, const Variable& x2, const Variable& target,
                             double margin = 0.0, Reduction reduction = Reduction::kMean,
                             Where where = Where::current());

/// With the cosine c of x1 and x2 along their last dimension: 1 - c where target is 1,
/// max(c - margin, 0) where it is -1, else 0. x1 and x2 are [n, d] and target [n], or [d] and [].
Variable cosine_embedding_loss(const Variable& x1, const Variable& x2, const Variable& target,
                               double margin = 0.0, Reduction reduction = Reduction::kMean,
                               Where where = Where::current());

/// x where target is 1, max(margin - x, 0) where it is -1; the sum of both anywhere else.
Variable hinge_embedding_loss(const Variable& x, const Variable& target, double margin = 1.0,
                              Reduction reduction = Reduction::kMean,
                              Where where = Where::current());

/// log(1 + exp(-target x)), where target is 1 or -1.
Variable soft_margin_loss(const Variable& x, const Variable& target,
                          Reduction reduction = Reduction::kMean, Where where = Where::current());

struct MultiMarginOptions {
  int p = 1;  // 1 or 2
  double margin = 1.0;
  Variable weight = {};  // of each class, [C]; a constant
  Reduction reduction = Reduction::kMean;
};
/// sum over i != t of w[t] max(margin - x[t] + x[i], 0)^p / C for class ids t. x is [N, C] or [C],
/// target [N] or []. IndexError for an id outside [0, C).
Variable multi_margin_loss(const Variable& x, const Variable& target,
                           MultiMarginOptions options = {}, Where where = Where::current());

/// sum over targets t and other classes i of max(1 - (x[t] - x[i]), 0) / C. target has x's shape,
/// [N, C] or [C]: class ids up to the first -1. IndexError for an id outside [-1, C).
Variable multilabel_margin_loss(const Variable& x, const Variable& target,
                                Reduction reduction = Reduction::kMean,
                                Where where = Where::current());

/// The mean over the last dimension of -(t log(sigmoid(x)) + (1 - t) log(sigmoid(-x))), each times
/// weight, which broadcasts.
Variable multilabel_soft_margin_loss(const Variable& x, const Variable& target,
                                     const Variable& weight = {},
                                     Reduction reduction = Reduction::kMean,
                                     Where where = Where::current());

struct PoissonNllOptions {
  bool log_input = true;  // x is the logarithm of the rate
  bool full = false;      // add Stirling's t log t - t + log(2 pi t) / 2 for the factorials t > 1
  double eps = 1e-8;      // added to a rate before its logarithm is taken
  Reduction reduction = Reduction::kMean;
};
/// exp(x) - t x, or x - t log(x + eps). x and target broadcast.
Variable poisson_nll_loss(const Variable& x, const Variable& target, PoissonNllOptions options = {},
                          Where where = Where::current());

struct GaussianNllOptions {
  bool full = false;  // add log(2 pi) / 2
  double eps = 1e-6;  // the least variance; below it the gradient flows as if it were not there
  Reduction reduction = Reduction::kMean;
};
/// (log var + (x - t)^2 / var) / 2. var has x's shape, or lacks the last dimension or has it of
/// size 1. ArgumentError for a negative variance.
Variable gaussian_nll_loss(const Variable& x, const Variable& target, const Variable& var,
                           GaussianNllOptions options = {}, Where where = Where::current());

}  // namespace tapegrad
