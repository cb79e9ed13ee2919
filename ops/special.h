// Inverse, hyperbolic and special functions, elementwise. Integers are converted to the default
// float dtype. ops/unary.h has the common functions.
#pragma once

#include <optional>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

Variable sinh(Variable x, Where where = Where::current());
Variable cosh(Variable x, Where where = Where::current());
/// The result is NaN outside the domain, which is |x| <= 1 for asin, acos and atanh, and x >= 1 for
/// acosh. atanh is infinite at -1 and 1.
Variable asin(Variable x, Where where = Where::current());
Variable acos(Variable x, Where where = Where::current());
Variable atan(Variable x, Where where = Where::current());
Variable asinh(Variable x, Where where = Where::current());
Variable acosh(Variable x, Where where = Where::current());
Variable atanh(Variable x, Where where = Where::current());

/// Returns 1 - erf(x), computed without cancellation.
Variable erfc(Variable x, Where where = Where::current());
/// Returns exp(x^2) erfc(x), which does not underflow.
Variable erfcx(Variable x, Where where = Where::current());
/// Returns the inverse of erf: infinite at -1 and 1, NaN outside [-1, 1].
Variable erfinv(Variable x, Where where = Where::current());

/// Returns log|gamma(x)|; inf at 0, -1, -2 ...
Variable lgamma(Variable x, Where where = Where::current());
/// Returns the derivative of lgamma. -inf at 0, inf at -0, NaN at -1, -2 ... Near its negative
/// roots (-0.504, -1.573 ...) the error is a few roundings of pi / tan(pi x), which cancels there;
/// near its positive root 1.46163 it is a few roundings of the result.
Variable digamma(Variable x, Where where = Where::current());
/// Returns the n-th derivative of digamma, 0 <= n <= 170.
Variable polygamma(int64_t n, Variable x, Where where = Where::current());

/// Return the modified Bessel function of the first kind, of order 0 and 1; i0e and i1e are these
/// times exp(-|x|), which do not overflow.
Variable i0(Variable x, Where where = Where::current());
Variable i0e(Variable x, Where where = Where::current());
Variable i1(Variable x, Where where = Where::current());
Variable i1e(Variable x, Where where = Where::current());
/// Return the Bessel functions of the first kind (J) and of the second kind (Y), of order 0 and 1.
/// Y is -inf at 0, and NaN below.
Variable bessel_j0(Variable x, Where where = Where::current());
Variable bessel_j1(Variable x, Where where = Where::current());
Variable bessel_y0(Variable x, Where where = Where::current());
Variable bessel_y1(Variable x, Where where = Where::current());
/// Return the modified Bessel function of the second kind, of order 0 and 1, which is inf at 0 and
/// NaN below; k0e and k1e are these times exp(x), which do not underflow.
Variable bessel_k0(Variable x, Where where = Where::current());
Variable bessel_k0e(Variable x, Where where = Where::current());
Variable bessel_k1(Variable x, Where where = Where::current());
Variable bessel_k1e(Variable x, Where where = Where::current());

/// Returns the Airy function Ai.
Variable airy_ai(Variable x, Where where = Where::current());

/// Returns x - trunc(x), with the sign of x.
Variable frac(const Variable& x, Where where = Where::current());
/// Returns sin(pi x) / (pi x), and 1 at 0.
Variable sinc(Variable x, Where where = Where::current());

struct NanToNumOptions {
  double nan = 0.0;
  std::optional<double> posinf = {};  // default: the largest finite number of the dtype
  std::optional<double> neginf = {};  // default: the lowest finite number of the dtype
};
/// Replaces NaN and infinities by the given numbers. The gradient passes where x is finite.
Variable nan_to_num(Variable x, NanToNumOptions options = {}, Where where = Where::current());
template <std::convertible_to<double> T>
Variable nan_to_num(Variable x, T nan, std::optional<double> posinf = {},
                    std::optional<double> neginf = {}, Where where = Where::current()) {
  return nan_to_num(std::move(x), NanToNumOptions{double(nan), posinf, neginf}, where);
}

namespace kernels {

// x and y have the same shape and float dtype.
extern Kernel<void(const Tensor&x, Tensor&y)> sinh, cosh, asin, acos, atan, asinh, acosh, atanh;
extern Kernel<void(const Tensor&x, Tensor&y)> erfc, erfinv, lgamma, digamma, sinc;
extern Kernel<void(const Tensor& x, int64_t n, Tensor& y)> polygamma;
/// An infinite replacement is written unchanged.
extern Kernel<void(const Tensor& x, double nan, double posinf, double neginf, Tensor& y)>
    nan_to_num;

}  // namespace kernels
}  // namespace tapegrad
