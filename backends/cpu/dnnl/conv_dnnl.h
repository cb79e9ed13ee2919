// Convolutions by oneDNN: of float32, and of bfloat16, summed in float, where the processor
// multiplies that faster.
#pragma once

#include "ops/conv.h"

namespace tapegrad::backends::cpu {

// Signatures of kernels::conv2d and kernels::conv2d_backward. False, with nothing written, when
// oneDNN has no implementation for the sizes, or fast_paths() are not wanted. No tensor that is
// there is empty of elements.

bool conv2d_dnnl(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Conv2dOptions& options, Tensor& y);
bool conv2d_backward_dnnl(const Tensor& dy, const Tensor& x, const Tensor& weight,
                          const Conv2dOptions& options, Tensor& dx, Tensor& dw, Tensor& db);

}  // namespace tapegrad::backends::cpu
