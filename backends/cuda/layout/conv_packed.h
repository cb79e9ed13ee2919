// Convolutions of sixteen-bit channels-last images (packed.h) by cuDNN. For row-major images cuDNN
// would convert before and after its tensor core kernels; these functions convert row-major
// operands once and leave their results channels-last.
#pragma once

#include "ops/conv.h"

namespace tapegrad::backends::cuda {

/// Returns whether convolutions leave images of this dtype and number of channels packed.
bool are_packed(DType dtype, int64_t channels, tapegrad::Device device);

/// Returns whether y may be packed and the numbers of channels are multiples of eight, as in all
/// layers but the first.
bool takes_packed_conv2d(const Tensor& x, const Tensor& weight, const Conv2dOptions& options,
                         const Tensor& y);

/// Computes y = conv2d(x, weight), without bias, for operands that takes_packed_conv2d() accepts. y
/// becomes packed. Returns false, and leaves y unchanged, if cuDNN does not support the
/// convolution.
bool conv2d_packed(const Tensor& x, const Tensor& weight, const Conv2dOptions& options, Tensor& y);

/// The requested gradients that conv2d_backward_packed() has computed.
struct PackedGradients {
  bool x = false, weight = false;
};
/// Computes the gradients of conv2d_packed() that cuDNN supports. dx becomes packed.
PackedGradients conv2d_backward_packed(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                       const Conv2dOptions& options, Tensor& dx, Tensor& dw);

}  // namespace tapegrad::backends::cuda
