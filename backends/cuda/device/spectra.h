// Passes over the operands of Fourier transforms that cuFFT does not do. A complex number is a pair
// of float32 or float64 numbers.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Multiplies every number of a contiguous tensor.
void scale(Tensor& x, double factor);

// Half spectra are [outer, n / 2 + 1, 2 inner], of real signals of length n. Their ends, frequency
// 0 and, for even n, n / 2, have a further factor.

/// Multiplies half spectra.
void scale_spectra(Tensor& x, int64_t n, double factor, double ends);
/// Returns a copy of half spectra, multiplied, without the imaginary parts of the ends.
Tensor with_real_ends(const Tensor& x, int64_t n, double factor, double ends);

}  // namespace tapegrad::backends::cuda
