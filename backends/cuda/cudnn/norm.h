// Batch normalization in training by cuDNN.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

// For sixteen-bit channels-last images, seen as pixels [n, size, channels] (packed.h), with a
// multiple of eight channels and at least kFewestNormalized elements. Return false, with nothing
// kept, if cuDNN is missing or turned off, or has no plan (graph.h). Row-major images are not
// supported, because cuDNN would convert them to channels-last and back.

inline constexpr int64_t kFewestNormalized = int64_t{1} << 20;

/// Computes y = (x - mean) * invstd * weight + bias. Also computes each channel's mean, population
/// variance and invstd = 1 / sqrt(var + eps). weight and bias may be empty.
bool cudnn_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                      Tensor& y, Tensor& mean, Tensor& var, Tensor& invstd);
/// Computes dx, and the gradients of weight and bias that are not empty.
bool cudnn_batch_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& mean,
                               const Tensor& invstd, const Tensor& weight, Tensor& dx,
                               Tensor& dweight, Tensor& dbias);

}  // namespace tapegrad::backends::cuda
