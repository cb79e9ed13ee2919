// Windows of n values, and the frequencies of Fourier transforms. The functions have no rows
// in the catalog, because they have no operands.
#pragma once

#include "ops/create.h"

namespace tapegrad {

/// Return windows of n values. The period is n steps if `periodic` (for a DFT), else n - 1 steps.
Variable hann_window(int64_t n, bool periodic = true, TensorOptions options = {});
Variable hamming_window(int64_t n, bool periodic = true, TensorOptions options = {});
Variable blackman_window(int64_t n, bool periodic = true, TensorOptions options = {});
Variable bartlett_window(int64_t n, bool periodic = true, TensorOptions options = {});
/// Returns I0(beta sqrt(1 - t^2)) / I0(beta) for t from -1 to 1, where I0 is a modified Bessel
/// function.
Variable kaiser_window(int64_t n, bool periodic = true, double beta = 12.0,
                       TensorOptions options = {});

namespace fft {
/// Return the frequencies of the outputs of fft and rfft of n samples at distance d.
Variable fftfreq(int64_t n, double d = 1.0, TensorOptions options = {});
Variable rfftfreq(int64_t n, double d = 1.0, TensorOptions options = {});
}  // namespace fft

}  // namespace tapegrad
