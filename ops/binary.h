// Elementwise ops of two operands, with NumPy broadcasting: shapes are aligned at the right, and
// sizes are equal or 1. An operand is a Variable or a number, on either side.
//
// Dtypes are promoted as in PyTorch (core/base/dtype.h). Of two Variables, one without dimensions
// counts like a number of its kind: float32 [2, 3] * float64 [] stays float32. A number takes the
// type of the other operand unless it is of a higher kind; one that an integer type cannot hold is
// an ArgumentError. Arithmetic applies a number to sixteen-bit floats in float32 and rounds only
// the result, so 1e-8 is not 0 beside float16; comparisons, maximum and minimum round the number
// first. The same holds for a wider Variable without dimensions. Arithmetic on int8, int16 and bool
// is a KernelError: cast them. Integers wrap around.
//
//   y = 2 * x - 1;
//   y = maximum(x, 0.0);
#pragma once

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// An argument of a binary op: a variable or a number, and the line that wrote it.
struct Operand {
  Operand(const Variable& variable, Where where = Where::current())
      : variable(&variable), where(where) {}
  template <typename T>
  requires std::is_arithmetic_v<T> Operand(T number, Where where = Where::current())
      : number(number), where(where) {}

  const Variable* variable = nullptr;  // of the caller; null for a number
  Number number = 0;
  Where where;
};

Variable add(const Operand& a, const Operand& b);
Variable sub(const Operand& a, const Operand& b);
Variable mul(const Operand& a, const Operand& b);
/// True division: integers give the default float type.
Variable div(const Operand& a, const Operand& b);
/// a to the power b. 0^0 is 1, with derivative 0 in a; in b it is 0 at a = 0. Integers stay
/// integers and wrap around: a negative exponent truncates 1 / a^-b (0^-1 is 0 too), and as a plain
/// number is an ArgumentError.
Variable pow(const Operand& a, const Operand& b);
/// The larger; NaN if either is NaN. A tie sends half of the gradient to each.
Variable maximum(const Operand& a, const Operand& b);
Variable minimum(const Operand& a, const Operand& b);
/// The angle of the point (x, y), in (-pi, pi].
Variable atan2(const Operand& y, const Operand& x);
/// The remainder of C's fmod: it has the sign of a. Of a division by 0 it is NaN, for integers 0.
Variable fmod(const Operand& a, const Operand& b);

Variable operator+(const Operand& a, const Operand& b);
Variable operator-(const Operand& a, const Operand& b);
Variable operator*(const Operand& a, const Operand& b);
Variable operator/(const Operand& a, const Operand& b);
Variable operator-(const Operand& x);

/// Comparisons give bool and have no gradient.
Variable eq(const Operand& a, const Operand& b);
Variable ne(const Operand& a, const Operand& b);
Variable lt(const Operand& a, const Operand& b);
Variable le(const Operand& a, const Operand& b);
Variable gt(const Operand& a, const Operand& b);
Variable ge(const Operand& a, const Operand& b);
Variable operator==(const Operand& a, const Operand& b);
Variable operator!=(const Operand& a, const Operand& b);
Variable operator<(const Operand& a, const Operand& b);
Variable operator<=(const Operand& a, const Operand& b);
Variable operator>(const Operand& a, const Operand& b);
Variable operator>=(const Operand& a, const Operand& b);

/// Of the truth of each element (not zero); give bool.
Variable logical_and(const Operand& a, const Operand& b);
Variable logical_or(const Operand& a, const Operand& b);
Variable logical_xor(const Operand& a, const Operand& b);
Variable logical_not(const Variable& x, Where where = Where::current());

/// a where the condition (bool) holds, else b; the three broadcast. Only the chosen side receives a
/// gradient, but 0 * inf is NaN further back: keep the side that is not chosen finite.
Variable where(const Variable& condition, const Operand& a, const Operand& b);

/// Written into the first operand, whose shape and dtype stay: a result of another shape or dtype
/// is a ShapeError or DTypeError, and nothing is written.
Variable& add_(Variable& a, const Operand& b);
Variable& sub_(Variable& a, const Operand& b);
Variable& mul_(Variable& a, const Operand& b);
Variable& div_(Variable& a, const Operand& b);
Variable& operator+=(Variable& a, const Operand& b);
Variable& operator-=(Variable& a, const Operand& b);
Variable& operator*=(Variable& a, const Operand& b);
Variable& operator/=(Variable& a, const Operand& b);

namespace kernels {

// Operands of one dtype that broadcast to y's shape; y may be one of them.
using Binary = Kernel<void(const Tensor& a, const Tensor& b, Tensor& y)>;
extern Binary add, sub, mul, div, pow, maximum, minimum, atan2, fmod;
// y is bool.
extern Binary eq, ne, lt, le, gt, ge;
// All are bool.
extern Binary logical_and, logical_or;
/// dx = dy where a > b, dy / 2 where they are equal, dy where either is NaN, else 0.
extern Kernel<void(const Tensor& dy, const Tensor& a, const Tensor& b, Tensor& dx)> larger_gradient;
/// y = a where the condition (bool) holds, else b.
extern Kernel<void(const Tensor& a, const Tensor& b, const Tensor& condition, Tensor& y)> where;

}  // namespace kernels
}  // namespace tapegrad
