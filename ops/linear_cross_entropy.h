// The cross entropy of a linear layer, for language models with many classes.
#pragma once

#include "core/base/by_name.h"
#include "core/tape/variable.h"
#include "ops/loss_reduction.h"

namespace tapegrad {

/// Options of cross_entropy() (ops/loss.h), and the bias of the layer.
struct LinearCrossEntropyOptions {
  ByName by_name = {};
  Variable linear_bias = {};  // [C], or none
  Variable weight = {};       // of each class, [C]
  Reduction reduction = Reduction::kMean;
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
};
/// Returns cross_entropy(linear(x, linear_weight, linear_bias), target) for x [..., in],
/// linear_weight [C, in] and targets [...] (class ids) or [..., C] (class probabilities).
///
/// For class ids, float32 or float64, and a mean or sum, the logits [..., C] are computed for a
/// block of rows at a time and never stored as a whole; the logits of a block need about as much
/// memory as the weight. While the tape records, the gradients are computed in the same pass, so
/// the backward pass only scales them; gradients of second order are computed by linear() and
/// cross_entropy(). Other arguments are also computed by these two ops.
Variable linear_cross_entropy(const Variable& x, const Variable& linear_weight,
                              const Variable& target, LinearCrossEntropyOptions options = {},
                              Where where = Where::current());

}  // namespace tapegrad
