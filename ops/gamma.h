// Incomplete gamma functions and the Hurwitz zeta function. Operands broadcast, and one of them may
// be a number; integers are converted to the default float dtype.
#pragma once

#include "ops/binary.h"

namespace tapegrad {

/// Return P(a, x) and Q(a, x) = 1 - P(a, x), the regularised lower and upper incomplete gamma
/// functions; NaN for a < 0 or x < 0. The gradient in `a` has no derivative.
Variable igamma(const Operand& a, const Operand& x);
Variable igammac(const Operand& a, const Operand& x);

/// Returns the Hurwitz zeta function, the sum of (q + k)^-s over k = 0, 1, ...: inf for s = 1 and
/// for q = 0, -1, -2 ..., NaN for s < 1, and NaN for q < 0 unless s is a whole number. Throws
/// AutogradError for a gradient in s.
Variable zeta(const Operand& s, const Operand& q);
}  // namespace tapegrad
