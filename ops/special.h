// Elementwise functions beyond those of ops/unary.h: inverse and hyperbolic ones, and those of
// probability. Integers are computed in the default float type.
#pragma once

#include <optional>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

Variable sinh(const Variable& x, Where where = Where::current());
Variable cosh(const Variable& x, Where where = Where::current());
/// NaN outside their domains: |x| <= 1 for asin, acos and atanh (infinite at the ends), x >= 1 for
/// acosh.
Variable asin(const Variable& x, Where where = Where::current());
Variable acos(const Variable& x, Where where = Where::current());
Variable atan(const Variable& x, Where where = Where::current());
Variable asinh(const Variable& x, Where where = Where::current());
Variable acosh(const Variable& x, Where where = Where::current());
Variable atanh(const Variable& x, Where where = Where::current());

/// 1 - erf(x), exact where that would be lost.
Variable erfc(const Variable& x, Where where = Where::current());
/// The y with erf(y) = x: infinite at -1 and 1, NaN beyond.
Variable erfinv(const Variable& x, Where where = Where::current());

/// log|gamma(x)|; inf at 0, -1, -2 ...
Variable lgamma(const Variable& x, Where where = Where::current());
/// The derivative of lgamma. At 0 it is -inf, at -0 inf; NaN at -1, -2 ... Beside its roots below 0
/// (-0.504, -1.573 ...) the error is a few roundings of pi / tan(pi x), which cancels there; beside
/// the one above 0, 1.46163, a few of the result.
Variable digamma(const Variable& x, Where where = Where::current());
/// The n-th derivative of digamma, 0 <= n <= 170.
Variable polygamma(int64_t n, const Variable& x, Where where = Where::current());

/// x - trunc(x), with x's sign.
Variable frac(const Variable& x, Where where = Where::current());
/// sin(pi x) / (pi x), and 1 at 0.
Variable sinc(const Variable& x, Where where = Where::current());

struct NanToNumOptions {
  double nan = 0.0;
  std::optional<double> posinf = {};  // the largest number of the type, unless given
  std::optional<double> neginf = {};  // the smallest
};
/// x with other numbers for NaN and the infinities. The gradient passes where x is finite.
Variable nan_to_num(const Variable& x, NanToNumOptions options = {},
                    Where where = Where::current());

namespace kernels {

// y has x's shape and dtype, a float.
extern Kernel<void(const Tensor&x, Tensor&y)> sinh, cosh, asin, acos, atan, asinh, acosh, atanh;
extern Kernel<void(const Tensor&x, Tensor&y)> erfc, erfinv, lgamma, digamma, sinc;
extern Kernel<void(const Tensor& x, int64_t n, Tensor& y)> polygamma;
/// An infinity as a replacement is what it says.
extern Kernel<void(const Tensor& x, double nan, double posinf, double neginf, Tensor& y)>
    nan_to_num;

}  // namespace kernels
}  // namespace tapegrad
