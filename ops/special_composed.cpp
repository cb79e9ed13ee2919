#include "ops/special_composed.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/base/error.h"
#include "core/tape/op.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/extremes.h"
#include "ops/internal/operands.h"
#include "ops/special.h"
#include "ops/unary.h"

namespace tapegrad {

Variable entr(const Variable& x, Where where) {
  const double low = -std::numeric_limits<double>::infinity();
  return tapegrad::where(x < 0, low, -xlogy({x, where}, {x, where}));
}
Variable ndtr(const Variable& x, Where where) {
  return 0.5 * erfc(x * -std::numbers::sqrt2 / 2, where);
}

namespace {

struct Ndtri {
  static constexpr std::string_view kName = "ndtri";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }

  Tensor forward(const Tensor& x) {
    const Variable p = Variable(x).to(f64), tail = minimum(p, 1.0 - p), log_tail = log(tail);
    // Newton's method for log(ndtr(y)) = log(tail), which is concave. It starts with the first
    // terms of the asymptotic series, or near the middle with the inverse of erf.
    const Variable square = -2.0 * log_tail;
    const Variable far = -sqrt(square - log(square) - std::log(2 * std::numbers::pi));
    const Variable near = std::numbers::sqrt2 * erfinv(2.0 * tail - 1.0);
    Variable y = tapegrad::where(tail < 0.02, far, near);
    for (int i = 0; i < 4; ++i) {
      const Variable value = ndtr(y), density = exp(-0.5 * y * y) / kRootTwoPi;
      const Variable step = (log(value) - log_tail) * (value / density);
      y = tapegrad::where(isfinite(step), y - step, y);
    }
    y = tapegrad::where(tail == 0.0, -std::numeric_limits<double>::infinity(), y);
    return tapegrad::where(p > 0.5, -y, y).value().to(x.dtype());
  }
  Variable backward(const Variable& dy) const { return dy * (kRootTwoPi * exp(0.5 * y() * y())); }

 private:
  static constexpr double kRootTwoPi = std::numbers::sqrt2 / std::numbers::inv_sqrtpi;
};

}  // namespace

Variable ndtri(const Variable& x, Where where) {
  return apply(Ndtri{}, where, is_float(x.dtype()) ? x : x.to(default_dtype(), where));
}
Variable log_ndtr(const Variable& x, Where where) {
  const DType wide = detail::compute_dtype(x.dtype());
  if (wide != x.dtype()) return log_ndtr(x.to(wide, where), where).to(x.dtype(), where);
  constexpr double kFar = -10;
  constexpr int kTerms = 20;
  const Variable is_far = x<kFar, is_above = x> 0;
  // Below kFar: log(density(x) / -x) plus the logarithm of the asymptotic series in 1 / x^2.
  const Variable far = tapegrad::where(is_far, x, kFar), inverse = square(reciprocal(far));
  Variable series = inverse * -double(2 * kTerms - 1);
  for (int k = kTerms - 1; k > 0; --k) series = (series + 1) * inverse * -double(2 * k - 1);
  const double log_root = std::log(2 * std::numbers::pi) / 2;
  const Variable tail = log1p(series) - square(far) / 2 - log_root - log(-far);
  const Variable above = log1p(-ndtr(tapegrad::where(is_above, -x, 0)));
  const Variable middle = log(ndtr(tapegrad::where(is_far, 0, minimum(x, 0)), where));
  return tapegrad::where(is_far, tail, tapegrad::where(is_above, above, middle));
}
Variable mvlgamma(const Variable& x, int64_t p, Where where) {
  if (p < 1 || p > 1024) fail<ArgumentError>("mvlgamma: p is ", p, ", not in [1, 1024]");
  Variable y = lgamma(x, where);
  for (int64_t i = 1; i < p; ++i) y = y + lgamma(x - double(i) / 2, where);
  return y + double(p) * double(p - 1) / 4 * std::log(std::numbers::pi);
}

Frexp frexp(const Variable& x, Where where) {
  if (!is_float(x.dtype())) fail<DTypeError>("frexp: floats wanted, not ", x.dtype());
  const Variable size = abs(x.detach()).to(f64);
  const Variable has_none = logical_not(isfinite(size)) | (size == 0);
  // The logarithm is rounded near powers of 2, so the first exponent may be off by one.
  const Variable number = tapegrad::where(has_none, 0.5, size);
  Variable exponent = floor(log2(number)) + 1;
  const Variable first = ldexp(number, -exponent);
  exponent = exponent + (first >= 1).to(f64) - (first < 0.5).to(f64);
  return {ldexp({x, where}, -exponent.to(x.dtype())), exponent.to(i32)};
}

}  // namespace tapegrad
