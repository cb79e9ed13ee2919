// Elementwise arithmetic beyond that of ops/binary.h, whose rules for operands, broadcasting and
// dtypes hold here too.
#pragma once

#include "ops/binary.h"

namespace tapegrad {

/// a log(b), and 0 where a = 0 (NaN where b is NaN). Gives a float.
Variable xlogy(const Operand& a, const Operand& b);
/// log(exp(a) + exp(b)) without overflow. Floats only.
Variable logaddexp(const Operand& a, const Operand& b);
/// sqrt(a^2 + b^2) without overflow; the gradient at (0, 0) is 0. Gives a float.
Variable hypot(const Operand& a, const Operand& b);

/// a - b floor(a / b), with the sign of b, as Python's %. Of a division by 0 it is NaN, for
/// integers an ArgumentError.
Variable remainder(const Operand& a, const Operand& b);
/// floor(a / b) by way of the remainder, as Python's //; no gradient. Floats divided by 0 as in
/// a / b, integers an ArgumentError.
Variable floor_divide(const Operand& a, const Operand& b);

/// start + weight (end - start): start at weight 0, end at weight 1, both exactly. Floats only.
Variable lerp(const Variable& start, const Variable& end, const Operand& weight);

/// input + value a b.
Variable addcmul(const Variable& input, const Variable& a, const Variable& b, Number value = 1,
                 Where where = Where::current());
/// input + value a / b. Floats only.
Variable addcdiv(const Variable& input, const Variable& a, const Variable& b, Number value = 1,
                 Where where = Where::current());

/// Bit by bit, of integers and bool.
Variable bitwise_and(const Operand& a, const Operand& b);
Variable bitwise_or(const Operand& a, const Operand& b);
Variable bitwise_xor(const Operand& a, const Operand& b);
Variable bitwise_not(const Variable& x, Where where = Where::current());
/// a 2^b and a / 2^b rounded down, of integers. All bits leave at once for a b that is negative or
/// as large as the type is wide: left 0, right 0 or -1 by the sign of a.
Variable bitwise_left_shift(const Operand& a, const Operand& b);
Variable bitwise_right_shift(const Operand& a, const Operand& b);
/// The greatest common divisor of integers, not negative; gcd(0, 0) = 0.
Variable gcd(const Operand& a, const Operand& b);

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
};
/// |a - b| <= atol + rtol |b|, or a = b (so infinities are close to themselves); bool.
Variable isclose(const Variable& a, const Variable& b, CloseOptions options = {},
                 Where where = Where::current());
/// Whether all are close: one bool.
Variable allclose(const Variable& a, const Variable& b, CloseOptions options = {},
                  Where where = Where::current());

namespace kernels {

// Operands of one dtype that broadcast to y's shape.
extern Kernel<void(const Tensor&a, const Tensor&b, Tensor&y)> xlogy, logaddexp, hypot;
// An integer divisor 0 gives 0; the ops refuse it before.
extern Kernel<void(const Tensor&a, const Tensor&b, Tensor&y)> remainder, floor_divide;
extern Kernel<void(const Tensor&a, const Tensor&b, Tensor&y)> bitwise_and, bitwise_or, bitwise_xor,
    bitwise_left_shift, bitwise_right_shift, gcd;
extern Kernel<void(const Tensor& start, const Tensor& end, const Tensor& weight, Tensor& y)> lerp;

}  // namespace kernels
}  // namespace tapegrad
