// Formulas of ops/special.h. Functions without a vector form are computed in double and rounded
// once.
#pragma once

#include <limits>
#include <numbers>

#include "backends/formulas.h"

namespace tapegrad::formulas {

struct Sinh {
  template <typename V>
  TG_HD V operator()(V x) const {
    return SpecialFunctions<V>::sinh(x);
  }
};
struct Cosh {
  template <typename V>
  TG_HD V operator()(V x) const {
    return SpecialFunctions<V>::cosh(x);
  }
};
struct Asin {
  template <typename V>
  TG_HD V operator()(V x) const {
    return SpecialFunctions<V>::asin(x);
  }
};
struct Acos {
  template <typename V>
  TG_HD V operator()(V x) const {
    return SpecialFunctions<V>::acos(x);
  }
};
struct Atan {
  template <typename V>
  TG_HD V operator()(V x) const {
    return SpecialFunctions<V>::atan(x);
  }
};
struct Asinh {
  template <typename V>
  TG_HD V operator()(V x) const {
    return SpecialFunctions<V>::asinh(x);
  }
};
struct Acosh {
  template <typename V>
  TG_HD V operator()(V x) const {
    return SpecialFunctions<V>::acosh(x);
  }
};
struct Atanh {
  template <typename V>
  TG_HD V operator()(V x) const {
    return SpecialFunctions<V>::atanh(x);
  }
};
struct Erfc {
  template <typename V>
  TG_HD V operator()(V x) const {
    return SpecialFunctions<V>::erfc(x);
  }
};

/// Derivatives of the functions above. 1 - x^2 and x^2 - 1 are products, which are accurate near 1.
struct AsinSlope {
  template <typename V>
  TG_HD V operator()(V x) const {
    return V(1) / Functions<V>::sqrt((V(1) - x) * (x + V(1)));
  }
};
struct AcosSlope {
  template <typename V>
  TG_HD V operator()(V x) const {
    return -AsinSlope{}(x);
  }
};
struct AtanSlope {
  template <typename V>
  TG_HD V operator()(V x) const {
    return V(1) / (x * x + V(1));
  }
};
struct AsinhSlope {
  template <typename V>
  TG_HD V operator()(V x) const {
    return V(1) / SpecialFunctions<V>::hypot(x, V(1));
  }
};
struct AcoshSlope {
  template <typename V>
  TG_HD V operator()(V x) const {
    return V(1) / Functions<V>::sqrt(x - V(1)) * (V(1) / Functions<V>::sqrt(x + V(1)));
  }
};
struct AtanhSlope {
  template <typename V>
  TG_HD V operator()(V x) const {
    return V(1) / ((V(1) - x) * (x + V(1)));
  }
};
struct ErfcSlope {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::exp(-(x * x)) * V(-2 * std::numbers::inv_sqrtpi);
  }
};

/// Gradient of a function with the derivative Slope.
template <typename Slope>
struct SlopeBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return dy * Slope{}(x);
  }
};

template <typename S>
struct NanToNum {
  S nan, posinf, neginf;

  template <typename V>
  TG_HD V operator()(V x) const {
    const V inf(std::numeric_limits<S>::infinity());
    const V y = select(x == inf, V(posinf), select(x == V(0) - inf, V(neginf), x));
    return select(x == x, y, V(nan));
  }
};

namespace special {

inline constexpr double kPi = 3.14159265358979323846;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

template <int N>
TG_HD double polynomial(const double (&coefficients)[N], double x) {
  double sum = coefficients[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

TG_HD inline double log_gamma(double x) {
#if defined(__CUDA_ARCH__)
  return ::lgamma(x);
#else
  int sign;  // lgamma() would write the sign to a global
  return ::lgamma_r(x, &sign);
#endif
}

/// Returns x - n for the nearest integer n; exact.
TG_HD inline double beside_whole(double x) { return x - std::nearbyint(x); }

TG_HD inline double sinc(double x) {
  if (x == 0) return 1;
  const double n = std::nearbyint(x), y = std::sin(kPi * (x - n)) / (kPi * x);
  return std::fmod(n, 2.0) == 0 ? y : -y;
}

/// Three Halley iterations from an approximation. The residual uses erf for |x| <= 1/2 and erfc
/// above, where 1 - |x| is exact.
TG_HD inline double erfinv(double x) {
  const double size = std::fabs(x);
  if (!(size < 1)) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    return size == 1 ? x * kInf : std::numeric_limits<double>::quiet_NaN();
  }
  if (size < 1e-9) return x * 0.886226925452758013649;  // sqrt(pi) / 2
  // Winitzki: erf(y)^2 is approximately 1 - exp(-y^2 (4/pi + a y^2) / (1 + a y^2)).
  constexpr double kA = 0.147;
  const double l = std::log1p(-size) + std::log1p(size), u = 2 / (kPi * kA) + l / 2;
  double y = std::sqrt(std::sqrt(u * u - l / kA) - u);
  for (int i = 0; i < 3; ++i) {
    const double residue = size <= 0.5 ? std::erf(y) - size : (1 - size) - std::erfc(y);
    const double step = residue * 0.886226925452758013649 * std::exp(y * y);
    y -= step / (1 + y * step);
  }
  return std::copysign(y, x);
}

/// Returns psi(x) / (x - root) on [1, 2] as a Chebyshev fit in 2 x - 3. The root is the sum of two
/// numbers, so that psi is accurate near it.
TG_HD inline double digamma_near_root(double x) {
  constexpr double kRootHigh = 1.4616321449683622, kRootLow = 9.549995429965697e-17;
  constexpr double kFit[] = {
      0.9510558760318328,      -0.21181371064073024,    0.06013562106019684,
      -0.018550615381739702,   0.005936795278301875,    -0.0019350666647392832,
      0.0006368880303847901,   -0.00021074841284590126, 6.99501882655044e-05,
      -2.325823275895313e-05,  7.741234441368395e-06,   -2.578133701610713e-06,
      8.589062683365892e-07,   -2.8621216825577647e-07, 9.543261570760428e-08,
      -3.1807298477301726e-08, 1.0528133851878114e-08,  -3.509235492410718e-09,
      1.2466690231864029e-09,  -4.1555064115551965e-10, 8.748420037436287e-11,
      -2.9161179626023815e-11, 2.916093601085364e-11,   -9.720300404202244e-12};
  return ((x - kRootHigh) - kRootLow) * polynomial(kFit, 2 * x - 3);
}

TG_HD inline double digamma(double x) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (x == 0) return std::copysign(kInf, -x);
  double sum = 0;
  if (x < 0) {  // psi(x) = psi(1 - x) - pi / tan(pi x)
    const double r = beside_whole(x);
    if (!(r != 0)) return std::numeric_limits<double>::quiet_NaN();  // also for -inf
    const double near = std::fabs(r);
    const double cot = near < 0.25 ? 1 / std::tan(kPi * near) : std::tan(kPi * (0.5 - near));
    sum = -kPi * std::copysign(cot, r);
    x = 1 - x;
  }
  if (x < 1) {
    sum -= 1 / x;
    x += 1;
  }
  if (x < 10) {
    for (; x > 2; sum += 1 / x) x -= 1;
    return sum + digamma_near_root(x);
  }
  // log(x) - 1 / (2 x) - sum of B_2j / (2 j x^2j)
  constexpr double kTail[] = {1 / 12.0,  -1 / 120.0,     1 / 252.0, -1 / 240.0,
                              1 / 132.0, -691 / 32760.0, 1 / 12.0,  -3617 / 8160.0};
  const double z = 1 / (x * x);
  return sum + (std::log(x) - 0.5 / x - z * polynomial(kTail, z));
}

/// Returns q^-s.
TG_HD inline double inverse_power(double q, double s) {
  if (s > 8 || s != std::floor(s)) return std::pow(q, -s);
  double power = q * q;
  for (int i = 2; i < int(s); ++i) power *= q;
  return 1 / power;
}

/// Returns the sum of (q + k)^-s over k = 0, 1, ... for q > 0 and s > 1, by the Euler-Maclaurin
/// formula.
TG_HD inline double zeta_of_positive(double s, double q) {
  // B_2j / (2 j)!
  constexpr double kTail[] = {
      0.08333333333333333,    -0.001388888888888889,   3.306878306878307e-05,
      -8.267195767195768e-07, 2.08767569878681e-08,    -5.284190138687493e-10,
      1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15,
      -2.174868698558062e-16, 5.5090028283602295e-18,  -1.3954464685812522e-19};
  double head = 0;
  for (; q < 10 + s; q += 1) {
    const double term = inverse_power(q, s);
    head += term;
    if (term <= 1e-18 * head) return head;
  }
  const double power = inverse_power(q, s);
  double sum = q * power / (s - 1) + power / 2, term = s * power / q;
  for (int j = 0; j < 12; ++j) {
    sum += kTail[j] * term;
    term *= (s + 2 * j + 1) * (s + 2 * j + 2) / (q * q);
  }
  return power == 0 ? head : head + sum;
}

/// Returns the Hurwitz zeta function of s >= 1 and any q. For q < 0: the sum over all integers k
/// minus the sum over k < 0. Not inline: many kernels share the code.
[[gnu::noinline]] TG_HD static inline double zeta(double s, double q) {
  if (!(s > 1)) return s == 1 ? kInfinity : kNotANumber;
  if (!(q <= 0.5)) return zeta_of_positive(s, q);
  const double r = beside_whole(q), half = s / 2;
  if (!(r == r)) return r;  // -inf or NaN
  if (r == 0) return kInfinity;
  if (q < 0 && s != std::floor(s)) return kNotANumber;
  const double own = std::pow(r, -s);
  if (q + 0.5 > 0) return own + zeta_of_positive(s, 1 + r);  // here r equals q
  const double sign = half == std::floor(half) ? 1.0 : -1.0;
  return own + zeta_of_positive(s, 1 + r) +
         sign * (zeta_of_positive(s, 1 - r) - zeta_of_positive(s, 1 - q));
}

/// The series of P(a, z) is z^a e^-z times the sum of z^n / gamma(a + n + 1). The terms grow up to
/// n = z - a.
TG_HD inline double gamma_slope(double a, double z) {
  double term = 1 / a, sum = 0;
  double log_ratio = std::log(z) - digamma(a + 1);
  for (double n = 0;; ++n) {
    sum += term * log_ratio;
    if ((n > z - a && !(std::fabs(term * log_ratio) > 1e-17 * std::fabs(sum))) || n > 1e7) break;
    log_ratio -= 1 / (a + n + 1);
    term *= z / (a + n + 1);
  }
  return -z * sum;
}

/// Returns log(1 + u) - u for |u| <= 0.3, without cancellation.
TG_HD inline double log1p_minus(double u) {
  double power = -u * u, sum = 0;
  for (int n = 2; n < 40; ++n) {
    sum += power / n;
    power *= -u;
  }
  return sum;
}

/// Returns x^a e^-x / gamma(a + 1). From a = 10 on by Stirling's series, since x^a overflows.
TG_HD inline double gamma_prefix(double a, double x) {
  if (a < 10) return std::exp(a * std::log(x) - x - log_gamma(a + 1));
  constexpr double kTail[] = {1 / 12.0,    -1 / 360.0, 1 / 1260.0,
                              -1 / 1680.0, 1 / 1188.0, -691 / 360360.0};
  const double correction = polynomial(kTail, 1 / (a * a)) / a, u = (x - a) / a;
  const double exponent = std::fabs(u) <= 0.3 ? log1p_minus(u) : std::log(x / a) - u;
  return std::exp(a * exponent - correction) / std::sqrt(2 * kPi * a);
}

/// Returns 1 - P(a, x) for x <= 1.1 without cancellation, by the series of x^-a P(a, x).
TG_HD inline double gamma_upper_near_zero(double a, double x) {
  double power = 1, sum = 0;
  for (int k = 1; k < 30; ++k) {
    power *= -x / k;
    sum += power / (a + k);
  }
  const double exponent = a * std::log(x) - log_gamma(a + 1);
  return -std::expm1(exponent) - std::exp(exponent) * a * sum;
}

/// Returns P(a, x), the regularised lower incomplete gamma function, or Q = 1 - P if is_upper: P by
/// its series for small x, Q by its continued fraction for large x (modified Lentz algorithm). Both
/// converge within a few sqrt(a) terms near x = a. Not inline: many kernels share the code.
[[gnu::noinline]] TG_HD static inline double incomplete_gamma(double a, double x, bool is_upper) {
  constexpr double kTiny = 1e-300;
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (a == kInfinity && x == kInfinity))
    return kNotANumber;
  if (a == 0 || x == kInfinity) return is_upper ? 0 : 1;
  if (x == 0 || a == kInfinity) return is_upper ? 1 : 0;
  if (is_upper && x <= 1.1) return gamma_upper_near_zero(a, x);
  const double prefix = gamma_prefix(a, x);
  if (x < a + 1) {
    double term = 1, sum = 1;
    for (double n = 1; n < 1e7 && term > 1e-17 * sum; ++n) {
      term *= x / (a + n);
      sum += term;
    }
    const double lower = std::fmin(prefix * sum, 1.0);
    return is_upper ? 1 - lower : lower;
  }
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, fraction = d;
  for (double n = 1; n < 1e7; ++n) {
    const double factor = -n * (n - a);
    b += 2;
    d = 1 / (std::fabs(factor * d + b) < kTiny ? kTiny : factor * d + b);
    c = std::fabs(b + factor / c) < kTiny ? kTiny : b + factor / c;
    const double step = c * d;
    fraction *= step;
    if (std::fabs(step - 1) < 1e-16) break;
  }
  const double upper = std::fmin(prefix * a * fraction, 1.0);
  return is_upper ? upper : 1 - upper;
}

}  // namespace special

struct Erfinv {
  template <typename V>
  TG_HD V operator()(V x) const {
    if constexpr (std::is_arithmetic_v<V>)
      return V(special::erfinv(double(x)));
    else
      return SpecialFunctions<V>::erfinv(x);
  }
};

struct Lgamma {
  template <typename V>
  TG_HD V operator()(V x) const {
    if constexpr (std::is_arithmetic_v<V>)
      return V(special::log_gamma(double(x)));
    else
      return SpecialFunctions<V>::lgamma(x);
  }
};

struct Digamma {
  template <typename V>
  TG_HD V operator()(V x) const {
    if constexpr (std::is_arithmetic_v<V>)
      return V(special::digamma(double(x)));
    else
      return SpecialFunctions<V>::digamma(x);
  }
};

struct Sinc {
  template <typename V>
  TG_HD V operator()(V x) const {
    if constexpr (std::is_arithmetic_v<V>)
      return V(special::sinc(double(x)));
    else
      return SpecialFunctions<V>::sinc(x);
  }
};

/// polygamma(1, x), the derivative of digamma
struct Trigamma {
  template <typename V>
  TG_HD V operator()(V x) const {
    if constexpr (std::is_arithmetic_v<V>)
      return V(special::zeta(2, double(x)));
    else
      return SpecialFunctions<V>::trigamma(x);
  }
};

/// (-1)^(n+1) n! zeta(n + 1, x)
struct Polygamma {
  static constexpr bool kScalar = true;
  double n, factor;

  // The factorial is accumulated as a sum of two numbers: otherwise 30! would have several
  // roundings.
  TG_HD explicit Polygamma(int64_t order) : n(double(order)), factor(order % 2 == 0 ? -1 : 1) {
    double low = 0;
    for (int64_t i = 2; i <= order; ++i) {
      const double high = factor * double(i);
      low = std::fma(factor, double(i), -high) + low * double(i);
      factor = high;
    }
    factor += low;
  }
  template <typename V>
  TG_HD V operator()(V x) const {
    return V(factor * special::zeta(n + 1, double(x)));
  }
};

template <bool is_upper>
struct IncompleteGamma {
  static constexpr bool kScalar = true;
  template <typename V>
  TG_HD V operator()(V a, V x) const {
    return V(special::incomplete_gamma(double(a), double(x), is_upper));
  }
};

struct Zeta {
  static constexpr bool kScalar = true;
  template <typename V>
  TG_HD V operator()(V s, V q) const {
    return V(special::zeta(double(s), double(q)));
  }
};

/// dz/da of z ~ Gamma(a, 1).
struct GammaSlope {
  static constexpr bool kScalar = true;
  template <typename V>
  TG_HD V operator()(V a, V z) const {
    return V(special::gamma_slope(double(a), double(z)));
  }
};

}  // namespace tapegrad::formulas
