// Conversion of random words to normal numbers (Box and Muller 1958), uniform numbers and dropout
// masks.
//
// All devices must produce the same bits. Therefore nothing here depends on a math library or on
// the compiler's contraction of multiply-adds: only IEEE operations, and std::fma where a
// multiply-add is fused. The polynomials are Chebyshev fits whose errors are below a quarter of an
// ulp of the result.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/base/dtype.h"
#include "core/base/host_device.h"

namespace tapegrad::formulas {

/// Without a loop, so that loops over calls vectorise.
template <int first = 0, int N, typename R>
TG_HD inline R horner(const R (&coefficients)[N], R x) {
  if constexpr (first + 1 == N)
    return coefficients[first];
  else
    return std::fma(horner<first + 1>(coefficients, x), x, coefficients[first]);
}

/// Constants. Coefficient tables are inside functions, because a GPU finds them there.
template <typename R>
struct RandomMath;

template <>
struct RandomMath<float> {
  using Int = int32_t;
  static constexpr int kMantissa = 23;
  static constexpr Int kSqrtHalf = 0x3f3504f3;  // bits of sqrt(1/2)
  static constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kHalfPi = 0x1.921fb6p+0f, kHalfPiLow = -0x1.777a5cp-25f;
  TG_HD static float log_series(float z) {
    constexpr float kTerms[] = {0x1.555556p-1f, 0x1.9999ecp-2f, 0x1.245c38p-2f, 0x1.ddd172p-3f};
    return horner(kTerms, z);
  }
  TG_HD static float sin_series(float z) {
    constexpr float kTerms[] = {-0x1.4abbcep-1f, 0x1.466bc2p-4f, -0x1.32ce1cp-8f, 0x1.4cb700p-13f};
    return horner(kTerms, z);
  }
  TG_HD static float cos_series(float z) {
    constexpr float kTerms[] = {-0x1.3bd3ccp+0f, 0x1.03c1eap-2f, -0x1.55cb96p-6f, 0x1.db63e6p-11f};
    return horner(kTerms, z);
  }
};

template <>
struct RandomMath<double> {
  using Int = int64_t;
  static constexpr int kMantissa = 52;
  static constexpr Int kSqrtHalf = 0x3fe6a09e667f3bcd;
  static constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54;
  TG_HD static double log_series(double z) {
    constexpr double kTerms[] = {0x1.5555555555555p-1, 0x1.9999999999a38p-2, 0x1.2492492476ba1p-2,
                                 0x1.c71c72017a15cp-3, 0x1.745cf8f6c9119p-3, 0x1.3b1c38474d3eep-3,
                                 0x1.0fbe478772696p-3, 0x1.0c06cf14c641bp-3};
    return horner(kTerms, z);
  }
  TG_HD static double sin_series(double z) {
    constexpr double kTerms[] = {
        -0x1.4abbce625be53p-1,  0x1.466bc6775aae1p-4,  -0x1.32d2cce62b870p-8, 0x1.50783486fa66fp-13,
        -0x1.e3074d253f118p-19, 0x1.e8f035ebfe7b1p-25, -0x1.6cc52bef4fa10p-31};
    return horner(kTerms, z);
  }
  TG_HD static double cos_series(double z) {
    constexpr double kTerms[] = {-0x1.3bd3cc9be45dep+0,  0x1.03c1f081b5ac4p-2,
                                 -0x1.55d3c7e3cbff7p-6,  0x1.e1f506891ae8fp-11,
                                 -0x1.a6d1f2a0862ccp-16, 0x1.f9d3870777202p-22,
                                 -0x1.b6de8ac9b4afap-28, 0x1.1e7421cbcbf8dp-34};
    return horner(kTerms, z);
  }
};

/// Returns log(u) for normal positive u, within 1 ulp: u = 2^k (1 + f) with 1 + f in [sqrt(1/2),
/// sqrt(2)), s = f / (2 + f), and log(1 + f) = 2 atanh(s) = f - f^2 / 2 + s (f^2 / 2 + s^2 P(s^2)).
template <typename R>
TG_HD inline R random_log(R u) {
  using M = RandomMath<R>;
  using Int = typename M::Int;
  const Int bits = std::bit_cast<Int>(u);
  const Int k = (bits - M::kSqrtHalf) >> M::kMantissa;
  const R f = std::bit_cast<R>(bits - (k << M::kMantissa)) - R(1);
  const R exponent = R(int32_t(k));
  const R s = f / (R(2) + f), z = s * s;
  const R half = R(0.5) * f * f;
  const R tail = std::fma(s, std::fma(z, M::log_series(z), half), exponent * M::kLn2Low);
  return std::fma(exponent, M::kLn2High, f - (half - tail));
}

template <typename R>
struct CosSin {
  R cos, sin;
};

/// Returns cos and sin of 2 pi u for u in [0, 1), within 2 ulp. The quadrant is exact, and so is
/// the remaining angle in [-pi/4, pi/4].
template <typename R>
TG_HD inline CosSin<R> random_turn(R u) {
  using M = RandomMath<R>;
  const R quarters = R(4) * u;
  const int32_t quadrant = int32_t(quarters + R(0.5));
  const R x = quarters - R(quadrant), z = x * x;
  const R sin = std::fma(x, M::kHalfPi, x * std::fma(z, M::sin_series(z), M::kHalfPiLow));
  const R cos = std::fma(z, M::cos_series(z), R(1));
  const bool odd = quadrant & 1;
  const R a = odd ? sin : cos, b = odd ? cos : sin;
  return {(quadrant + 1) & 2 ? -a : a, quadrant & 2 ? -b : b};
}

/// Two independent standard normal numbers from u in (0, 1] and v in [0, 1).
template <typename R>
TG_HD inline CosSin<R> box_muller(R u, R v) {
  const R radius = std::sqrt(R(-2) * random_log(u));
  const CosSin<R> turn = random_turn(v);
  return {radius * turn.cos, radius * turn.sin};
}

/// Returns a number in (0, 1] for the logarithm; uses all 32 or 64 random bits.
TG_HD inline float positive_float(uint32_t word) {
  return std::fma(float(word), 0x1p-32f, 0x1p-33f);
}
TG_HD inline double positive_double(uint32_t high, uint32_t low) {
  return std::fma(double(int64_t((uint64_t(high) << 32 | low) >> 11)), 0x1p-53, 0x1p-54);
}

/// Returns the upper 64 bits of a * b.
TG_HD inline uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t a0 = uint32_t(a), a1 = a >> 32, b0 = uint32_t(b), b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
  return a1 * b1 + (middle >> 32) + ((uint32_t(middle) + a0 * b1) >> 32);
}

/// Returns a uniform integer in [low, low + range), range > 0, from 64 random bits. The probability
/// of each is 1 / range to within 2^-64.
TG_HD inline int64_t integer_in(uint64_t bits, int64_t low, uint64_t range) {
  return int64_t(uint64_t(low) + multiply_high(bits, range));
}

/// Returns the largest T below `bound`.
template <typename T>
T below(double bound) {
  using R = Compute<T>;
  if constexpr (std::is_same_v<T, R>) {
    const R rounded = R(bound);
    return double(rounded) < bound ? rounded
                                   : std::nextafter(rounded, -std::numeric_limits<R>::infinity());
  } else {
    T rounded = T(float(bound));
    if (double(float(rounded)) < bound) return rounded;
    if (float(rounded) == 0.0f)
      rounded.bits = 0x8001u;
    else
      rounded.bits += float(rounded) > 0.0f ? uint16_t(-1) : uint16_t(1);
    return rounded;
  }
}

/// Returns the threshold of dropout with probability p: elements with a random word below it are
/// dropped.
inline uint32_t drop_below(double p) { return uint32_t(std::min(p * 0x1p32 + 0.5, 0xffffffffp0)); }

}  // namespace tapegrad::formulas
