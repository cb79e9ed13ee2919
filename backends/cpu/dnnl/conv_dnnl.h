// Convolutions by oneDNN, for float32, and for bfloat16 (accumulated in float32) where the
// processor multiplies bfloat16 faster.
#pragma once

#include "ops/conv.h"

namespace tapegrad::backends::cpu {

// Same arguments as kernels::conv2d and kernels::conv2d_backward. Return false, with nothing
// written, if oneDNN has no implementation for the sizes or if fast_paths() is off. No tensor given
// has zero elements.

bool conv2d_dnnl(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Conv2dOptions& options, Tensor& y);
bool conv2d_backward_dnnl(const Tensor& dy, const Tensor& x, const Tensor& weight,
                          const Conv2dOptions& options, Tensor& dx, Tensor& dw, Tensor& db);

}  // namespace tapegrad::backends::cpu
