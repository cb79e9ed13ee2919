// Elementwise ops of one operand. Integers are computed in the default float type where the result
// is not a whole number (exp, sqrt, sin ...).
#pragma once

#include <limits>

#include "core/dispatcher.h"
#include "core/variable.h"

namespace tapegrad {

Variable neg(const Variable& x, Where where = Where::current());
Variable abs(const Variable& x, Where where = Where::current());   // abs'(0) = 0
Variable sign(const Variable& x, Where where = Where::current());  // -1, 0 or 1; gradient 0
Variable exp(const Variable& x, Where where = Where::current());
Variable expm1(const Variable& x, Where where = Where::current());  // exp(x) - 1, exact near 0
Variable log(const Variable& x, Where where = Where::current());
Variable log1p(const Variable& x, Where where = Where::current());  // log(1 + x), exact near 0
Variable log2(const Variable& x, Where where = Where::current());
Variable sqrt(const Variable& x, Where where = Where::current());  // sqrt'(0) = inf
Variable rsqrt(const Variable& x, Where where = Where::current());
Variable square(const Variable& x, Where where = Where::current());
Variable reciprocal(const Variable& x, Where where = Where::current());
Variable sin(const Variable& x, Where where = Where::current());
Variable cos(const Variable& x, Where where = Where::current());
Variable tan(const Variable& x, Where where = Where::current());
Variable tanh(const Variable& x, Where where = Where::current());
Variable erf(const Variable& x, Where where = Where::current());

/// Rounding; gradient 0. round takes halves to even, as NumPy does.
Variable floor(const Variable& x, Where where = Where::current());
Variable ceil(const Variable& x, Where where = Where::current());
Variable round(const Variable& x, Where where = Where::current());
Variable trunc(const Variable& x, Where where = Where::current());

struct ClampOptions {
  Number min = -std::numeric_limits<double>::infinity();
  Number max = std::numeric_limits<double>::infinity();
};
/// x limited to [min, max]; NaN stays. The gradient passes where min <= x <= max, bounds included.
Variable clamp(const Variable& x, ClampOptions options, Where where = Where::current());

/// 1 where x > 0, else 0; gradient 0.
Variable step(const Variable& x, Where where = Where::current());

Variable isnan(const Variable& x, Where where = Where::current());     // bool
Variable isfinite(const Variable& x, Where where = Where::current());  // bool

/// Written into x.
Variable& neg_(Variable& x, Where where = Where::current());
Variable& exp_(Variable& x, Where where = Where::current());
Variable& sqrt_(Variable& x, Where where = Where::current());
Variable& tanh_(Variable& x, Where where = Where::current());
Variable& clamp_(Variable& x, ClampOptions options, Where where = Where::current());

}  // namespace tapegrad
