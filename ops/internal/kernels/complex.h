// Products of complex numbers, which are pairs in a last dimension of size 2. There is no fallback:
// the op composes other kernels on devices without this one.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// Computes y = a b, or a times the conjugate of b. a and b [..., 2] broadcast to y, which is
/// contiguous and not empty. The two numbers of a pair are adjacent; the offset and all other
/// strides are even.
extern Kernel<void(const Tensor& a, const Tensor& b, bool conjugate, Tensor& y)> complex_mul;

}  // namespace tapegrad::kernels
