// Convolutions of sixteen-bit images whose channels lie last (packed.h), by cuDNN, which would turn
// others round before and after its kernels for tensor cores. They take images that are in order
// too, and turn them round once.
#pragma once

#include "ops/conv.h"

namespace tapegrad::backends::cuda {

/// Whether convolutions leave images of the type and number of channels packed.
bool are_packed(DType dtype, int64_t channels, tapegrad::Device device);

/// y = conv2d(x, weight), without bias, left packed. False, with nothing done, where cuDNN does not
/// do it, y may not be packed, or channels come in no eights (so in a first layer).
bool conv2d_packed(const Tensor& x, const Tensor& weight, const Conv2dOptions& options, Tensor& y);

/// Its gradients; which of the wanted ones were computed. dx is left packed.
struct PackedGradients {
  bool x = false, weight = false;
};
PackedGradients conv2d_backward_packed(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                       const Conv2dOptions& options, Tensor& dx, Tensor& dw);

}  // namespace tapegrad::backends::cuda
