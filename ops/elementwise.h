// Further elementwise functions: signs, powers of 2, limits, infinities. The rules of ops/binary.h
// for operands, broadcasting and dtypes apply; functions whose result is not an integer convert
// integers to the default float dtype.
#pragma once

#include "ops/binary.h"
#include "ops/special.h"

namespace tapegrad {

/// Return the larger or smaller element; a NaN is ignored if the other element is a number. Equal
/// elements share the gradient equally.
Variable fmax(const Operand& a, const Operand& b);
Variable fmin(const Operand& a, const Operand& b);

/// Returns the magnitude of a with the sign of b; b = -0 is negative. Floats only. The gradient
/// with respect to b is 0.
Variable copysign(const Operand& a, const Operand& b);
/// Returns (bool) whether the sign is negative, also for -0. The sign of NaN is positive.
Variable signbit(const Variable& x, Where where = Where::current());
/// Returns a * 2^b without overflow of 2^b: ldexp(0, 2000) is 0.
Variable ldexp(const Operand& a, const Operand& b);
/// Returns a^b, computed in float64.
Variable float_power(const Operand& a, const Operand& b);
/// Returns log2(2^a + 2^b) without overflow. Floats only.
Variable logaddexp2(const Operand& a, const Operand& b);
/// Returns 0 where x < 0, `values` where x = 0, and 1 where x > 0. No gradient.
Variable heaviside(const Variable& x, const Operand& values);
/// Returns the float64 or float32 that follows x in the direction of `other`. No gradient.
Variable nextafter(const Variable& x, const Operand& other);
/// Returns the least common multiple of integers; never negative. lcm(0, x) = 0.
Variable lcm(const Operand& a, const Operand& b);

Variable exp2(const Variable& x, Where where = Where::current());     // 2^x
Variable deg2rad(const Variable& x, Where where = Where::current());  // x * pi / 180
Variable rad2deg(const Variable& x, Where where = Where::current());  // x * 180 / pi
/// Returns log(x / (1 - x)); x is first limited to [eps, 1 - eps] if eps is given.
Variable logit(const Variable& x, std::optional<double> eps = {}, Where where = Where::current());

Variable isinf(const Variable& x, Where where = Where::current());     // bool
Variable isposinf(const Variable& x, Where where = Where::current());  // bool
Variable isneginf(const Variable& x, Where where = Where::current());  // bool
/// Returns (bool) whether each element occurs in `values`, or does not occur if `invert`.
Variable isin(const Variable& x, const Variable& values, bool invert = false,
              Where where = Where::current());

}  // namespace tapegrad
