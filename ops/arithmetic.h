// Further elementwise arithmetic. The rules of ops/binary.h for operands, broadcasting and dtypes
// apply.
#pragma once

#include "ops/binary.h"

namespace tapegrad {

/// Returns a * log(b), and 0 where a = 0 unless b is NaN. Integers give the default float dtype.
Variable xlogy(Operand a, Operand b);
/// Returns x * log1p(y), and 0 where x = 0 unless y is NaN.
Variable xlog1py(const Operand& x, const Operand& y);
/// Returns log(exp(a) + exp(b)) without overflow. Floats only.
Variable logaddexp(Operand a, Operand b);
/// Returns sqrt(a^2 + b^2) without overflow. The gradient at (0, 0) is 0. Integers give the default
/// float dtype.
Variable hypot(Operand a, Operand b);

/// Returns a - b floor(a / b), which has the sign of b, as Python's %. Division by 0 gives NaN for
/// floats and throws ArgumentError for integers.
Variable remainder(Operand a, Operand b);
Variable operator%(Operand a, Operand b);
/// Returns floor(a / b), computed from the remainder, as Python's //. No gradient. Division by 0
/// gives a / b for floats and throws ArgumentError for integers.
Variable floor_divide(Operand a, Operand b);

/// Returns start + weight (end - start); exactly start at weight 0 and exactly end at weight 1.
/// Floats only.
Variable lerp(Variable start, Variable end, Operand weight);

/// Returns input + value * a * b.
Variable addcmul(Variable input, const Variable& a, const Variable& b, Number value = 1,
                 Where where = Where::current());
/// Returns input + value * a / b. Floats only.
Variable addcdiv(Variable input, const Variable& a, const Variable& b, Number value = 1,
                 Where where = Where::current());
/// Option of addcmul(x, a, b, {.value = 0.5}).
struct ValueOption {
  ByName by_name = {};
  Number value = 1;
};
template <std::convertible_to<const Variable&> V>
Variable addcmul(const V& input, const Variable& a, const Variable& b, ValueOption option,
                 Where where = Where::current()) {
  return addcmul(input, a, b, option.value, where);
}
template <std::convertible_to<const Variable&> V>
Variable addcdiv(const V& input, const Variable& a, const Variable& b, ValueOption option,
                 Where where = Where::current()) {
  return addcdiv(input, a, b, option.value, where);
}

/// Bitwise ops on integers and bool.
Variable bitwise_and(Operand a, Operand b);
Variable bitwise_or(Operand a, Operand b);
Variable bitwise_xor(Operand a, Operand b);
Variable bitwise_not(Variable x, Where where = Where::current());
// `a & b`, `a | b`, `a ^ b` and `~a` on masks and integers.
Variable operator&(Variable a, Operand b);
Variable operator|(Variable a, Operand b);
Variable operator^(Variable a, Operand b);
Variable operator~(Operand a);
/// In-place variants: `finished |= token == end`, `mask[0] &= other`. Errors are those of
/// operator+=.
Variable& operator&=(Variable& a, const Operand& b);
Variable& operator|=(Variable& a, const Operand& b);
Variable& operator^=(Variable& a, const Operand& b);
void operator&=(Variable&& a, const Operand& b);
void operator|=(Variable&& a, const Operand& b);
void operator^=(Variable&& a, const Operand& b);
void operator&=(Variable::Part&& a, const Operand& b);
void operator|=(Variable::Part&& a, const Operand& b);
void operator^=(Variable::Part&& a, const Operand& b);
/// Return a * 2^b, and a / 2^b rounded down, for integers. A shift count that is negative or at
/// least the width of the dtype shifts out all bits: the left shift gives 0, the right shift 0 or
/// -1 by the sign of a.
Variable bitwise_left_shift(Operand a, Operand b);
Variable bitwise_right_shift(Operand a, Operand b);
template <std::integral N>
Variable operator<<(const Variable& a, N count) {
  return bitwise_left_shift(a, int64_t(count));
}
template <std::integral N>
Variable operator>>(const Variable& a, N count) {
  return bitwise_right_shift(a, int64_t(count));
}
/// Returns the greatest common divisor of integers, which is never negative. gcd(0, 0) = 0.
Variable gcd(Operand a, Operand b);

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
};
/// Returns (bool) whether |a - b| <= atol + rtol |b| or a = b; equal infinities are therefore
/// close.
Variable isclose(const Variable& a, const Variable& b, CloseOptions options = {},
                 Where where = Where::current());
/// Returns whether all elements are close. Waits for a GPU.
bool allclose(const Variable& a, const Variable& b, CloseOptions options = {},
              Where where = Where::current());

inline Variable isclose(const Variable& a, const Variable& b, double rtol, double atol = 1e-8,
                        bool equal_nan = false, Where where = Where::current()) {
  return isclose(a, b, {rtol, atol, equal_nan}, where);
}
inline bool allclose(const Variable& a, const Variable& b, double rtol, double atol = 1e-8,
                     bool equal_nan = false, Where where = Where::current()) {
  return allclose(a, b, {rtol, atol, equal_nan}, where);
}
/// Returns whether shapes and all elements are equal, without broadcasting.
bool equal(const Variable& a, const Variable& b, Where where = Where::current());

namespace kernels {

// The operands have one dtype and broadcast to y's shape.
extern Kernel<void(const Tensor&a, const Tensor&b, Tensor&y)> xlogy, logaddexp, hypot;
// A zero integer divisor gives 0; the ops check for such a divisor before the call.
extern Kernel<void(const Tensor&a, const Tensor&b, Tensor&y)> remainder, floor_divide;
extern Kernel<void(const Tensor&a, const Tensor&b, Tensor&y)> bitwise_and, bitwise_or, bitwise_xor,
    bitwise_left_shift, bitwise_right_shift, gcd;
extern Kernel<void(const Tensor& start, const Tensor& end, const Tensor& weight, Tensor& y)> lerp;

}  // namespace kernels
}  // namespace tapegrad
