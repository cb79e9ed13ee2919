// Discrete Fourier transforms of any length, named as in torch.fft.
//
// A complex tensor stores each number as a pair of reals: its last dimension has size 2 and holds
// the real and the imaginary part, as in torch.view_as_real. `dim` does not count this dimension:
// -1 is the last dimension of complex numbers. The dtype is float32 or float64; integers are
// converted to the default float dtype.
//
// n, if given, is the length of the transform: a longer input is truncated, a shorter input is
// padded with zeros at the end. Throws ArgumentError for a length below 1.
//
//   Variable spectrum = fft::rfft(signal);  // [..., n] -> [..., n / 2 + 1, 2]
//   Variable again = fft::irfft(spectrum, {.n = signal.size(-1)});
#pragma once

#include <optional>

#include "core/base/by_name.h"
#include "core/base/choice.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/complex_pairs.h"

namespace tapegrad {

namespace fft {

/// A length, or {} for the size of x.
template <typename N>
concept Length = std::integral<N> || std::convertible_to<std::nullopt_t, N>;

/// Transform that is scaled by 1 / n.
enum class Norm {
  kBackward,  // the inverse transform
  kOrtho,     // both, by 1 / sqrt(n), which makes them unitary
  kForward,   // the forward transform
};
constexpr auto choice_names(Norm) {
  return std::to_array<ChoiceName<Norm>>(
      {{"backward", Norm::kBackward}, {"ortho", Norm::kOrtho}, {"forward", Norm::kForward}});
}

struct Options {
  std::optional<int64_t> n = {};  // for rfft and irfft the length of the real side
  int dim = -1;
  Choice<Norm> norm = Norm::kBackward;
};

/// Computes the forward transform of complex numbers: y[k] = sum over j of x[j] exp(-2 pi i j k /
/// n).
ComplexPairs fft(const Variable& x, Options options = {}, Where where = Where::current());
/// Computes the inverse of fft with the same norm: the exponent is +2 pi i j k / n.
ComplexPairs ifft(const Variable& x, Options options = {}, Where where = Where::current());
/// Computes the forward transform of real numbers. Returns the n / 2 + 1 frequencies k <= n / 2;
/// the remaining ones are their complex conjugates.
ComplexPairs rfft(const Variable& x, Options options = {}, Where where = Where::current());
/// Computes the inverse of rfft. Returns n real numbers; by default n = 2 (m - 1) for m
/// frequencies. The imaginary parts at frequency 0, and at frequency n / 2 if n is even, are
/// ignored.
Variable irfft(const Variable& x, Options options = {}, Where where = Where::current());

/// Computes the transform of a signal whose spectrum is real, from the m frequencies x >= 0 of the
/// signal, which are conjugate for negative ones: irfft of the conjugate with the scale of the
/// forward transform. Returns n real numbers; by default n = 2 (m - 1).
Variable hfft(const Variable& x, Options options = {}, Where where = Where::current());
/// Computes the inverse of hfft: the conjugate of rfft, with the scale of the inverse transform.
ComplexPairs ihfft(const Variable& x, Options options = {}, Where where = Where::current());

/// Overload with length and dimension by position, fft(x, 64, -1), as for the five other
/// transforms.
template <Length N = std::optional<int64_t>>
ComplexPairs fft(const Variable& x, const N& n, int dim = -1, Choice<Norm> norm = Norm::kBackward,
                 Where where = Where::current()) {
  return fft(x, Options{std::optional<int64_t>(n), dim, norm}, where);
}
template <Length N = std::optional<int64_t>>
ComplexPairs ifft(const Variable& x, const N& n, int dim = -1, Choice<Norm> norm = Norm::kBackward,
                  Where where = Where::current()) {
  return ifft(x, Options{std::optional<int64_t>(n), dim, norm}, where);
}
template <Length N = std::optional<int64_t>>
ComplexPairs rfft(const Variable& x, const N& n, int dim = -1, Choice<Norm> norm = Norm::kBackward,
                  Where where = Where::current()) {
  return rfft(x, Options{std::optional<int64_t>(n), dim, norm}, where);
}
template <Length N = std::optional<int64_t>>
Variable irfft(const Variable& x, const N& n, int dim = -1, Choice<Norm> norm = Norm::kBackward,
               Where where = Where::current()) {
  return irfft(x, Options{std::optional<int64_t>(n), dim, norm}, where);
}
template <Length N = std::optional<int64_t>>
Variable hfft(const Variable& x, const N& n, int dim = -1, Choice<Norm> norm = Norm::kBackward,
              Where where = Where::current()) {
  return hfft(x, Options{std::optional<int64_t>(n), dim, norm}, where);
}
template <Length N = std::optional<int64_t>>
ComplexPairs ihfft(const Variable& x, const N& n, int dim = -1, Choice<Norm> norm = Norm::kBackward,
                   Where where = Where::current()) {
  return ihfft(x, Options{std::optional<int64_t>(n), dim, norm}, where);
}

struct Options2d {
  ByName by_name = {};  // {64, 64} are the lengths of fft2(x, {64, 64})
  Dims s = {};          // lengths of the transforms; default: the sizes of x
  Dims dim = {-2, -1};  // rfft2 and irfft2 store half of the last of these
  Choice<Norm> norm = Norm::kBackward;
};
/// Compute transforms over several dimensions, two by default; each may be named once. fftn, ifftn,
/// rfftn and irfftn transform all dimensions by default, or as many trailing ones as s has lengths.
ComplexPairs fft2(const Variable& x, Options2d options = {}, Where where = Where::current());
ComplexPairs ifft2(const Variable& x, Options2d options = {}, Where where = Where::current());
ComplexPairs rfft2(const Variable& x, Options2d options = {}, Where where = Where::current());
Variable irfft2(const Variable& x, Options2d options = {}, Where where = Where::current());

struct OptionsNd {
  ByName by_name = {};
  Dims s = {}, dim = {};
  Choice<Norm> norm = Norm::kBackward;
};
ComplexPairs fftn(const Variable& x, OptionsNd options = {}, Where where = Where::current());
ComplexPairs ifftn(const Variable& x, OptionsNd options = {}, Where where = Where::current());
ComplexPairs rfftn(const Variable& x, OptionsNd options = {}, Where where = Where::current());
Variable irfftn(const Variable& x, OptionsNd options = {}, Where where = Where::current());

// Overloads with lengths and dimensions by position: fft2(x, {64, 64}), rfft2(x, {64, 64}, {1, 2}).
// Templates, so that the functions above are preferred; otherwise {.s = {64, 64}} is ambiguous with
// g++ 12.
template <std::convertible_to<Dims> D = Dims>
ComplexPairs fft2(const Variable& x, const D& s, const Dims& dim = {-2, -1},
                  Choice<Norm> norm = Norm::kBackward, Where where = Where::current()) {
  return fft2(x, Options2d{.s = s, .dim = dim, .norm = norm}, where);
}
template <std::convertible_to<Dims> D = Dims>
ComplexPairs ifft2(const Variable& x, const D& s, const Dims& dim = {-2, -1},
                   Choice<Norm> norm = Norm::kBackward, Where where = Where::current()) {
  return ifft2(x, Options2d{.s = s, .dim = dim, .norm = norm}, where);
}
template <std::convertible_to<Dims> D = Dims>
ComplexPairs rfft2(const Variable& x, const D& s, const Dims& dim = {-2, -1},
                   Choice<Norm> norm = Norm::kBackward, Where where = Where::current()) {
  return rfft2(x, Options2d{.s = s, .dim = dim, .norm = norm}, where);
}
template <std::convertible_to<Dims> D = Dims>
Variable irfft2(const Variable& x, const D& s, const Dims& dim = {-2, -1},
                Choice<Norm> norm = Norm::kBackward, Where where = Where::current()) {
  return irfft2(x, Options2d{.s = s, .dim = dim, .norm = norm}, where);
}

/// Rolls x by half of its size along dims (default: all dimensions), so that frequency 0 is in the
/// centre. The dimensions of a ComplexPairs are those of its numbers. A Variable may be any tensor;
/// dims then counts every dimension, including that of pairs.
ComplexPairs fftshift(const ComplexPairs& z, const Dims& dims = {}, Where where = Where::current());
Variable fftshift(const Variable& x, const Dims& dims = {}, Where where = Where::current());
/// Computes the inverse of fftshift.
ComplexPairs ifftshift(const ComplexPairs& z, const Dims& dims = {},
                       Where where = Where::current());
Variable ifftshift(const Variable& x, const Dims& dims = {}, Where where = Where::current());

}  // namespace fft

namespace kernels {

// Tensors are contiguous and transformed along the middle dimension: complex ones are
// [outer, n, 2 inner], real ones [outer, n, inner]. Results are multiplied by scale.

/// Transforms complex x to complex y. The exponent is positive if `inverse`.
extern Kernel<void(const Tensor& x, bool inverse, double scale, Tensor& y)> fft;
/// Transforms real x to complex y with n / 2 + 1 frequencies. Frequency 0 and, for even n,
/// frequency n / 2 are also multiplied by `ends`: each is one of the n frequencies, whereas every
/// other one represents two.
extern Kernel<void(const Tensor& x, double scale, double ends, Tensor& y)> rfft;
/// Transforms complex x to real y, with a positive exponent. Frequency 0 and, for even n, frequency
/// n / 2 are first multiplied by `ends`. The size of y determines whether n is even.
extern Kernel<void(const Tensor& x, double scale, double ends, Tensor& y)> irfft;

}  // namespace kernels
}  // namespace tapegrad
