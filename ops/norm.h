// Normalization. Statistics are computed in two passes, in double.
#pragma once

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/norm_composed.h"

namespace tapegrad {

struct BatchNormOptions {
  bool training = false;  // normalize by batch statistics, and update running statistics
  double momentum = 0.1;  // running = (1 - momentum) * running + momentum * batch
  double eps = 1e-5;
};
/// Returns (x - mean) / sqrt(var + eps) * weight + bias, with statistics per channel (dimension 1)
/// over all other dimensions. In training these are the statistics of the batch, and the running
/// statistics (may be empty) are updated in place, with the unbiased variance; an empty batch
/// leaves them unchanged, and a single value per channel throws ArgumentError. weight and bias may
/// be empty; otherwise they have x's dtype, or float32 for sixteen-bit x. Running statistics may
/// have any float dtype.
Variable batch_norm(const Variable& x, const Variable& running_mean, const Variable& running_var,
                    const Variable& weight = {}, const Variable& bias = {},
                    BatchNormOptions options = {}, Where where = Where::current());

/// Overload with PyTorch's options by position: batch_norm(x, mean, var, weight, bias, true).
template <std::same_as<bool> B>
Variable batch_norm(const Variable& x, const Variable& running_mean, const Variable& running_var,
                    const Variable& weight, const Variable& bias, B training, double momentum = 0.1,
                    double eps = 1e-5, Where where = Where::current()) {
  return batch_norm(x, running_mean, running_var, weight, bias,
                    BatchNormOptions{training, momentum, eps}, where);
}

/// Returns (x - mean) / sqrt(var + eps) * weight + bias, with statistics over the last dimensions,
/// whose sizes must equal normalized_shape. weight and bias have this shape or are empty.
Variable layer_norm(const Variable& x, const Shape& normalized_shape, const Variable& weight = {},
                    const Variable& bias = {}, double eps = 1e-5, Where where = Where::current());

namespace kernels {

// Tensors are contiguous. Statistics are float32, or float64 for float64 x. weight and bias may be
// empty, and so may gradients that are not needed. weight and bias of batch_norm have the dtype of
// the statistics.

/// Computes the mean and the population variance of each channel of x [n, channels, size].
extern Kernel<void(const Tensor& x, Tensor& mean, Tensor& var)> channel_moments;
/// Computes y = (x - mean) * (invstd * weight) + bias. x is [n, channels, size], and the other
/// operands are [channels, 1]. The kernel is elementwise, so that a captured step can join it to
/// other calls.
extern Kernel<void(const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& weight,
                   const Tensor& bias, Tensor& y)>
    batch_norm;
/// Computes mean, var and invstd = 1 / sqrt(var + eps) of each channel of x, and y as batch_norm
/// does with these. Optional: if a device has no such kernel, the op calls channel_moments and
/// batch_norm.
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                   Tensor& mean, Tensor& var, Tensor& invstd)>
    batch_norm_training;
/// mean and invstd depend on x in training; otherwise they are constants.
extern Kernel<void(const Tensor& x, const Tensor& dy, const Tensor& mean, const Tensor& invstd,
                   const Tensor& weight, bool training, Tensor& dx, Tensor& dweight, Tensor& dbias)>
    batch_norm_backward;

/// x is [rows, n]. Also writes mean and invstd [rows].
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                   Tensor& mean, Tensor& invstd)>
    layer_norm;
extern Kernel<void(const Tensor& x, const Tensor& dy, const Tensor& mean, const Tensor& invstd,
                   const Tensor& weight, Tensor& dx, Tensor& dweight, Tensor& dbias)>
    layer_norm_backward;

}  // namespace kernels
}  // namespace tapegrad
