// Normalisations composed of other ops. Sixteen-bit floats are computed in float.
#pragma once

#include <optional>

#include "core/tape/variable.h"

namespace tapegrad {

/// (x - mean) / sqrt(var + eps) * weight + bias, where mean and variance are over each of
/// num_groups groups of consecutive channels (dimension 1) of each example. weight and bias are
/// [channels] or empty. ArgumentError when num_groups does not divide the channels.
Variable group_norm(const Variable& x, int64_t num_groups, const Variable& weight = {},
                    const Variable& bias = {}, double eps = 1e-5, Where where = Where::current());

struct InstanceNormOptions {
  bool use_input_stats = true;  // else the running statistics serve
  double momentum = 0.1;
  double eps = 1e-5;
};
/// batch_norm of each example by itself: mean and variance are over the dimensions from 2 on.
/// Running statistics, where given, are moved towards the mean of the examples'.
Variable instance_norm(const Variable& x, const Variable& running_mean = {},
                       const Variable& running_var = {}, const Variable& weight = {},
                       const Variable& bias = {}, InstanceNormOptions options = {},
                       Where where = Where::current());

/// x / sqrt(mean(x^2) + eps) * weight over the last dimensions, whose sizes normalized_shape
/// repeats. eps is the distance from 1 to the next number of x's dtype unless it is given.
Variable rms_norm(const Variable& x, const Shape& normalized_shape, const Variable& weight = {},
                  std::optional<double> eps = {}, Where where = Where::current());

struct LocalResponseNormOptions {
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1.0;
};
/// x / (k + alpha * m)^beta, where m is the mean of x^2 over `size` channels (dimension 1) around
/// each, zeros where there are none.
Variable local_response_norm(const Variable& x, int64_t size, LocalResponseNormOptions options = {},
                             Where where = Where::current());

}  // namespace tapegrad
