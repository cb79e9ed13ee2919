// Normalisation.
#pragma once

#include "core/dispatcher.h"
#include "core/variable.h"

namespace tapegrad {

struct BatchNormOptions {
  bool training = false;  // normalise by the batch, and update the running statistics
  double momentum = 0.1;  // running = (1 - momentum) * running + momentum * batch
  double eps = 1e-5;
};
/// (x - mean) / sqrt(var + eps) * weight + bias per channel (dimension 1), over all others. In
/// training the batch's statistics serve, and the running ones (may be empty) are moved towards
/// them in place, the variance unbiased; a batch of 0 leaves them alone, one value per channel is
/// an ArgumentError. weight and bias may be empty.
Variable batch_norm(const Variable& x, const Variable& running_mean, const Variable& running_var,
                    const Variable& weight = {}, const Variable& bias = {},
                    BatchNormOptions options = {}, Where where = Where::current());

/// (x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, whose sizes
/// normalized_shape repeats. weight and bias have that shape or are empty.
Variable layer_norm(const Variable& x, const Shape& normalized_shape, const Variable& weight = {},
                    const Variable& bias = {}, double eps = 1e-5, Where where = Where::current());

}  // namespace tapegrad
