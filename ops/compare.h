// Comparisons up to a tolerance, tests for infinities and signs, and ops that select an element by
// size or sign. The rules of ops/binary.h for operands, broadcasting and dtypes apply.
#pragma once

#include "ops/binary.h"

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
/// Returns 0 where x < 0, `values` where x = 0, and 1 where x > 0. No gradient.
Variable heaviside(const Variable& x, const Operand& values);
/// Returns the float64 or float32 that follows x in the direction of `other`. No gradient.
Variable nextafter(const Variable& x, const Operand& other);

Variable isinf(const Variable& x, Where where = Where::current());     // bool
Variable isposinf(const Variable& x, Where where = Where::current());  // bool
Variable isneginf(const Variable& x, Where where = Where::current());  // bool
/// Returns (bool) whether each element occurs in `values`, or does not occur if `invert`.
Variable isin(const Variable& x, const Variable& values, bool invert = false,
              Where where = Where::current());

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

}  // namespace tapegrad
