// Normalizations composed of other ops. Sixteen-bit floats are computed in float.
#pragma once

#include <optional>

#include "core/tape/variable.h"

namespace tapegrad {

/// Returns (x - mean) / sqrt(var + eps) * weight + bias, with statistics of each example over each
/// of num_groups groups of consecutive channels (dimension 1). weight and bias are [channels] or
/// empty. Throws ArgumentError if num_groups does not divide the channels.
Variable group_norm(const Variable& x, int64_t num_groups, const Variable& weight = {},
                    const Variable& bias = {}, double eps = 1e-5, Where where = Where::current());

struct InstanceNormOptions {
  bool use_input_stats = true;  // false: use the running statistics
  double momentum = 0.1;
  double eps = 1e-5;
};
/// Computes batch_norm of each example separately, with statistics over dimensions 2 and higher.
/// Running statistics, if given, are updated with the mean over the examples.
Variable instance_norm(const Variable& x, const Variable& running_mean = {},
                       const Variable& running_var = {}, const Variable& weight = {},
                       const Variable& bias = {}, InstanceNormOptions options = {},
                       Where where = Where::current());

/// Returns x / sqrt(mean(x^2) + eps) * weight over the last dimensions, whose sizes must equal
/// normalized_shape. eps defaults to the machine epsilon of x's dtype.
Variable rms_norm(const Variable& x, const Shape& normalized_shape, const Variable& weight = {},
                  std::optional<double> eps = {}, Where where = Where::current());

struct LocalResponseNormOptions {
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1.0;
};
/// Returns x / (k + alpha * m)^beta, where m is the mean of x^2 over a window of `size` channels
/// (dimension 1), with zeros beyond the first and last channel.
Variable local_response_norm(const Variable& x, int64_t size, LocalResponseNormOptions options = {},
                             Where where = Where::current());

}  // namespace tapegrad
