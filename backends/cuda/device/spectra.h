// Passes over the operands of Fourier transforms that cuFFT does not do. A complex number is a pair
// of float32 or float64 numbers.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Multiplies every number of a contiguous tensor.
void scale(Tensor& x, double factor);

/// Returns a copy of half spectra [outer, n / 2 + 1, 2 inner] of real signals of length n, times a
/// factor, without the imaginary parts at frequency 0 and, for even n, n / 2.
Tensor with_real_ends(const Tensor& x, int64_t n, double factor);

}  // namespace tapegrad::backends::cuda
