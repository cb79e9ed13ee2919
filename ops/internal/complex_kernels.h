// Products of complex numbers, which are pairs in a last dimension of size 2. Without fallback: the
// op composes other kernels on devices that have none.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// y = a b, or a times the conjugate of b. a and b [..., 2] broadcast to y, which is contiguous and
/// not empty. The numbers of a pair lie side by side; the offset and all other strides are even.
extern Kernel<void(const Tensor& a, const Tensor& b, bool conjugate, Tensor& y)> complex_mul;

}  // namespace tapegrad::kernels
