// Elementwise ops of two operands with NumPy broadcasting: shapes are aligned at the right, and
// sizes must be equal or 1. Either operand may be a Variable or a number.
//
// Dtypes are promoted as in PyTorch (core/base/dtype.h). If only one of two Variables has rank 0,
// it is treated like a number of its dtype's kind: float32 [2, 3] * float64 [] gives float32. A
// number takes the dtype of the other operand unless the number is of a higher kind (bool < integer
// < float). Arithmetic throws ArgumentError for a number that an integer dtype cannot hold, and
// KernelError for bool, of which there are sums, products and extremes. Integers wrap around.
//
// Arithmetic of sixteen-bit floats with a number, or with a wider Variable of rank 0, is computed
// in float32 and rounded once, so that 1e-8 does not become 0 in float16. Comparisons, maximum and
// minimum round the number first.
//
//   y = 2 * x - 1;
//   y = maximum(x, 0.0);
#pragma once

#include "core/base/by_name.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// An operand of a binary op: a Variable or a number, with the source location of the call. An op
/// may overwrite a Variable that was passed as an rvalue, if nothing else refers to its memory. A
/// copy of an Operand does not have this permission, so a function may use its Operands any number
/// of times; std::move() passes the permission on.
struct Operand {
  Operand(const Variable& from, Where line = Where::current()) : variable(&from), where(line) {}
  Operand(Variable&& from, Where line = Where::current())
      : variable(&from), is_last_use(true), where(line) {}
  template <typename T>
  requires std::is_arithmetic_v<T> Operand(T value, Where line = Where::current())
      : number(value), where(line) {}
  Operand(Number value, Where line = Where::current()) : number(value), where(line) {}
  template <std::same_as<Tensor> T>
  Operand(const T&) noexcept(detail::refuse_tensor<T>()) {}

  Operand(const Operand& from) : variable(from.variable), number(from.number), where(from.where) {}
  Operand(Operand&&) = default;
  Operand& operator=(Operand&&) = default;

  const Variable* variable = nullptr;  // owned by the caller; null for a number
  bool is_last_use = false;
  Number number = 0;
  Where where;
};

Variable add(Operand a, Operand b);
Variable sub(Operand a, Operand b);
/// Return a + alpha * b and a - alpha * b. Templates, because g++ 12 otherwise takes {.alpha = 2}
/// for a Number.
template <typename = void>
Variable add(const Operand& a, const Operand& b, Number alpha);
template <typename = void>
Variable sub(const Operand& a, const Operand& b, Number alpha);
struct AlphaOptions {
  ByName by_name = {};
  Number alpha = 1;
};
Variable add(const Operand& a, const Operand& b, AlphaOptions options);
Variable sub(const Operand& a, const Operand& b, AlphaOptions options);
Variable mul(Operand a, Operand b);
/// Divides a by b. Integers are converted to the default float dtype.
Variable div(Operand a, Operand b);
/// Divides and rounds: "floor" rounds down, "trunc" rounds towards zero. Integers stay integers.
/// The gradient is 0.
Variable div(const Operand& a, const Operand& b, std::string_view rounding_mode);
struct DivOptions {
  ByName by_name = {};
  std::string_view rounding_mode = {};  // "trunc" or "floor"; default: true division
};
/// Divides with an option: div(a, b, {.rounding_mode = "floor"}).
inline Variable div(const Operand& a, const Operand& b, DivOptions options) {
  return options.rounding_mode.empty() ? div(a, b) : div(a, b, options.rounding_mode);
}
/// Returns a to the power b. 0^0 is 1, and its gradient with respect to a is 0; the gradient with
/// respect to b is 0 wherever a = 0. Integer powers are integers and wrap around. A negative
/// integer exponent truncates 1 / a^-b towards zero (0^-1 gives 0) if it is an element of a tensor,
/// and throws ArgumentError if it is a number.
Variable pow(Operand a, Operand b);
/// Returns the larger element; NaN if either is NaN. Equal elements share the gradient equally.
Variable maximum(Operand a, Operand b);
Variable minimum(Operand a, Operand b);
/// Returns the angle of the point (x, y) in radians, in (-pi, pi].
Variable atan2(Operand y, Operand x);
/// Returns the remainder of a / b as C's fmod, with the sign of a. Division by 0 gives NaN for
/// floats and 0 for integers.
Variable fmod(Operand a, Operand b);

Variable operator+(Operand a, Operand b);
Variable operator-(Operand a, Operand b);
Variable operator*(Operand a, Operand b);
Variable operator/(Operand a, Operand b);
Variable operator-(Operand x);

/// Limits x to [min, max], which broadcast; PyTorch's clamp with tensors as bounds. The gradient
/// flows to the operand that the result is taken from, and to x if x equals a bound.
Variable clamp(Variable x, const Operand& min, const Operand& max);
/// Limits x from below. Equivalent to clamp_min().
Variable clamp(Variable x, const Operand& min);
Variable clamp_min(Variable x, const Operand& min);
Variable clamp_max(Variable x, const Operand& max);

/// Comparisons return bool and have no gradient.
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

/// Logical ops treat nonzero elements as true and return bool.
Variable logical_and(const Operand& a, const Operand& b);
Variable logical_or(const Operand& a, const Operand& b);
Variable logical_xor(const Operand& a, const Operand& b);
Variable logical_not(const Variable& x, Where where = Where::current());
/// `!mask` is logical_not(mask).
Variable operator!(const Variable& x);

/// Returns a where condition (bool) is true, and b elsewhere; all three broadcast. Only the
/// selected operand receives a gradient. If an op before the unselected operand has an infinite
/// derivative, 0 * inf gives NaN, so keep the unselected operand finite.
Variable where(const Variable& condition, Operand a, Operand b);

/// In-place variants: the result is written into a, which keeps its shape and dtype; a wider float
/// is rounded. For another shape, or dtype if a has no floats: ShapeError, DTypeError, a unchanged.
Variable& add_(Variable& a, const Operand& b);
Variable& sub_(Variable& a, const Operand& b);
Variable& mul_(Variable& a, const Operand& b);
Variable& div_(Variable& a, const Operand& b);
/// Overloads for a view, as in x[0] += 1.
void operator+=(Variable&& a, const Operand& b);
void operator-=(Variable&& a, const Operand& b);
void operator*=(Variable&& a, const Operand& b);
void operator/=(Variable&& a, const Operand& b);
Variable& operator+=(Variable& a, const Operand& b);
Variable& operator-=(Variable& a, const Operand& b);
Variable& operator*=(Variable& a, const Operand& b);
Variable& operator/=(Variable& a, const Operand& b);

namespace kernels {

// The operands have one dtype and broadcast to y's shape; y may alias an operand.
using Binary = Kernel<void(const Tensor& a, const Tensor& b, Tensor& y)>;
extern Binary add, sub, mul, div, pow, maximum, minimum, atan2, fmod;
// y is bool.
extern Binary eq, ne, lt, le, gt, ge;
// a, b and y are bool.
extern Binary logical_and, logical_or;
/// Computes dx = dy where a > b, dy / 2 where a = b, dy where either is NaN, else 0.
extern Kernel<void(const Tensor& dy, const Tensor& a, const Tensor& b, Tensor& dx)> larger_gradient;
/// Computes y = a where condition (bool) is true, else b.
extern Kernel<void(const Tensor& a, const Tensor& b, const Tensor& condition, Tensor& y)> where;

}  // namespace kernels
}  // namespace tapegrad
