#include "ops/polynomials.h"

#include <numbers>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "ops/create.h"
#include "ops/internal/operands.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::special {
namespace {

constexpr int64_t kHighest = 512;

/// Coefficients of p[k + 1] = ((a k + b) x + c k + d) p[k] + (e k) p[k - 1], all divided by
/// k + 1 if `divides`. The polynomial of degree 1 is `slope` x + `offset`.
struct Family {
  double slope, offset;
  double a, b, c, d, e, last;  // last: constant part of the factor of p[k - 1]
  bool divides = false;
};
constexpr Family kChebyshev[] = {{1, 0, 0, 2, 0, 0, 0, -1},   // T
                                 {2, 0, 0, 2, 0, 0, 0, -1},   // U
                                 {2, -1, 0, 2, 0, 0, 0, -1},  // V
                                 {2, 1, 0, 2, 0, 0, 0, -1}};  // W
constexpr Family kHermite[] = {{2, 0, 0, 2, 0, 0, -2, 0}, {1, 0, 0, 1, 0, 0, -1, 0}};
constexpr Family kLaguerre = {-1, 1, 0, -1, 2, 1, -1, 0, true};
constexpr Family kLegendre = {1, 0, 2, 1, 0, 0, -1, 0, true};

/// Calls visit(k, p[k]) for the degrees 0 to n.
template <typename F>
void recur(const Family& f, const Variable& x, int64_t n, F visit) {
  Variable below = ones(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  visit(0, below);
  if (n == 0) return;
  Variable here = x * f.slope;
  if (f.offset != 0) here = here + f.offset;
  visit(1, here);
  for (int64_t k = 1; k < n; ++k) {
    const double i = double(k), scale = f.divides ? 1 / (i + 1) : 1, shift = f.c * i + f.d;
    Variable factor = x * ((f.a * i + f.b) * scale);
    if (shift != 0) factor = factor + shift * scale;
    Variable above = factor * here + below * ((f.e * i + f.last) * scale);
    below = std::move(here);
    here = std::move(above);
    visit(k + 1, here);
  }
}

Variable polynomial(const char* name, const Family& family, const Operand& x_or_number,
                    const Operand& degree, bool is_shifted = false) {
  const CallLine line(degree.where);
  const auto [given, n] = detail::Pair(name, x_or_number, degree);
  Variable x = is_float(given.dtype()) ? given : given.to(default_dtype());
  if (is_shifted) x = 2 * x - 1;
  const Variable whole = trunc(n.detach());
  const double highest = n.numel() == 0 ? -1 : max(whole).to(f64).item();
  if (highest > kHighest)
    fail<ArgumentError>(name, ": the degree ", highest, " is above ", kHighest);
  Variable y = zeros_like(x + 0 * whole.to(x.dtype()));
  if (!(highest >= 0)) return y;
  recur(family, x, int64_t(highest), [&](int64_t k, const Variable& p) {
    if (n.numel() > 1 || k == int64_t(highest)) y = where(whole == double(k), p, y);
  });
  return y;
}

}  // namespace

Variable chebyshev_polynomial_t(const Operand& x, const Operand& n) {
  return polynomial("chebyshev_polynomial_t", kChebyshev[0], x, n);
}
Variable chebyshev_polynomial_u(const Operand& x, const Operand& n) {
  return polynomial("chebyshev_polynomial_u", kChebyshev[1], x, n);
}
Variable chebyshev_polynomial_v(const Operand& x, const Operand& n) {
  return polynomial("chebyshev_polynomial_v", kChebyshev[2], x, n);
}
Variable chebyshev_polynomial_w(const Operand& x, const Operand& n) {
  return polynomial("chebyshev_polynomial_w", kChebyshev[3], x, n);
}
Variable shifted_chebyshev_polynomial_t(const Operand& x, const Operand& n) {
  return polynomial("shifted_chebyshev_polynomial_t", kChebyshev[0], x, n, true);
}
Variable shifted_chebyshev_polynomial_u(const Operand& x, const Operand& n) {
  return polynomial("shifted_chebyshev_polynomial_u", kChebyshev[1], x, n, true);
}
Variable shifted_chebyshev_polynomial_v(const Operand& x, const Operand& n) {
  return polynomial("shifted_chebyshev_polynomial_v", kChebyshev[2], x, n, true);
}
Variable shifted_chebyshev_polynomial_w(const Operand& x, const Operand& n) {
  return polynomial("shifted_chebyshev_polynomial_w", kChebyshev[3], x, n, true);
}
Variable hermite_polynomial_h(const Operand& x, const Operand& n) {
  return polynomial("hermite_polynomial_h", kHermite[0], x, n);
}
Variable hermite_polynomial_he(const Operand& x, const Operand& n) {
  return polynomial("hermite_polynomial_he", kHermite[1], x, n);
}
Variable laguerre_polynomial_l(const Operand& x, const Operand& n) {
  return polynomial("laguerre_polynomial_l", kLaguerre, x, n);
}
Variable legendre_polynomial_p(const Operand& x, const Operand& n) {
  return polynomial("legendre_polynomial_p", kLegendre, x, n);
}

Variable spherical_bessel_j0(const Variable& x, Where where) {
  return sinc(x * (1 / std::numbers::pi), where);
}

}  // namespace tapegrad::special
