// Ops on the bits of integers and masks, and divisors of integers. The rules of ops/binary.h for
// operands, broadcasting and dtypes apply.
#pragma once

#include "ops/binary.h"

namespace tapegrad {

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

/// Returns the least common multiple of integers; never negative. lcm(0, x) = 0.
Variable lcm(const Operand& a, const Operand& b);

namespace kernels {

// The operands have one dtype and broadcast to y's shape.
extern Kernel<void(const Tensor&a, const Tensor&b, Tensor&y)> bitwise_and, bitwise_or, bitwise_xor,
    bitwise_left_shift, bitwise_right_shift, gcd;

}  // namespace kernels

}  // namespace tapegrad
