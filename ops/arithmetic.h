// Further elementwise arithmetic: logarithms of sums, powers of 2, remainders, interpolation. The
// rules of ops/binary.h for operands, broadcasting and dtypes apply.
#pragma once

#include <optional>

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
/// Returns floor(a / b), computed from the remainder, as Python's //. The gradient is 0. Division
/// by 0 gives a / b for floats and throws ArgumentError for integers.
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

/// Returns a * 2^b without overflow of 2^b: ldexp(0, 2000) is 0.
Variable ldexp(const Operand& a, const Operand& b);
/// Returns a^b, computed in float64.
Variable float_power(const Operand& a, const Operand& b);
/// Returns log2(2^a + 2^b) without overflow. Floats only.
Variable logaddexp2(const Operand& a, const Operand& b);

Variable exp2(const Variable& x, Where where = Where::current());     // 2^x
Variable deg2rad(const Variable& x, Where where = Where::current());  // x * pi / 180
Variable rad2deg(const Variable& x, Where where = Where::current());  // x * 180 / pi
/// Returns log(x / (1 - x)); x is first limited to [eps, 1 - eps] if eps is given.
Variable logit(const Variable& x, std::optional<double> eps = {}, Where where = Where::current());

namespace kernels {

// The operands have one dtype and broadcast to y's shape.
extern Kernel<void(const Tensor&a, const Tensor&b, Tensor&y)> xlogy, logaddexp, hypot;
// A zero integer divisor gives 0; the ops check for such a divisor before the call.
extern Kernel<void(const Tensor&a, const Tensor&b, Tensor&y)> remainder, floor_divide;
extern Kernel<void(const Tensor& start, const Tensor& end, const Tensor& weight, Tensor& y)> lerp;

}  // namespace kernels

}  // namespace tapegrad
