// Discrete Fourier transforms of any length, by the names of torch.fft.
//
// A complex number is a pair of reals: a complex tensor has a last dimension of 2, real and
// imaginary part, as torch.view_as_real gives it. `dim` does not count that dimension: -1 is the
// last one of the complex tensor. float32 and float64, integers as the default float type.
//
// n, if given, is the length of the transform: a longer input is cut off at its end, a shorter one
// followed by zeros. ArgumentError for a length below 1.
//
//   Variable spectrum = fft::rfft(signal);                        // [..., n] -> [..., n / 2 + 1,
//   2] Variable again = fft::irfft(spectrum, {.n = signal.size(-1)});
#pragma once

#include <optional>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

namespace fft {

/// Where the factor 1 / n is.
enum class Norm {
  kBackward,  // in the inverse transform
  kOrtho,     // 1 / sqrt(n) in both: they are unitary
  kForward,   // in the forward transform
};

struct Options {
  std::optional<int64_t> n = {};  // of the longer, real side in rfft and irfft
  int dim = -1;
  Norm norm = Norm::kBackward;
};

/// y[k] = sum over j of x[j] exp(-2 pi i j k / n), of complex numbers.
Variable fft(const Variable& x, Options options = {}, Where where = Where::current());
/// With exp(+2 pi i j k / n); the inverse of fft with the same norm.
Variable ifft(const Variable& x, Options options = {}, Where where = Where::current());
/// Of real numbers, the n / 2 + 1 frequencies k <= n / 2: the others are their conjugates.
Variable rfft(const Variable& x, Options options = {}, Where where = Where::current());
/// Its inverse: n real numbers, 2 (m - 1) of m frequencies when n is not given. The imaginary parts
/// at frequency 0, and at n / 2 of an even n, count as 0.
Variable irfft(const Variable& x, Options options = {}, Where where = Where::current());

struct Options2d {
  Dims s = {};          // the lengths; none: those of x
  Dims dim = {-2, -1};  // rfft2 and irfft2 halve the last of them
  Norm norm = Norm::kBackward;
};
/// The transform over two dimensions (or any others, each once).
Variable fft2(const Variable& x, Options2d options = {}, Where where = Where::current());
Variable ifft2(const Variable& x, Options2d options = {}, Where where = Where::current());
Variable rfft2(const Variable& x, Options2d options = {}, Where where = Where::current());
Variable irfft2(const Variable& x, Options2d options = {}, Where where = Where::current());

/// Rolled by half of the size, so that frequency 0 comes to the middle; over the dimensions, or
/// all. Of any tensor: here every dimension counts, that of the pairs too.
Variable fftshift(const Variable& x, const Dims& dims = {}, Where where = Where::current());
/// Back.
Variable ifftshift(const Variable& x, const Dims& dims = {}, Where where = Where::current());

}  // namespace fft

namespace kernels {

// Contiguous, along the middle dimension: complex [outer, n, 2 inner], real [outer, n, inner]. The
// results are multiplied by scale.

/// Of complex numbers; the exponent is positive if inverse.
extern Kernel<void(const Tensor& x, bool inverse, double scale, Tensor& y)> fft;
/// x is real, y complex with n / 2 + 1.
extern Kernel<void(const Tensor& x, double scale, Tensor& y)> rfft;
/// The other way, with the positive exponent; y's n tells whether it is even.
extern Kernel<void(const Tensor& x, double scale, Tensor& y)> irfft;

}  // namespace kernels
}  // namespace tapegrad
