// The logarithm of the gamma function and its first two derivatives, in vectors of double, for
// arguments and results that are floats. Results that are rounded to float have errors below 0.51
// ulp, also near roots (tests/ops/special_test.cpp).
//
// A positive argument below 8 is moved to [1, 2), where there is a fit; from 8 on, the asymptotic
// series is used. A negative argument is reflected.
#pragma once

#include "backends/cpu/tools/functions.h"
#include "backends/formulas_special.h"

namespace tapegrad::backends::cpu::functions {

inline constexpr double kPi = formulas::special::kPi;
inline constexpr int kGammaSteps = 6;  // from an argument below 8 down to [1, 2)

/// A positive argument q moved to [1, 2).
struct MovedArgument {
  Lanes<double> t;
  xsimd::batch_bool<double> is_low, is_high;  // q < 1, q >= 8

  explicit MovedArgument(Lanes<double> q) {
    const Lanes<double> one(1.0);
    is_low = q < one;
    is_high = q >= Lanes<double>(2.0 + kGammaSteps);
    t = select(is_low, q + one, q - (xsimd::floor(q) - one));
  }
};

inline Lanes<double> lgamma_of_float(Lanes<double> x) {
  // lgamma(t) / ((t - 1) (t - 2)) in 2 t - 3
  static constexpr double kFit[] = {
      0.4831289505409817,      -0.07297994795715552,    0.015727850268511798,
      -0.003913560937477976,   0.0010498186678746812,   -0.00029455070410573474,
      8.510086899309033e-05,   -2.509430821008005e-05,  7.511567994636415e-06,
      -2.274334737406014e-06,  6.943442076594479e-07,   -2.136456787412772e-07,
      6.705880391243209e-08,   -2.0944807041167143e-08, 5.66224418088028e-09,
      -1.7375617137312015e-09, 1.0203875004865458e-09,  -3.317984984071282e-10};
  static constexpr double kSeries[] = {1 / 12.0, -1 / 360.0, 1 / 1260.0, -1 / 1680.0, 1 / 1188.0};
  const Lanes<double> zero(0.0), one(1.0), two(2.0), inf(std::numeric_limits<double>::infinity());
  const Lanes<double> q = magnitude(x);
  const MovedArgument moved(q);
  Lanes<double> product = select(moved.is_low, q, one);  // gamma(q) / gamma(t), or its inverse
  for (int j = 1; j <= kGammaSteps; ++j) {
    const Lanes<double> factor = q - Lanes<double>(double(j));
    product = select(factor >= one, product * factor, product);
  }
  const Lanes<double> l = log(select(moved.is_high, q, product)), t = moved.t;
  const Lanes<double> near = (t - one) * (t - two) * polynomial(kFit, t + t - Lanes<double>(3.0)) +
                             select(moved.is_low, negative(l), l);
  const Lanes<double> r = one / q;
  const Lanes<double> far =
      fused(q - Lanes<double>(0.5), l, Lanes<double>(0.91893853320467274178)) - q +
      r * polynomial(kSeries, r * r);
  Lanes<double> y = select(moved.is_high, far, near);
  if (const auto reflected = x < zero; xsimd::any(reflected)) {
    const Lanes<double> beside = x - xsimd::nearbyint(x);
    const Lanes<double> s = magnitude(q * sin(beside * Lanes<double>(kPi)));
    y = select(reflected, negative(log(s * Lanes<double>(1 / kPi)) + y), y);
  }
  return select(q == inf, inf, y);
}

inline Lanes<double> digamma_of_float(Lanes<double> x) {
  // psi(t) / (t - root) in 2 t - 3. The root is the sum of two numbers.
  static constexpr double kFit[] = {
      0.9510558760313028,      -0.21181371068689311,    0.060135621127524894,
      -0.018550613674172507,   0.005936793878085698,    -0.0019350848821139577,
      0.0006368990888028545,   -0.0002106631269724965,  6.990751528891816e-05,
      -2.3461495736094774e-05, 7.829875065297949e-06,   -2.3229695805613395e-06,
      7.5867913568949e-07,     -4.4261090463058576e-07, 1.5185798693303401e-07};
  static constexpr double kSeries[] = {-1 / 12.0, 1 / 120.0, -1 / 252.0, 1 / 240.0, -1 / 132.0};
  const Lanes<double> zero(0.0), one(1.0), inf(std::numeric_limits<double>::infinity());
  const auto reflected = x < zero;
  const Lanes<double> q = select(reflected, one - x, x);
  const MovedArgument moved(q);
  // psi(q) - psi(t) is the sum of 1 / (q - j), here numerator / denominator.
  Lanes<double> numerator = select(moved.is_low, Lanes<double>(-1.0), zero);
  Lanes<double> denominator = select(moved.is_low, q, one);
  for (int j = 1; j <= kGammaSteps; ++j) {
    const Lanes<double> term = q - Lanes<double>(double(j));
    const auto counts = term >= one;
    numerator = select(counts, fused(numerator, term, denominator), numerator);
    denominator = select(counts, denominator * term, denominator);
  }
  const Lanes<double> r = one / select(moved.is_high, q, denominator), z = r * r, t = moved.t;
  const Lanes<double> from_root =
      (t - Lanes<double>(1.4616321449683622)) - Lanes<double>(9.549995429965697e-17);
  const Lanes<double> near =
      fused(from_root, polynomial(kFit, t + t - Lanes<double>(3.0)), numerator * r);
  Lanes<double> y = near;
  if (xsimd::any(moved.is_high)) {
    const Lanes<double> rest = fused(z, polynomial(kSeries, z), Lanes<double>(-0.5) * r);
    y = select(moved.is_high, log(q) + rest, near);
  }
  if (xsimd::any(reflected)) {
    const Lanes<double> beside = x - xsimd::nearbyint(x);
    const Lanes<double> turned = y - Lanes<double>(kPi) / tan(beside * Lanes<double>(kPi));
    const Lanes<double> nan(std::numeric_limits<double>::quiet_NaN());
    // At -infinity `beside` is NaN.
    y = select(reflected, select(beside == zero, nan, turned), y);
  }
  return select(x == zero, with_sign_of(inf, negative(x)), y);
}

/// Returns polygamma(1, x).
inline Lanes<double> trigamma_of_float(Lanes<double> x) {
  static constexpr double kSeries[] = {1 / 6.0, -1 / 30.0, 1 / 42.0, -1 / 30.0, 5 / 66.0};
  const Lanes<double> zero(0.0), one(1.0), high(8.0);
  const auto reflected = x < zero;
  const Lanes<double> q = select(reflected, one - x, x);
  // The sum of 1 / (q + j)^2 up to q + j = 8 is numerator / denominator.
  Lanes<double> numerator = zero, denominator = one, rest = q;
  for (int j = 0; j < 8; ++j) {
    const Lanes<double> root = q + Lanes<double>(double(j)), square = root * root;
    const auto counts = root < high;
    numerator = select(counts, fused(numerator, square, denominator), numerator);
    denominator = select(counts, denominator * square, denominator);
    rest = select(counts, root + one, rest);
  }
  const Lanes<double> r = one / rest, z = r * r;
  const Lanes<double> tail = fused(r * z, polynomial(kSeries, z), fused(Lanes<double>(0.5), z, r));
  Lanes<double> y = numerator / denominator + tail;
  if (xsimd::any(reflected)) {  // y + trigamma(1 - x) = (pi / sin(pi x))^2
    const Lanes<double> beside = x - xsimd::nearbyint(x);
    const Lanes<double> whole = Lanes<double>(kPi) / sin(beside * Lanes<double>(kPi));
    y = select(reflected, fused(whole, whole, negative(y)), y);
  }
  return y;
}

}  // namespace tapegrad::backends::cpu::functions
