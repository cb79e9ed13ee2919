// Elementwise ops of one operand. Integers are computed in the default float type where the result
// is not a whole number (exp, sqrt, sin ...).
#pragma once

#include <limits>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

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

namespace kernels {

// y has x's shape, and its dtype unless it is bool.
using Unary = Kernel<void(const Tensor& x, Tensor& y)>;

extern Unary neg, abs, sign, square, step;  // of whole numbers too
extern Unary exp, expm1, log, log1p, log2, sqrt, rsqrt, reciprocal;
extern Unary sin, cos, tan, tanh, erf, floor, ceil, round, trunc;
extern Unary isnan, isfinite;  // y is bool
extern Kernel<void(const Tensor& x, Number min, Number max, Tensor& y)> clamp;

/// dx = dy (1 - y^2)
extern Kernel<void(const Tensor& dy, const Tensor& y, Tensor& dx)> tanh_backward;

/// Factors of a gradient that are constant between bounds.
struct Pieces {
  double low, high;              // -inf and inf when there is none
  double below, between, above;  // a factor 0 gives 0, also of inf and NaN
  bool closed = false;           // whether the bounds themselves are between
};
/// dx = dy times the factor at x; that of NaN is `between`.
extern Kernel<void(const Tensor& dy, const Tensor& x, const Pieces& pieces, Tensor& dx)> piecewise;

}  // namespace kernels

/// dy times a factor that is piecewise constant in x: the gradient of clamp, leaky_relu and their
/// like. Differentiable in dy; the gradient in x is 0.
Variable piecewise(const Variable& dy, const Variable& x, const kernels::Pieces& pieces);

}  // namespace tapegrad
