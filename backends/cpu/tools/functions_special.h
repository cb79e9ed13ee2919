// Vector forms of SpecialFunctions (backends/functions.h): inverse trigonometric, hyperbolic and
// error functions, powers and remainders.
//
// Float functions that must be as fast as memory are fits in float with errors of 1-3 ulp (6 of
// erfc); the others are computed in double, half of the lanes at a time, and rounded once. Double
// functions except pow() call the C library lane by lane.
#pragma once

#include <cmath>

#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/functions_gamma.h"
#include "backends/cpu/tools/functions_power.h"
#include "backends/formulas_special.h"

namespace tapegrad::backends::cpu::functions {

/// Applies a function of batches of double to batches of float, and rounds the result.
template <typename F, typename... X>
Lanes<float> in_double(F f, X... x) {
  constexpr size_t kHalf = Lanes<double>::size;
  static_assert(Lanes<float>::size == 2 * kHalf);
  using Floats [[gnu::vector_size(kHalf * 4)]] = float;
  using Doubles [[gnu::vector_size(kHalf * 8)]] = double;
  alignas(64) float y[2 * kHalf];
  const auto half = [&](size_t i) {
    const auto widened = [&](Lanes<float> lanes) {
      alignas(64) float each[2 * kHalf];
      lanes.store_aligned(each);
      Floats floats;
      std::memcpy(&floats, each + i * kHalf, sizeof(floats));
      return Lanes<double>(__builtin_convertvector(floats, Doubles));
    };
    const Doubles wide = f(widened(x)...).data;
    const Floats narrow = __builtin_convertvector(wide, Floats);
    std::memcpy(y + i * kHalf, &narrow, sizeof(narrow));
  };
  half(0), half(1);
  return Lanes<float>::load_aligned(y);
}

inline Lanes<float> atan(Lanes<float> x) {
  // (atan(t) / t - 1) / t^2 in t^2, for |t| <= 1
  static constexpr float kFit[] = {-0x1.555552p-2f, 0x1.9997e0p-3f, -0x1.247374p-3f, 0x1.c4f1dcp-4f,
                                   -0x1.68e6ecp-4f, 0x1.14229cp-4f, -0x1.6e1928p-5f, 0x1.714a4ep-6f,
                                   -0x1.df9584p-8f, 0x1.23f7f6p-10f};
  const Lanes<float> one(1.0f), size = magnitude(x);
  const auto steep = size > one;
  const Lanes<float> t = select(steep, one, size) / select(steep, size, one), z = t * t;
  const Lanes<float> y = fused(t * z, polynomial(kFit, z), t);
  // pi / 2 is the sum of two numbers.
  const Lanes<float> rest = Lanes<float>(0x1.921fb6p+0f) - (y + Lanes<float>(0x1.777a5cp-25f));
  return with_sign_of(select(steep, rest, y), x);
}

/// Returns the angle of |y| over |x| in the quadrants of the signs; zeros and infinities count as
/// ratios.
inline Lanes<float> atan2(Lanes<float> y, Lanes<float> x) {
  const Lanes<float> one(1.0f), zero(0.0f), inf(std::numeric_limits<float>::infinity());
  const Lanes<float> high = magnitude(y), wide = magnitude(x);
  Lanes<float> ratio = high / wide;
  ratio = select((high == inf) & (wide == inf), one, ratio);
  ratio = select((high == zero) & (wide == zero), zero, ratio);
  const Lanes<float> angle = atan(ratio);
  const auto left = words_of<float>(x) >= Words<float>(0x80000000u);  // also for -0
  const Lanes<float> back =
      (Lanes<float>(0x1.921fb6p+1f) - (angle + Lanes<float>(0x1.777a5cp-24f)));
  const Lanes<float> turned = from_words<float>(select(left, words_of(back), words_of(angle)));
  return select((x == x) & (y == y), with_sign_of(turned, y), x + y);
}

/// The parts of asin(|x|): asin(|x|) is small if |x| <= 1/2, else pi / 2 - 2 small.
struct ArcSine {
  Lanes<float> small;
  xsimd::batch_bool<float> steep;

  explicit ArcSine(Lanes<float> x) {
    // (asin(t) / t - 1) / t^2 in t^2, for t <= 1/2
    static constexpr float kFit[] = {0x1.55554cp-3f, 0x1.33388ep-4f, 0x1.6cac3cp-5f,
                                     0x1.04a65cp-5f, 0x1.d7f1e4p-7f, 0x1.33bbe8p-5f};
    const Lanes<float> half(0.5f), size = magnitude(x);
    steep = size > half;
    const Lanes<float> low = fused(negative(half), size, half);  // (1 - |x|) / 2
    const Lanes<float> z = select(steep, low, size * size);
    const Lanes<float> t = select(steep, xsimd::sqrt(low), size);
    small = fused(t * z, polynomial(kFit, z), t);
  }
};
inline Lanes<float> asin(Lanes<float> x) {
  const ArcSine a(x);
  const Lanes<float> y = Lanes<float>(0x1.921fb6p+0f) -
                         fused(Lanes<float>(2.0f), a.small, Lanes<float>(0x1.777a5cp-25f));
  return with_sign_of(select(a.steep, y, a.small), x);
}
inline Lanes<float> acos(Lanes<float> x) {
  const ArcSine a(x);
  const Lanes<float> two(2.0f), twice = a.small + a.small;
  const Lanes<float> back = Lanes<float>(0x1.921fb6p+1f) - (twice + Lanes<float>(0x1.777a5cp-24f));
  const Lanes<float> steep = select(x < Lanes<float>(0.0f), back, twice);
  const Lanes<float> flat =
      Lanes<float>(0x1.921fb6p+0f) - (with_sign_of(a.small, x) + Lanes<float>(0x1.777a5cp-25f));
  return select(a.steep, steep, flat);
}

inline Lanes<float> atanh(Lanes<float> x) {
  const Lanes<float> size = magnitude(x), one(1.0f);
  return with_sign_of(Lanes<float>(0.5f) * log1p((size + size) / (one - size)), x);
}

inline Lanes<double> sinh_of_float(Lanes<double> x) {
  const Lanes<double> e = expm1(magnitude(x)), one(1.0);
  return with_sign_of(Lanes<double>(0.5) * select(e < Lanes<double>(1e300), e + e / (e + one), e),
                      x);
}
inline Lanes<double> cosh_of_float(Lanes<double> x) {
  const Lanes<double> e = exp(magnitude(x));
  return Lanes<double>(0.5) * (e + Lanes<double>(1.0) / e);
}
/// Returns sin(pi x) / (pi x), as formulas::special::sinc().
inline Lanes<double> sinc_of_float(Lanes<double> x) {
  const Lanes<double> pi(formulas::special::kPi), n = xsimd::nearbyint(x);
  const Lanes<double> half = n * Lanes<double>(0.5), y = sin(pi * (x - n)) / (pi * x);
  const Lanes<double> whole = select(half == xsimd::trunc(half), y, negative(y));
  return select(x == Lanes<double>(0.0), Lanes<double>(1.0), whole);
}
inline Lanes<double> asinh_of_float(Lanes<double> x) {
  const Lanes<double> size = magnitude(x), one(1.0), square = size * size;
  const Lanes<double> y = log1p(size + square / (one + xsimd::sqrt(square + one)));
  return with_sign_of(select(size < Lanes<double>(1e300), y, size), x);
}
inline Lanes<double> acosh_of_float(Lanes<double> x) {
  const Lanes<double> one(1.0), beyond = x - one;
  const Lanes<double> y = log1p(beyond + xsimd::sqrt(beyond * (x + one)));
  return select(x < one, Lanes<double>(std::numeric_limits<double>::quiet_NaN()), y);
}

/// Returns erfc(x): 1 - erf(x) for |x| < 1/2, otherwise exp(-x^2) t Q(t) with t = 1 / (1 + 0.4
/// |x|), a fit with a relative error of 1.7e-9.
inline Lanes<float> erfc(Lanes<float> x) {
  static constexpr float kFit[] = {0x1.ce360cp-3f, 0x1.cd83d8p-3f,  0x1.b066bep-3f, 0x1.334012p-3f,
                                   0x1.a1f9a4p-3f, -0x1.1a237ep-3f, 0x1.5f482ap-2f, -0x1.48975ap-2f,
                                   0x1.c2f5f4p-4f, -0x1.60fd0ap-7f};
  const Lanes<float> one(1.0f), two(2.0f);
  const Lanes<float> size = xsimd::min(Lanes<float>(20.0f), magnitude(x));
  const Lanes<float> square = size * size, rest = fused(size, size, negative(square));
  const Lanes<float> bell = exp_of_negative(negative(square));
  const Lanes<float> t = one / fused(size, Lanes<float>(0x1.99999ap-2f), one);
  const Lanes<float> fit = t * polynomial(kFit, t);
  const Lanes<float> tail = bell * fused(negative(rest), fit, fit);  // exp(-rest) is 1 - rest
  const Lanes<float> far = select(x < Lanes<float>(0.0f), two - tail, tail);
  const Lanes<float> y = select(size < Lanes<float>(0.5f), one - erf_near_zero(x), far);
  return select(x == x, y, x);
}

/// Returns x P(w) with w = -log(1 - x^2), or with sqrt(w) beyond w = 6.25.
inline Lanes<float> erfinv(Lanes<float> x) {
  static constexpr float kNear[] = {0x1.9fa074p+0f,   0x1.eedbecp-3f,  -0x1.780eeap-8f,
                                    -0x1.b668dep-11f, 0x1.99357ep-13f, -0x1.aa500cp-17f,
                                    -0x1.dc692ap-20f, 0x1.e0c758p-22f, -0x1.3e8d94p-26f,
                                    -0x1.758c52p-28f, 0x1.5e9f2cp-31f};
  static constexpr float kFar[] = {0x1.8abcc4p+1f,  0x1.01589ep+0f,  0x1.5feb70p-8f,
                                   -0x1.ea5a1ap-9f, 0x1.47a648p-9f,  -0x1.c8b1b6p-10f,
                                   0x1.ed4faap-11f, -0x1.02e5bcp-12f};
  const Lanes<float> one(1.0f);
  const Lanes<float> w = negative(log(fused(negative(x), x, one)));
  const Lanes<float> near = polynomial(kNear, w - Lanes<float>(3.0f));
  const Lanes<float> far = polynomial(kFar, xsimd::sqrt(w) - Lanes<float>(3.25f));
  const Lanes<float> y = x * select(w < Lanes<float>(6.25f), near, far);
  return select(magnitude(x) == one, x * Lanes<float>(std::numeric_limits<float>::infinity()), y);
}

inline Lanes<float> hypot(Lanes<float> a, Lanes<float> b) {
  const Lanes<float> inf(std::numeric_limits<float>::infinity());
  const Lanes<float> y = in_double(
      [](Lanes<double> a, Lanes<double> b) { return xsimd::sqrt(fused(a, a, b * b)); }, a, b);
  return select((magnitude(a) == inf) | (magnitude(b) == inf), inf, y);
}

/// Exact. Quotients of 2^22 and more, and operands that are not finite, go to the C library.
inline Lanes<float> fmod(Lanes<float> a, Lanes<float> b) {
  const Lanes<float> size = magnitude(a), by = magnitude(b), zero(0.0f);
  const Lanes<float> ratio = size / by;
  const auto near = (ratio < Lanes<float>(0x1p+22f)) &
                    (by < Lanes<float>(std::numeric_limits<float>::infinity()));
  // The quotient may be wrong by 1.
  Lanes<float> rest = fused(negative(xsimd::trunc(ratio)), by, size);
  rest = select(rest < zero, rest + by, rest);
  rest = with_sign_of(magnitude(select(rest >= by, rest - by, rest)), a);
  if (xsimd::all(near)) return rest;
  return select(near, rest, map_lanes([](float a, float b) { return std::fmod(a, b); }, a, b));
}

/// Exponents that are common are computed without exp and log. An exponent gives one value for one
/// base, in whichever lanes.
inline Lanes<float> pow(Lanes<float> a, Lanes<float> b) {
  const Lanes<float> zero(0.0f), inf(std::numeric_limits<float>::infinity());
  const auto is = [&](float exponent) { return b == Lanes<float>(exponent); };
  const auto cube = [&](Lanes<float> a) {  // the sum of the product and its rounding errors
    const Lanes<float> square = a * a, product = square * a;
    const Lanes<float> lost = fused(square, a, negative(product));
    const Lanes<float> exact = product + fused(fused(a, a, negative(square)), a, lost);
    return select((magnitude(product) < inf) & !(product == zero), exact, product);
  };
  const auto root = [&](Lanes<float> a) {  // pow(-0, 1/2) is 0, and pow(-inf, 1/2) is inf
    const Lanes<float> y = select(a == zero, zero, xsimd::sqrt(a));
    return select(magnitude(a) == inf, inf, y);
  };
  if (xsimd::all(is(2.0f))) return a * a;
  if (xsimd::all(is(3.0f))) return cube(a);
  if (xsimd::all(is(0.5f))) return root(a);
  if (xsimd::all(is(-1.0f))) return Lanes<float>(1.0f) / a;
  Lanes<float> y = in_double(power_of_float, a, b);
  const auto near = (magnitude(a) < inf) & (magnitude(b) < inf) & !(a == zero);
  if (!xsimd::all(near)) [[unlikely]]
    y = select(near, y, map_lanes([](float a, float b) { return std::pow(a, b); }, a, b));
  if (xsimd::any(is(2.0f))) y = select(is(2.0f), a * a, y);
  if (xsimd::any(is(3.0f))) y = select(is(3.0f), cube(a), y);
  if (xsimd::any(is(0.5f))) y = select(is(0.5f), root(a), y);
  if (xsimd::any(is(-1.0f))) y = select(is(-1.0f), Lanes<float>(1.0f) / a, y);
  return y;
}

}  // namespace tapegrad::backends::cpu::functions

namespace tapegrad::formulas {

template <typename A>
struct SpecialFunctions<xsimd::batch<float, A>> {
  using V = xsimd::batch<float, A>;
  static V sinh(V x) { return in_double(backends::cpu::functions::sinh_of_float, x); }
  static V cosh(V x) { return in_double(backends::cpu::functions::cosh_of_float, x); }
  static V asin(V x) { return backends::cpu::functions::asin(x); }
  static V acos(V x) { return backends::cpu::functions::acos(x); }
  static V atan(V x) { return backends::cpu::functions::atan(x); }
  static V asinh(V x) { return in_double(backends::cpu::functions::asinh_of_float, x); }
  static V acosh(V x) { return in_double(backends::cpu::functions::acosh_of_float, x); }
  static V atanh(V x) { return backends::cpu::functions::atanh(x); }
  static V erfc(V x) { return backends::cpu::functions::erfc(x); }
  static V erfinv(V x) { return backends::cpu::functions::erfinv(x); }
  static V lgamma(V x) { return in_double(backends::cpu::functions::lgamma_of_float, x); }
  static V digamma(V x) { return in_double(backends::cpu::functions::digamma_of_float, x); }
  static V trigamma(V x) { return in_double(backends::cpu::functions::trigamma_of_float, x); }
  static V atan2(V y, V x) { return backends::cpu::functions::atan2(y, x); }
  static V sinc(V x) { return in_double(backends::cpu::functions::sinc_of_float, x); }
  static V fmod(V a, V b) { return backends::cpu::functions::fmod(a, b); }
  static V hypot(V a, V b) { return backends::cpu::functions::hypot(a, b); }
  static V pow(V a, V b) { return backends::cpu::functions::pow(a, b); }

 private:
  template <typename F>
  static V in_double(F f, V x) {
    return backends::cpu::functions::in_double(f, x);
  }
};

/// Calls the C library lane by lane.
template <typename A>
struct SpecialFunctions<xsimd::batch<double, A>> {
  using V = xsimd::batch<double, A>;
  using Scalar = SpecialFunctions<double>;
  static V sinh(V x) { return backends::cpu::map_lanes(Scalar::sinh, x); }
  static V cosh(V x) { return backends::cpu::map_lanes(Scalar::cosh, x); }
  static V asin(V x) { return backends::cpu::map_lanes(Scalar::asin, x); }
  static V acos(V x) { return backends::cpu::map_lanes(Scalar::acos, x); }
  static V atan(V x) { return backends::cpu::map_lanes(Scalar::atan, x); }
  static V asinh(V x) { return backends::cpu::map_lanes(Scalar::asinh, x); }
  static V acosh(V x) { return backends::cpu::map_lanes(Scalar::acosh, x); }
  static V atanh(V x) { return backends::cpu::map_lanes(Scalar::atanh, x); }
  static V erfc(V x) { return backends::cpu::functions::erfc(x); }
  static V erfinv(V x) { return backends::cpu::map_lanes(special::erfinv, x); }
  static V lgamma(V x) { return backends::cpu::map_lanes(special::log_gamma, x); }
  static V digamma(V x) { return backends::cpu::map_lanes(special::digamma, x); }
  static V trigamma(V x) {
    return backends::cpu::map_lanes([](double x) { return special::zeta(2, x); }, x);
  }
  static V atan2(V y, V x) { return backends::cpu::map_lanes(Scalar::atan2, y, x); }
  static V sinc(V x) { return backends::cpu::map_lanes(special::sinc, x); }
  static V fmod(V a, V b) { return backends::cpu::map_lanes(Scalar::fmod, a, b); }
  static V hypot(V a, V b) { return backends::cpu::map_lanes(Scalar::hypot, a, b); }
  static V pow(V a, V b) { return backends::cpu::functions::pow(a, b); }
};

}  // namespace tapegrad::formulas
