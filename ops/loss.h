// Losses. `reduction` says what becomes of the element losses; the default is their mean.
//
// Where x and target are compared element by element their shapes must be equal: a ShapeError
// otherwise, since broadcasting [n, 1] against [n] would give n x n losses.
#pragma once

#include "core/dispatcher.h"
#include "core/variable.h"

namespace tapegrad {

enum class Reduction { kMean, kSum, kNone };

Variable mse_loss(const Variable& x, const Variable& target, Reduction reduction = Reduction::kMean,
                  Where where = Where::current());  // (x - t)^2
Variable l1_loss(const Variable& x, const Variable& target, Reduction reduction = Reduction::kMean,
                 Where where = Where::current());  // |x - t|
/// With d = |x - t|: d^2 / (2 beta) below beta, d - beta / 2 above.
Variable smooth_l1_loss(const Variable& x, const Variable& target, double beta = 1.0,
                        Reduction reduction = Reduction::kMean, Where where = Where::current());
/// d^2 / 2 below delta, delta (d - delta / 2) above.
Variable huber_loss(const Variable& x, const Variable& target, double delta = 1.0,
                    Reduction reduction = Reduction::kMean, Where where = Where::current());

struct CrossEntropyOptions {
  Variable weight = {};          // of each class, [C]
  int64_t ignore_index = -100;   // a target that is left out
  double label_smoothing = 0.0;  // this share of the target is spread over all classes
  Reduction reduction = Reduction::kMean;
};
/// -log_softmax(x)[target]. x is [N, C] or [N, C, ...] or [C]; target holds class ids (an integer
/// type, x's shape without C) or class probabilities (x's shape, a float type). The mean is
/// weighted by the targets' class weights; over no targets at all it is NaN, as in PyTorch.
/// IndexError for an id outside [0, C) that is not ignore_index.
Variable cross_entropy(const Variable& x, const Variable& target, CrossEntropyOptions options = {},
                       Where where = Where::current());

struct NllLossOptions {
  Variable weight = {};
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::kMean;
};
/// -x[target] for log probabilities x; shapes and errors as cross_entropy's.
Variable nll_loss(const Variable& x, const Variable& target, NllLossOptions options = {},
                  Where where = Where::current());

/// -(t log(x) + (1 - t) log(1 - x)) for probabilities x in [0, 1]; logarithms are at least -100.
/// weight, if given, multiplies the element losses and broadcasts. ArgumentError when an x is
/// outside [0, 1].
Variable binary_cross_entropy(const Variable& x, const Variable& target,
                              const Variable& weight = {}, Reduction reduction = Reduction::kMean,
                              Where where = Where::current());

struct BceWithLogitsOptions {
  Variable weight = {};
  Variable pos_weight = {};  // of positive examples, broadcast
  Reduction reduction = Reduction::kMean;
};
/// binary_cross_entropy(sigmoid(x), t), without overflow. The weights broadcast.
Variable binary_cross_entropy_with_logits(const Variable& x, const Variable& target,
                                          BceWithLogitsOptions options = {},
                                          Where where = Where::current());

/// t (log t - x) for log probabilities x; t log t is 0 at t = 0. With log_target t is a log too.
/// The mean is over all elements (PyTorch's "mean"; its "batchmean" is the sum over the batch
/// size).
Variable kl_div(const Variable& x, const Variable& target, bool log_target = false,
                Reduction reduction = Reduction::kMean, Where where = Where::current());

/// What the kernels of cross_entropy know beside the tensors.
struct CrossEntropySpec {
  int64_t ignore_index;
  double label_smoothing;
};

namespace kernels {

/// IndexError, naming op, for the first target (int64) outside [0, classes) that is not
/// ignore_index.
extern Kernel<void(const Tensor& target, std::string_view op, int64_t classes,
                   int64_t ignore_index)>
    check_classes;

// x is [rows, classes], target int64 [rows]; both contiguous. Of the type that x is computed in are
// weight ([classes] or empty), losses ([rows]), statistics ([2, rows]: each row's maximum and
// log sum exp(x - maximum)) and scale (one element).

extern Kernel<void(const Tensor& x, const Tensor& target, const Tensor& weight,
                   const CrossEntropySpec&, Tensor& losses, Tensor& statistics)>
    cross_entropy;
/// dx for dy of one element or [rows], times scale unless it is empty.
extern Kernel<void(const Tensor& x, const Tensor& target, const Tensor& weight,
                   const CrossEntropySpec&, const Tensor& statistics, const Tensor& dy,
                   const Tensor& scale, Tensor& dx)>
    cross_entropy_backward;
/// y = the sum of the losses, or with `scale` (set to 1 / the sum of the targets' weights) the
/// mean.
extern Kernel<void(Tensor& y, const Tensor& losses, const Tensor& target, const Tensor& weight,
                   int64_t ignore_index, Tensor& scale)>
    cross_entropy_reduce;

extern Kernel<void(const Tensor& x, const Tensor& target, Tensor& y)> binary_cross_entropy;
/// ArgumentError, naming op, for an element outside [0, 1].
extern Kernel<void(const Tensor& x, std::string_view op)> check_unit;
extern Kernel<void(const Tensor& x, Tensor& y)> log_sigmoid;

}  // namespace kernels

}  // namespace tapegrad
