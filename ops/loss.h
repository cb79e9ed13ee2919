// Loss functions. `reduction` selects the mean of the element losses (default), their sum, or none.
//
// Losses that compare x and target elementwise require equal shapes and otherwise throw ShapeError:
// broadcasting [n, 1] against [n] would give n x n losses.
#pragma once

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/loss_reduction.h"
#include "ops/margin_loss.h"

namespace tapegrad {

Variable mse_loss(const Variable& x, const Variable& target, Reduction reduction = Reduction::kMean,
                  Where where = Where::current());  // (x - t)^2
Variable l1_loss(const Variable& x, const Variable& target, Reduction reduction = Reduction::kMean,
                 Where where = Where::current());  // |x - t|
Variable mse_loss(const Variable& x, const Variable& target, LossOptions options,
                  Where where = Where::current());
Variable l1_loss(const Variable& x, const Variable& target, LossOptions options,
                 Where where = Where::current());
/// Returns d^2 / (2 beta) where d = |x - target| < beta, else d - beta / 2.
Variable smooth_l1_loss(const Variable& x, const Variable& target, double beta = 1.0,
                        Reduction reduction = Reduction::kMean, Where where = Where::current());
/// Returns d^2 / 2 where d = |x - target| < delta, else delta (d - delta / 2).
Variable huber_loss(const Variable& x, const Variable& target, double delta = 1.0,
                    Reduction reduction = Reduction::kMean, Where where = Where::current());

struct SmoothL1Options {
  Reduction reduction = Reduction::kMean;
  double beta = 1.0;
};
struct HuberOptions {
  Reduction reduction = Reduction::kMean;
  double delta = 1.0;
};
Variable smooth_l1_loss(const Variable& x, const Variable& target, SmoothL1Options options,
                        Where where = Where::current());
Variable huber_loss(const Variable& x, const Variable& target, HuberOptions options,
                    Where where = Where::current());

struct CrossEntropyOptions {
  Variable weight = {};         // weight of each class, [C]
  int64_t ignore_index = -100;  // targets with this id are ignored
  Reduction reduction = Reduction::kMean;
  double label_smoothing = 0.0;  // this share of the target is spread over all classes
};
/// Computes the cross entropy -log_softmax(x)[target]. x is [N, C], [N, C, ...] or [C]. target
/// holds class ids (integer dtype, x's shape without C) or class probabilities (float dtype, x's
/// shape). The mean is weighted by the class weights of the targets; over no targets it is NaN, as
/// in PyTorch. Throws IndexError for an id outside [0, C) other than ignore_index.
Variable cross_entropy(const Variable& x, const Variable& target, CrossEntropyOptions options = {},
                       Where where = Where::current());

struct NllLossOptions {
  Variable weight = {};
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::kMean;
};
/// Computes the negative log likelihood -x[target] of log probabilities x. Shapes and errors are
/// those of cross_entropy.
Variable nll_loss(const Variable& x, const Variable& target, NllLossOptions options = {},
                  Where where = Where::current());

/// Returns -(t log(x) + (1 - t) log(1 - x)) for probabilities x; logarithms are limited to at least
/// -100. weight, if given, broadcasts and multiplies the element losses. Throws ArgumentError for
/// an x or t outside [0, 1].
Variable binary_cross_entropy(const Variable& x, const Variable& target,
                              const Variable& weight = {}, Reduction reduction = Reduction::kMean,
                              Where where = Where::current());
struct BCEOptions {
  Variable weight = {};
  Reduction reduction = Reduction::kMean;
};
/// Overload with options. A template, so that {} is a Variable.
template <typename = void>
Variable binary_cross_entropy(const Variable& x, const Variable& target, const BCEOptions& options,
                              Where where = Where::current()) {
  return binary_cross_entropy(x, target, options.weight, options.reduction, where);
}

struct BceWithLogitsOptions {
  Variable weight = {};
  Reduction reduction = Reduction::kMean;
  Variable pos_weight = {};  // weight of positive examples, broadcast
};
/// Returns -(p t log sigmoid(x) + (1 - t) log sigmoid(-x)) with the positive weight p, which is
/// binary_cross_entropy(sigmoid(x), t) for p = 1. Small losses and gradients keep their digits. The
/// weights broadcast.
Variable binary_cross_entropy_with_logits(const Variable& x, const Variable& target,
                                          BceWithLogitsOptions options = {},
                                          Where where = Where::current());

/// Computes the Kullback-Leibler divergence t (log t - x) for log probabilities x; t log t is 0 at
/// t = 0. With log_target, t is a log probability, too. kMean averages over all elements (PyTorch's
/// "mean"; PyTorch's "batchmean" is the sum divided by the batch size).
Variable kl_div(const Variable& x, const Variable& target, bool log_target = false,
                Reduction reduction = Reduction::kMean, Where where = Where::current());

// Overloads with PyTorch's order of arguments, with the name of a reduction.
Variable smooth_l1_loss(const Variable& x, const Variable& target, Reduction reduction,
                        double beta = 1.0, Where where = Where::current());
Variable huber_loss(const Variable& x, const Variable& target, Reduction reduction,
                    double delta = 1.0, Where where = Where::current());
Variable cross_entropy(const Variable& x, const Variable& target, Reduction reduction,
                       Where where = Where::current());
Variable nll_loss(const Variable& x, const Variable& target, Reduction reduction,
                  Where where = Where::current());
// Overloads with the weights of the classes as an argument. Templates, so that {} means no options.
template <std::derived_from<Variable> W>
Variable cross_entropy(const Variable& x, const Variable& target, const W& weight,
                       Reduction reduction = Reduction::kMean, Where where = Where::current()) {
  return cross_entropy(x, target, {.weight = weight, .reduction = reduction}, where);
}
template <std::derived_from<Variable> W>
Variable nll_loss(const Variable& x, const Variable& target, const W& weight,
                  Reduction reduction = Reduction::kMean, Where where = Where::current()) {
  return nll_loss(x, target, {.weight = weight, .reduction = reduction}, where);
}
/// Overload with libtorch's arguments: nll_loss(x, target, /*weight=*/{}, Reduction::Sum).
template <std::convertible_to<Reduction> R>
Variable nll_loss(const Variable& x, const Variable& target, NllLossOptions options, R reduction,
                  Where where = Where::current()) {
  options.reduction = reduction;
  return nll_loss(x, target, options, where);
}
Variable binary_cross_entropy(const Variable& x, const Variable& target, Reduction reduction,
                              Where where = Where::current());
Variable binary_cross_entropy_with_logits(const Variable& x, const Variable& target,
                                          Reduction reduction, Where where = Where::current());
Variable kl_div(const Variable& x, const Variable& target, std::string_view reduction,
                bool log_target = false, Where where = Where::current());
/// Options of kl_div(). The reduction may also be "batchmean", the sum divided by the batch size.
/// The overload below is a template, because a string would otherwise convert to bool.
struct KlDivOptions {
  ByName by_name = {};
  std::string reduction = "mean";
  bool log_target = false;
};
Variable kl_div(const Variable& x, const Variable& target, const KlDivOptions& options,
                Where where = Where::current());
template <size_t N>
Variable kl_div(const Variable& x, const Variable& target, const char (&reduction)[N],
                bool log_target = false, Where where = Where::current()) {
  return kl_div(x, target, std::string_view(reduction), log_target, where);
}

/// Arguments of cross_entropy kernels that are not tensors.
struct CrossEntropySpec {
  int64_t ignore_index;
  double label_smoothing;

  bool operator==(const CrossEntropySpec&) const = default;
};

namespace kernels {

/// Throws IndexError, naming op, for the first target (int64) outside [0, classes) other than
/// ignore_index.
extern Kernel<void(const Tensor& target, std::string_view op, int64_t classes,
                   int64_t ignore_index)>
    check_classes;

// x and dx are [examples, pixels, classes], each with the strides of contiguous rows of classes or
// of contiguous planes of pixels. target is int64, contiguous, one id for each of the rows, which
// are the pixels of all examples. The following have the compute type of x: weight ([classes] or
// empty), losses ([rows]), statistics ([2, rows]: each row's maximum and log sum exp(x - maximum))
// and scale (one element).

extern Kernel<void(const Tensor& x, const Tensor& target, const Tensor& weight,
                   const CrossEntropySpec&, Tensor& losses, Tensor& statistics)>
    cross_entropy;
/// Computes dx for dy of one element or [rows], multiplied by scale unless scale is empty.
extern Kernel<void(const Tensor& x, const Tensor& target, const Tensor& weight,
                   const CrossEntropySpec&, const Tensor& statistics, const Tensor& dy,
                   const Tensor& scale, Tensor& dx)>
    cross_entropy_backward;
/// Computes y = the sum of the losses, or, if scale is given, y = their mean and scale = 1 / the
/// sum of the targets' weights.
extern Kernel<void(Tensor& y, const Tensor& losses, const Tensor& target, const Tensor& weight,
                   int64_t ignore_index, Tensor& scale)>
    cross_entropy_reduce;

extern Kernel<void(const Tensor& x, const Tensor& target, Tensor& y)> binary_cross_entropy;
/// Throws ArgumentError, naming op, for an element outside [0, 1].
extern Kernel<void(const Tensor& x, std::string_view op)> check_unit;

}  // namespace kernels

}  // namespace tapegrad
