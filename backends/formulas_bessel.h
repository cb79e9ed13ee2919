// Bessel functions, and functions of one number that are computed in double without vectors. All
// of them share one kernel, which an enumerator selects from (ops/internal/kernels/special.h).
#pragma once

#include <cmath>
#include <limits>

#include "backends/formulas_special.h"
#include "ops/internal/kernels/special.h"

namespace tapegrad::formulas {
using kernels::SpecialFunction;

namespace special {

inline constexpr double kEuler = 0.57721566490153286061;

/// Returns I(x), the modified Bessel function of the first kind, of order 0 or 1; times exp(-|x|)
/// if `is_scaled`. All terms of the power series are positive; the asymptotic series is exact
/// above 20.
TG_HD inline double bessel_i(int order, double x, bool is_scaled) {
  const double size = std::fabs(x);
  if (size - size == 0 && size < 20) {
    const double square = size * size / 4;
    double term = order == 0 ? 1 : x / 2, sum = term;
    for (int k = 1; std::fabs(term) > 1e-17 * std::fabs(sum); ++k)
      sum += term *= square / (double(k) * (k + order));
    return is_scaled ? sum * std::exp(-size) : sum;
  }
  double term = 1, sum = 1;
  for (int k = 1; std::fabs(term) > 1e-17; ++k) {
    const double odd = 2 * k - 1;
    sum += term *= (odd * odd - 4 * order) / (8 * k * size);
  }
  const double scaled = (order == 1 && x < 0 ? -sum : sum) / std::sqrt(2 * kPi * size);
  if (is_scaled) return scaled;
  const double root = std::exp(size / 2);  // exp(size) may overflow although the result does not
  return size - size == 0 ? scaled * root * root : order == 1 ? x : size;
}

/// Values of the first kind (J, or I) and of the second kind (Y, or K).
struct BesselPair {
  double first, second;
};

/// Returns the power series around 0 for 0 < x <= 2, DLMF 10.8 and 10.31: I and K, or J and Y if
/// `oscillates`.
TG_HD inline BesselPair bessel_near_zero(int order, double x, bool oscillates) {
  const double square = oscillates ? -x * x / 4 : x * x / 4;
  double term = order == 0 ? 1 : x / 2, harmonic = order == 0 ? 0 : 1;  // H_k, or H_k + H_(k+1)
  double first = term, sum = term * harmonic;
  for (int k = 1; k < 20; ++k) {
    term *= square / (double(k) * (k + order));
    harmonic += order == 0 ? 1.0 / k : 1.0 / k + 1.0 / (k + 1);
    first += term;
    sum += term * harmonic;
  }
  const double log_half = std::log(x / 2) + kEuler;
  if (oscillates && order == 0) return {first, 2 / kPi * (log_half * first - sum)};
  if (oscillates) return {first, (2 * log_half * first - sum - 2 / x) / kPi};
  if (order == 0) return {first, sum - log_half * first};
  return {first, 1 / x + log_half * first - sum / 2};
}

/// Returns J and Y for 2 < x < 25: J by the backward recurrence (Miller), Y by Neumann's series of
/// J, DLMF 10.8.
TG_HD inline BesselPair bessel_by_recurrence(int order, double x) {
  double above = 0, here = 1, norm = 0, series = 0;
  for (int k = 2 * int(10 + 0.9 * x); k > 0; --k) {  // `here` is J of order k times a factor
    if (k % 2 == 0) {
      norm += 2 * here;
      if (order == 0) series += (k % 4 == 0 ? 1 : -1) * here * 2 / k;
    } else if (order == 1 && k > 1) {
      const int m = (k - 1) / 2;
      series += (m % 2 == 0 ? 1 : -1) * here * k / (double(m) * (m + 1));
    }
    const double below = 2 * k / x * here - above;
    above = here;
    here = below;
  }
  norm += here;
  const double j0 = here / norm, j1 = above / norm, log_half = std::log(x / 2) + kEuler;
  series /= norm;
  if (order == 0) return {j0, 2 / kPi * (log_half * j0 - 2 * series)};
  return {j1, 2 / kPi * ((log_half - 1) * j1 - series - j0 / x)};
}

/// Returns J and Y for x >= 25 by Hankel's asymptotic series, DLMF 10.17.
TG_HD inline BesselPair bessel_far(int order, double x) {
  if (x == kInfinity) return {0, 0};
  double term = 1, even = 1, odd = 0;
  for (int k = 1; std::fabs(term) > 1e-17; ++k) {
    const double root = 2 * k - 1;
    term *= (4 * order - root * root) / (8 * k * x);
    (k % 2 == 0 ? even : odd) += (k % 4 < 2 ? term : -term);
  }
  // The phase is x - pi / 4, or x - 3 pi / 4 for order 1; scale contains the root of 2 of both.
  const double sine = std::sin(x), cosine = std::cos(x), scale = 1 / std::sqrt(kPi * x);
  const double c = order == 0 ? sine + cosine : sine - cosine;
  const double s = order == 0 ? sine - cosine : -sine - cosine;
  return {scale * (even * c - odd * s), scale * (even * s + odd * c)};
}

TG_HD inline BesselPair bessel_jy(int order, double x) {
  return x <= 2   ? bessel_near_zero(order, x, true)
         : x < 25 ? bessel_by_recurrence(order, x)
                  : bessel_far(order, x);
}

TG_HD inline double bessel_j(int order, double x) {
  if (x == 0) return order == 0 ? 1 : x;
  const double y = x == x ? bessel_jy(order, std::fabs(x)).first : x;
  return order == 1 && x < 0 ? -y : y;
}

TG_HD inline double bessel_y(int order, double x) {
  if (!(x > 0)) return x == 0 ? -kInfinity : kNotANumber;
  return bessel_jy(order, x).second;
}

/// Returns K(x), the modified Bessel function of the second kind, of order 0 or 1; times exp(x) if
/// `is_scaled`. Above 1 by the trapezoidal rule for the integral of exp(-x cosh t) cosh(order t),
/// which is exact to rounding for these steps.
TG_HD inline double bessel_k(int order, double x, bool is_scaled) {
  if (!(x > 0)) return x == 0 ? kInfinity : kNotANumber;
  if (x == kInfinity) return 0;
  if (x <= 1) {
    const double y = bessel_near_zero(order, x, false).second;
    return is_scaled ? y * std::exp(x) : y;
  }
  const double step = std::fmin(0.2, 0.5 / std::sqrt(x));
  double sum = 0.5;
  for (int k = 1;; ++k) {
    const double half = std::sinh(step * k / 2), over = 2 * half * half;  // cosh(t) - 1
    const double term = std::exp(-x * over) * (order == 0 ? 1 : 1 + over);
    sum += term;
    if (term < 1e-17 * sum) break;
  }
  return is_scaled ? step * sum : step * sum * std::exp(-x);
}

/// Returns exp(x^2) erfc(x): as that product below 10, then by the asymptotic series.
TG_HD inline double erfcx(double x) {
  if (x < 10) {
    const double square = x * x, rest = std::fma(x, x, -square);
    if (square > 750) return kInfinity;
    return std::exp(square) * (1 + rest) * std::erfc(x);
  }
  const double ratio = 0.5 / (x * x);
  double term = 1, sum = 1;
  for (int k = 1; std::fabs(term) > 1e-17; ++k) sum += term *= -(2 * k - 1) * ratio;
  return sum * 0.56418958354775628695 / x;  // 1 / sqrt(pi)
}

/// Returns the Airy function Ai, or its derivative if `is_slope`. Between -3.5 and 1.5 by the power
/// series, else by the trapezoidal rule for exp(-2/3 z^(3/2)) / pi times the integral of
/// exp(-sqrt(z) t^2) cos(t^3 / 3) over t >= 0. Below -3.5, z is -x exp(i pi / 3), and Ai(x) is
/// twice the real part of exp(i pi / 3) Ai(z).
TG_HD inline double airy_ai(double x, bool is_slope) {
  if (x != x) return x;
  if (-3.5 < x && x < 1.5) {
    const double cube = x * x * x;
    double even = is_slope ? x * x / 2 : 1, odd = is_slope ? 1 : x;
    double first = even, second = odd;
    for (int k = 1; k < 30; ++k) {
      const double n = 3 * k;
      even *= cube / (is_slope ? n * (n + 2) : n * (n - 1));
      odd *= cube / (is_slope ? n * (n - 2) : n * (n + 1));
      first += even;
      second += odd;
    }
    return 0.35502805388781723926 * first - 0.25881940379280679840 * second;
  }
  const bool is_far_left = x < 0;
  const double size = std::fabs(x), root = std::sqrt(size), phase = 2 * size * root / 3;
  if (!is_far_left && phase > 800) return 0;
  // sqrt(z)
  const double real = is_far_left ? root * 0.86602540378443864676 : root;
  const double imaginary = is_far_left ? root / 2 : 0;
  const double step = 0.25 / std::sqrt(root);
  double sum_real = 0, sum_imaginary = 0;
  for (int k = 0; k < 28; ++k) {
    const double t = step * k, square = t * t, angle = -imaginary * square;
    const double weight = (k == 0 ? 0.5 : 1) * std::exp(-real * square) * std::cos(square * t / 3);
    const double c = weight * std::cos(angle), s = weight * std::sin(angle);
    // The derivative of the integrand with its factor: -(sqrt(z) + t^2 / (2 sqrt(z))).
    const double u = is_slope ? -(real + square / 2 * real / size) : 1;
    const double v = is_slope ? -(imaginary - square / 2 * imaginary / size) : 0;
    sum_real += c * u - s * v;
    sum_imaginary += c * v + s * u;
  }
  const double scale = step / kPi;
  if (!is_far_left) return scale * std::exp(-phase) * sum_real;
  const double turn = (is_slope ? 2 : 1) * kPi / 3 - phase;
  const double y = 2 * scale * (std::cos(turn) * sum_real - std::sin(turn) * sum_imaginary);
  return is_slope ? -y : y;
}

/// Not inline: four dtypes share the code.
[[gnu::noinline]] TG_HD static double of_one(SpecialFunction function, double x) {
  switch (function) {
    case SpecialFunction::kI0:
      return bessel_i(0, x, false);
    case SpecialFunction::kI0e:
      return bessel_i(0, x, true);
    case SpecialFunction::kI1:
      return bessel_i(1, x, false);
    case SpecialFunction::kI1e:
      return bessel_i(1, x, true);
    case SpecialFunction::kJ0:
      return bessel_j(0, x);
    case SpecialFunction::kJ1:
      return bessel_j(1, x);
    case SpecialFunction::kY0:
      return bessel_y(0, x);
    case SpecialFunction::kY1:
      return bessel_y(1, x);
    case SpecialFunction::kK0:
      return bessel_k(0, x, false);
    case SpecialFunction::kK0e:
      return bessel_k(0, x, true);
    case SpecialFunction::kK1:
      return bessel_k(1, x, false);
    case SpecialFunction::kK1e:
      return bessel_k(1, x, true);
    case SpecialFunction::kErfcx:
      return erfcx(x);
    case SpecialFunction::kAiryAi:
      return airy_ai(x, false);
    case SpecialFunction::kAiryAiSlope:
      return airy_ai(x, true);
  }
  return kNotANumber;
}

}  // namespace special

struct SpecialFunctionOf {
  static constexpr bool kScalar = true;
  SpecialFunction function;

  TG_HD explicit SpecialFunctionOf(int64_t which) : function(SpecialFunction(which)) {}
  template <typename V>
  TG_HD V operator()(V x) const {
    return V(special::of_one(function, double(x)));
  }
};

}  // namespace tapegrad::formulas
