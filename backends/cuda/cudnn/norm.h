// Batch normalisation in training by cuDNN's kernels.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

// Of sixteen-bit images of kFewestNormalized elements or more, whose channels lie last and come in
// eights, as pixels [n, size, channels] (packed.h). Each is false, with nothing kept, where cuDNN
// is not there or not wanted, and where it has no plan (graph.h). Images in order are not
// for it: it would turn them round and back.

inline constexpr int64_t kFewestNormalized = int64_t{1} << 20;

/// y = (x - mean) * invstd * weight + bias, and for each channel the mean, the population variance
/// and invstd = 1 / sqrt(var + eps). weight and bias may be empty.
bool cudnn_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                      Tensor& y, Tensor& mean, Tensor& var, Tensor& invstd);
/// dx, and of the gradients of weight and bias those that are not empty.
bool cudnn_batch_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& mean,
                               const Tensor& invstd, const Tensor& weight, Tensor& dx,
                               Tensor& dweight, Tensor& dbias);

}  // namespace tapegrad::backends::cuda
