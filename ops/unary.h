// Elementwise ops of one operand. Where the result is not an integer (exp, sqrt, sin ...), integers
// are converted to the default float dtype.
//
// The ops take their operand by value. They overwrite an operand that the caller moves or does not
// name, as in exp(-x), if nothing else refers to its memory and no rule needs it.
#pragma once

#include <limits>

#include "core/base/by_name.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

Variable neg(Variable x, Where where = Where::current());
Variable abs(Variable x, Where where = Where::current());   // the gradient at 0 is 0
Variable sign(Variable x, Where where = Where::current());  // -1, 0 or 1; the gradient is 0
Variable exp(Variable x, Where where = Where::current());
Variable expm1(Variable x, Where where = Where::current());  // exp(x) - 1, accurate near 0
Variable log(Variable x, Where where = Where::current());
Variable log1p(Variable x, Where where = Where::current());  // log(1 + x), accurate near 0
Variable log2(Variable x, Where where = Where::current());
Variable log10(Variable x, Where where = Where::current());
Variable sqrt(Variable x, Where where = Where::current());  // the derivative at 0 is inf
Variable rsqrt(Variable x, Where where = Where::current());
Variable square(Variable x, Where where = Where::current());
Variable reciprocal(Variable x, Where where = Where::current());
Variable sin(Variable x, Where where = Where::current());
Variable cos(Variable x, Where where = Where::current());
Variable tan(Variable x, Where where = Where::current());
Variable tanh(Variable x, Where where = Where::current());
Variable erf(Variable x, Where where = Where::current());

/// Rounding; the gradient is 0. round rounds halves to even, as NumPy does.
Variable floor(Variable x, Where where = Where::current());
Variable ceil(Variable x, Where where = Where::current());
Variable round(Variable x, Where where = Where::current());
/// Rounds to `decimals` decimal places. A negative number rounds to tens, hundreds ...
Variable round(const Variable& x, int decimals, Where where = Where::current());
struct RoundOptions {
  ByName by_name = {};
  int decimals = 0;
};
Variable round(const Variable& x, RoundOptions options, Where where = Where::current());
Variable trunc(Variable x, Where where = Where::current());

struct ClampOptions {
  Number min = -std::numeric_limits<double>::infinity();
  Number max = std::numeric_limits<double>::infinity();
};
/// Limits x to [min, max]; NaN stays NaN. The gradient passes where min <= x <= max.
Variable clamp(Variable x, ClampOptions options, Where where = Where::current());

/// Returns 1 where x > 0, else 0; the gradient is 0.
Variable step(Variable x, Where where = Where::current());

Variable isnan(const Variable& x, Where where = Where::current());     // bool
Variable isfinite(const Variable& x, Where where = Where::current());  // bool

/// In-place variants.
Variable& neg_(Variable& x, Where where = Where::current());
Variable& exp_(Variable& x, Where where = Where::current());
Variable& sqrt_(Variable& x, Where where = Where::current());
Variable& tanh_(Variable& x, Where where = Where::current());
Variable& clamp_(Variable& x, ClampOptions options, Where where = Where::current());

namespace kernels {

// y has x's shape, and x's dtype unless y is bool.
using Unary = Kernel<void(const Tensor& x, Tensor& y)>;

extern Unary neg, abs, sign, square, step;  // also for integers
extern Unary exp, expm1, log, log1p, log2, log10, sqrt, rsqrt, reciprocal;
extern Unary sin, cos, tan, tanh, erf, floor, ceil, round, trunc;
extern Unary isnan, isfinite;  // y is bool
extern Kernel<void(const Tensor& x, Number min, Number max, Tensor& y)> clamp;

/// Factors that are constant below, between and above two bounds.
struct Pieces {
  double low, high;              // -inf and inf mean no bound
  double below, between, above;  // a factor of 0 gives 0 even if dy is inf or NaN
  bool closed = false;           // whether the bounds belong to `between`

  bool operator==(const Pieces&) const = default;
};
/// Computes dx = dy times the factor at x; the factor at NaN is `between`.
extern Kernel<void(const Tensor& dy, const Tensor& x, const Pieces& pieces, Tensor& dx)> piecewise;

}  // namespace kernels

/// Returns dy times a factor that is piecewise constant in x: the gradient of clamp, leaky_relu and
/// similar ops. Differentiable with respect to dy; the gradient with respect to x is 0.
Variable piecewise(const Variable& dy, const Variable& x, const kernels::Pieces& pieces);

}  // namespace tapegrad
