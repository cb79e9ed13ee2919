// Vector functions for formulas: exp, log, sin, tanh, erf and others on batches.
//
// They replace those of xsimd, whose faults backends/cpu/tools/simd.h lists. Every lane is computed
// independently, subnormal results are kept, and the largest errors (tests/ops/unary_test.cpp) are
// 1-3 ulp. The algorithms are standard: exact argument reduction with fused multiply-adds, then a
// Chebyshev fit of the reduced argument. Functions without such a form for a type call the C
// library lane by lane.
#pragma once

#include <cmath>
#include <limits>

#include "backends/cpu/tools/simd.h"
#include "backends/functions.h"

namespace tapegrad::backends::cpu::functions {

template <typename R>
using Lanes = xsimd::batch<R>;

/// Returns a * b + c, rounded once.
inline Lanes<float> fused(Lanes<float> a, Lanes<float> b, Lanes<float> c) {
#if XSIMD_WITH_AVX512F
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return map_lanes([](float x, float y, float z) { return std::fma(x, y, z); }, a, b, c);
#endif
}
inline Lanes<double> fused(Lanes<double> a, Lanes<double> b, Lanes<double> c) {
#if XSIMD_WITH_AVX512F
  return _mm512_fmadd_pd(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_pd(a, b, c);
#else
  return map_lanes([](double x, double y, double z) { return std::fma(x, y, z); }, a, b, c);
#endif
}

template <int N, typename R>
Lanes<R> polynomial(const R (&coefficients)[N], Lanes<R> x) {
  Lanes<R> sum(coefficients[N - 1]);
  for (int i = N - 2; i >= 0; --i) sum = fused(sum, x, Lanes<R>(coefficients[i]));
  return sum;
}

template <typename R>
struct Table;

template <>
struct Table<float> {
  using Word = uint32_t;
  static constexpr int kMantissa = 23;
  static constexpr Word kBias = 127, kSqrtHalf = 0x3f3504f3, kOneShifted = 0x4b000000;
  static constexpr float kRound = 0x1.8p+23f;  // adding it rounds to an integer
  static constexpr float kShifted = 0x1p+23f;  // the value of kOneShifted
  static constexpr float kExpLow = -104.0f, kExpHigh = 89.0f;
  static constexpr float kExpm1Low = -20.0f, kTanhHigh = 12.0f, kTiny = 0x1p-14f;
  static constexpr float kSubnormalScale = 0x1p+24f, kSubnormalShift = 24.0f;
  static constexpr float kLog2E = 0x1.715476p+0f;
  static constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kLog10E = 0x1.bcb7b2p-2f, kLog10ELow = -0x1.5b235ep-27f;
  static constexpr float kLog10Of2High = 0x1.344p-2f, kLog10Of2Low = 0x1.3509f8p-18f;
  static constexpr float kTurnHigh = 8192.0f;  // bound up to which the reduction by pi / 2 is exact
  static constexpr float kHalfPi[] = {0x1.921fb6p+0f, -0x1.777a5cp-25f, -0x1.ee59dap-50f};
  // (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2
  static constexpr float kExp[] = {0x1.000000p-1f, 0x1.555556p-3f,  0x1.5554e8p-5f,
                                   0x1.1110e0p-7f, 0x1.6d43d2p-10f, 0x1.a1258cp-13f};
  // (f - log(1 + f)) / f^2
  static constexpr float kLog[] = {0x1.000000p-1f, -0x1.555548p-2f, 0x1.ffffeap-3f, -0x1.99a4ccp-3f,
                                   0x1.55630ep-3f, -0x1.233b36p-3f, 0x1.fb47c4p-4f, -0x1.e5e41ep-4f,
                                   0x1.e2a888p-4f, -0x1.1bd840p-4f};
  // (sin(x) / x - 1) / x^2 and (cos(x) - 1 + x^2 / 2) / x^4 in x^2, for |x| <= pi / 4
  static constexpr float kSin[] = {-0x1.555556p-3f, 0x1.11110ep-7f, -0x1.a013a6p-13f,
                                   0x1.6dbd70p-19f};
  static constexpr float kCos[] = {0x1.555556p-5f, -0x1.6c16c0p-10f, 0x1.a015c4p-16f,
                                   -0x1.2523e8p-22f};
};

template <>
struct Table<double> {
  using Word = uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr Word kBias = 1023, kSqrtHalf = 0x3fe6a09e667f3bcd;
  static constexpr Word kOneShifted = 0x4330000000000000;
  static constexpr double kRound = 0x1.8p+52, kShifted = 0x1p+52;
  static constexpr double kExpLow = -746.0, kExpHigh = 710.0;
  static constexpr double kExpm1Low = -40.0, kTanhHigh = 24.0, kTiny = 0x1p-28;
  static constexpr double kSubnormalScale = 0x1p+54, kSubnormalShift = 54.0;
  static constexpr double kLog2E = 0x1.71547652b82fep+0;
  static constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr double kLog10E = 0x1.bcb7b1526e50ep-2, kLog10ELow = 0x1.95355baaafad3p-57;
  static constexpr double kLog10Of2High = 0x1.34413509fp-2, kLog10Of2Low = 0x1.e7fbcc47c4acdp-40;
  static constexpr double kTurnHigh = 1048576.0;
  static constexpr double kHalfPi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                                       -0x1.f1976b7ed8fbcp-110};
  static constexpr double kExp[] = {
      0x1.0000000000000p-1,  0x1.5555555555555p-3,  0x1.5555555555557p-5,  0x1.1111111111111p-7,
      0x1.6c16c16c15a3fp-10, 0x1.a01a01a019696p-13, 0x1.a01a01a9faa85p-16, 0x1.71de3a5ab0d80p-19,
      0x1.27e4d3ebbbbb4p-22, 0x1.ae642c522f57ep-26, 0x1.1f7f7bd858cc6p-29, 0x1.61c0041f196cep-33};
  // (2 atanh(s) / s - 2) / s^2 in s^2
  static constexpr double kLog[] = {
      0x1.5555555555555p-1, 0x1.9999999999a38p-2, 0x1.2492492476ba1p-2, 0x1.c71c72017a15cp-3,
      0x1.745cf8f6c9119p-3, 0x1.3b1c38474d3eep-3, 0x1.0fbe478772696p-3, 0x1.0c06cf14c641bp-3};
  static constexpr double kSin[] = {
      -0x1.5555555555555p-3,  0x1.1111111111110p-7,  -0x1.a01a01a019933p-13, 0x1.71de3a545ffa4p-19,
      -0x1.ae645411b788bp-26, 0x1.61217e35b462cp-33, -0x1.ab175606bdb81p-41};
  static constexpr double kCos[] = {
      0x1.5555555555555p-5,  -0x1.6c16c16c16c16p-10, 0x1.a01a01a019d08p-16, -0x1.27e4fb7712913p-22,
      0x1.1eed8deb1fa3fp-29, -0x1.9394b94ea76b0p-37, 0x1.ab77eaec5d573p-45};
};

template <typename R>
using Words = xsimd::batch<typename Table<R>::Word>;
template <typename R>
Words<R> words_of(Lanes<R> x) {
  return xsimd::bitwise_cast<Words<R>>(x);
}
template <typename R>
Lanes<R> from_words(Words<R> words) {
  return xsimd::bitwise_cast<Lanes<R>>(words);
}

template <typename R>
Lanes<R> magnitude(Lanes<R> x) {
  return xsimd::fabs(x);
}
template <typename R>
Lanes<R> with_sign_of(Lanes<R> size, Lanes<R> sign) {
  return size | (sign & Lanes<R>(R(-0.0)));
}
template <typename R>
Lanes<R> negative(Lanes<R> x) {
  return x ^ Lanes<R>(R(-0.0));
}

/// Returns 2^n for integer n for which the result is a normal number.
template <typename R>
Lanes<R> power_of_two(Lanes<R> n) {
  using T = Table<R>;
  return from_words<R>(words_of<R>(n + Lanes<R>(T::kRound + R(T::kBias))) << T::kMantissa);
}

/// Returns x 2^n for integer n, rounded once, including subnormal and infinite results.
template <typename R>
Lanes<R> scaled(Lanes<R> x, Lanes<R> n) {
#if XSIMD_WITH_AVX512F
  if constexpr (std::is_same_v<R, float>)
    return _mm512_maskz_scalef_ps(0xffff, x, n);
  else
    return _mm512_maskz_scalef_pd(0xff, x, n);
#else
  const Lanes<R> round(Table<R>::kRound), half = fused(n, Lanes<R>(R(0.5)), round) - round;
  return x * power_of_two(half) * power_of_two(n - half);
#endif
}

/// Returns the integer n of factor x = n log(2) + factor r. `factor` is a power of 2 or the
/// negative of one.
template <typename R>
Lanes<R> whole_log2s(Lanes<R> x, R factor = 1) {
  using T = Table<R>;
  const Lanes<R> round(T::kRound);
  return fused(x, Lanes<R>(factor * T::kLog2E), round) - round;
}
/// Returns the remainder r for this n.
template <typename R>
Lanes<R> rest_of_log2s(Lanes<R> x, Lanes<R> n, R factor = 1) {
  using T = Table<R>;
  const Lanes<R> r = fused(n, Lanes<R>(-T::kLn2High / factor), x);
  return fused(n, Lanes<R>(-T::kLn2Low / factor), r);
}

/// x = n log(2) + r, with fraction = exp(r) - 1.
template <typename R>
struct Exponent {
  Lanes<R> n, fraction;

  explicit Exponent(Lanes<R> x) {
    n = whole_log2s(x);
    const Lanes<R> r = rest_of_log2s(x, n);
    fraction = fused(r * r, polynomial(Table<R>::kExp, r), r);
  }
};

template <typename R>
Lanes<R> exp(Lanes<R> x) {
  using T = Table<R>;
  // Zeros are selected rather than computed, because the processor is slow when results underflow:
  // a masked softmax with half of its entries zero took five times as long. min() of a NaN and a
  // second operand returns the second operand.
  const auto vanishes = x <= Lanes<R>(T::kExpLow);
  const Exponent<R> e(select(vanishes, Lanes<R>(R(0)), xsimd::min(Lanes<R>(T::kExpHigh), x)));
  return select(vanishes, Lanes<R>(R(0)), scaled(Lanes<R>(R(1)) + e.fraction, e.n));
}

/// Returns 2^x, which is exact for integer x: x = n + f, and 2^f = exp(f log(2)).
template <typename R>
Lanes<R> exp2(Lanes<R> x) {
  using T = Table<R>;
  constexpr R kLow = R(std::numeric_limits<R>::min_exponent - std::numeric_limits<R>::digits - 1);
  constexpr R kHigh = R(std::numeric_limits<R>::max_exponent + 1), kLn2 = R(0.6931471805599453094);
  const Lanes<R> zero(R(0)), round(T::kRound);
  const auto vanishes = x <= Lanes<R>(kLow);  // selected, not computed, as in exp()
  const Lanes<R> within = select(vanishes, zero, xsimd::min(Lanes<R>(kHigh), x));
  const Lanes<R> n = (within + round) - round, r = (within - n) * Lanes<R>(kLn2);
  const Lanes<R> fraction = fused(r * r, polynomial(T::kExp, r), r);
  return select(vanishes, zero, scaled(Lanes<R>(R(1)) + fraction, n));
}

/// Returns exp(x) for x <= 0, and 0 where the result is subnormal: an operation on subnormal
/// numbers takes 100 times as long as others. Takes fewer steps if no lane underflows; the value of
/// a lane is the same either way.
inline Lanes<float> exp_of_negative(Lanes<float> x) {
  using T = Table<float>;
  static constexpr float kWhole[] = {1.0f,       1.0f,       T::kExp[0], T::kExp[1],
                                     T::kExp[2], T::kExp[3], T::kExp[4], T::kExp[5]};
  const auto within = [](Lanes<float> x) {
    const Lanes<float> n = whole_log2s(x);
    return scaled(polynomial(kWhole, rest_of_log2s(x, n)), n);
  };
  constexpr float kLow = -87.3365f;  // log of the smallest normal number
  const auto vanishes = x <= Lanes<float>(kLow);
  if (!xsimd::any(vanishes)) return within(x);
  const Lanes<float> zero(0.0f);
  return select(vanishes, zero, within(select(vanishes, zero, x)));
}
inline Lanes<double> exp_of_negative(Lanes<double> x) { return exp(x); }

/// Returns exp(x) - 1 for x in [kExpm1Low, kExpHigh].
template <typename R>
Lanes<R> expm1_within(Lanes<R> x) {
  const Exponent<R> e(x);
  // Computes half of the result, so that 2^n is finite, and doubles it.
  const Lanes<R> scale = power_of_two(e.n - Lanes<R>(R(1)));
  const Lanes<R> y = fused(e.fraction, scale, scale - Lanes<R>(R(0.5)));
  return select(magnitude(x) < Lanes<R>(std::numeric_limits<R>::epsilon() / 4), x, y + y);
}
template <typename R>
Lanes<R> expm1(Lanes<R> x) {
  using T = Table<R>;
  return expm1_within(xsimd::min(Lanes<R>(T::kExpHigh), xsimd::max(Lanes<R>(T::kExpm1Low), x)));
}

/// Parts of log(u) for u > 0: u = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). In float, log(1 +
/// f) = f - f^2 P(f). In double, log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + s^2 P(s^2)) with s = f /
/// (2 + f).
template <typename R>
struct Logarithm {
  Lanes<R> k, f, rest;  // log(u) = k log(2) + f - rest
  /// True if k is infinite for the arguments 0 and inf, and f is NaN for NaN and negative
  /// arguments.
  static constexpr bool kSplitsEdges = XSIMD_WITH_AVX512F && std::is_same_v<R, float>;

  explicit Logarithm(Lanes<R> u) {
    split(u);
    rest = rest_of(f);
  }

  /// Returns f - log(1 + f).
  static Lanes<R> rest_of(Lanes<R> f) {
    if constexpr (std::is_same_v<R, float>) {
      return f * f * polynomial(Table<R>::kLog, f);
    } else {
      const Lanes<R> s = f / (Lanes<R>(R(2)) + f), z = s * s, half = Lanes<R>(R(0.5)) * f * f;
      return half - s * fused(z, polynomial(Table<R>::kLog, z), half);
    }
  }

 private:
  void split(Lanes<R> u) {
    using T = Table<R>;
    using Word = typename T::Word;
    const auto subnormal = u < Lanes<R>(std::numeric_limits<R>::min());
    u = select(subnormal, u * Lanes<R>(T::kSubnormalScale), u);
    const Words<R> bits = words_of<R>(u);
    const Words<R> biased =
        (bits + Words<R>(Word(Word(T::kBias << T::kMantissa) - T::kSqrtHalf))) >> T::kMantissa;
    const Lanes<R> mantissa = from_words<R>(bits - ((biased - Words<R>(T::kBias)) << T::kMantissa));
    k = from_words<R>(biased | Words<R>(T::kOneShifted)) - Lanes<R>(T::kShifted + R(T::kBias));
    k = k - select(subnormal, Lanes<R>(T::kSubnormalShift), Lanes<R>(R(0)));
    f = mantissa - Lanes<R>(R(1));
  }
};

#if XSIMD_WITH_AVX512F
template <>
inline void Logarithm<float>::split(Lanes<float> u) {
  const __m512 one = _mm512_set1_ps(1.0f), half = _mm512_set1_ps(0.5f),
               root = _mm512_set1_ps(0x1.6a09e6p+0f), exponent = _mm512_maskz_getexp_ps(0xffff, u),
               mantissa = _mm512_maskz_getmant_ps(0xffff, u, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan);
  const __mmask16 high = _mm512_cmp_ps_mask(mantissa, root, _CMP_GE_OQ);
  k = _mm512_mask_add_ps(exponent, high, exponent, one);
  f = Lanes<float>(_mm512_mask_mul_ps(mantissa, high, mantissa, half)) - Lanes<float>(one);
}
#endif

/// Replaces the results of a logarithm for arguments outside of (0, inf).
template <typename R>
Lanes<R> at_edges(Lanes<R> u, Lanes<R> y) {
  constexpr R kInf = std::numeric_limits<R>::infinity();
  y = select(u == Lanes<R>(R(0)), Lanes<R>(-kInf), y);
  y = select(u < Lanes<R>(R(0)), Lanes<R>(std::numeric_limits<R>::quiet_NaN()), y);
  return select((u == Lanes<R>(kInf)) | !(u == u), u, y);  // xsimd's != is false for NaN
}

template <typename R>
Lanes<R> log(Lanes<R> x) {
  using T = Table<R>;
  const Logarithm<R> l(x);
  const Lanes<R> low = fused(l.k, Lanes<R>(T::kLn2Low), negative(l.rest));
  const Lanes<R> y = fused(l.k, Lanes<R>(T::kLn2High), l.f + low);
  return Logarithm<R>::kSplitsEdges ? y : at_edges(x, y);
}

template <typename R>
Lanes<R> log2(Lanes<R> x) {
  const Logarithm<R> l(x);
  constexpr R kLow = std::is_same_v<R, float> ? R(0x1.4ae0cp-26) : R(0x1.777d0ffda0d24p-56);
  const Lanes<R> natural = l.f - l.rest;
  const Lanes<R> error = (l.f - natural) - l.rest;  // rounding error of `natural`
  const Lanes<R> low = fused(error, Lanes<R>(Table<R>::kLog2E), natural * Lanes<R>(kLow));
  const Lanes<R> y = l.k + fused(natural, Lanes<R>(Table<R>::kLog2E), low);
  return Logarithm<R>::kSplitsEdges ? y : at_edges(x, y);
}

/// The exact power for each power of ten: sums of the parts keep their rounding errors.
template <typename R>
Lanes<R> log10(Lanes<R> x) {
  using T = Table<R>;
  const Logarithm<R> l(x);
  const Lanes<R> factor(T::kLog10E), natural = l.f - l.rest;
  const Lanes<R> error = (l.f - natural) - l.rest;  // rounding error of `natural`
  const Lanes<R> whole = l.k * Lanes<R>(T::kLog10Of2High), part = natural * factor,
                 y = whole + part;
  const Lanes<R> error_of_part = fused(natural, factor, negative(part));
  const Lanes<R> error_of_y = (whole - y) + part;
  const Lanes<R> low = fused(l.k, Lanes<R>(T::kLog10Of2Low),
                             fused(error, factor, natural * Lanes<R>(T::kLog10ELow)));
  const Lanes<R> sum = y + (error_of_y + (error_of_part + low));
  if constexpr (!Logarithm<R>::kSplitsEdges) return at_edges(x, sum);
  return select(y - y == Lanes<R>(R(0)), sum, y);  // the errors of infinite y are NaN
}

template <typename R>
Lanes<R> log1p(Lanes<R> x) {
  using T = Table<R>;
  const Lanes<R> one(R(1)), u = one + x;
  const Logarithm<R> l(u);
  // The rounding error of 1 + x, relative to u.
  const Lanes<R> lost = select(x > one, one - (u - x), x - (u - one)) / u;
  const Lanes<R> low = fused(l.k, Lanes<R>(T::kLn2Low), lost - l.rest);
  const Lanes<R> y = at_edges(u, fused(l.k, Lanes<R>(T::kLn2High), l.f + low));
  return select(magnitude(x) < Lanes<R>(std::numeric_limits<R>::epsilon() / 4), x, y);
}

/// Returns log(1 + x) for x in [0, 1], without the division and the edges of log1p().
template <typename R>
Lanes<R> log1p_of_fraction(Lanes<R> x) {
  using T = Table<R>;
  const Lanes<R> zero(R(0)), one(R(1)), half(R(0.5)), tiny(R(0x1p-60));
  // 1 + x = 2 (1 + f) with f = (x - 1) / 2 for large x. x - 1 is rounded if x is below 1 / 2, and
  // its error changes log(1 + f) by about 1.37 times the error of f.
  const auto is_large = x > Lanes<R>(R(0.41421356));
  const Lanes<R> below = x - one, error = x - (below + one);
  const Lanes<R> f = select(is_large, below * half, xsimd::max(tiny, x));  // f^2 is not subnormal
  const Lanes<R> low = fused(error, Lanes<R>(R(0.687)), Lanes<R>(T::kLn2Low));
  const Lanes<R> rest = select(is_large, low, zero) - Logarithm<R>::rest_of(f);
  const Lanes<R> y = select(is_large, Lanes<R>(T::kLn2High), zero) + (f + rest);
  return select(x < Lanes<R>(std::numeric_limits<R>::epsilon() / 4), x, y);
}

/// Returns tanh(x) as e / (e + 2) with e = exp(2 |x|) - 1.
template <typename R>
Lanes<R> tanh(Lanes<R> x) {
  const Lanes<R> size = xsimd::min(Lanes<R>(Table<R>::kTanhHigh), magnitude(x));
  const Exponent<R> e2(size + size);
  const Lanes<R> scale = power_of_two(e2.n), one(R(1));
  const Lanes<R> e = fused(e2.fraction, scale, scale - one);
  return with_sign_of(e / (e + (one + one)), x);
}

template <typename R>
Lanes<R> sigmoid(Lanes<R> x) {
  const Lanes<R> one(R(1)), e = exp(negative(magnitude(x)));
  return select(x < Lanes<R>(R(0)), e, one) / (one + e);
}

/// sin and cos of x - n pi / 2, and the low bits of n.
template <typename R>
struct Turn {
  Lanes<R> sin, cos;
  Words<R> n;

  explicit Turn(Lanes<R> x) {
    using T = Table<R>;
    const Lanes<R> round(T::kRound), rounded = fused(x, Lanes<R>(R(0.63661977236758134308)), round);
    n = words_of<R>(rounded);
    const Lanes<R> back = negative(rounded - round);
    Lanes<R> r = fused(back, Lanes<R>(T::kHalfPi[0]), x);
    r = fused(back, Lanes<R>(T::kHalfPi[1]), r);
    r = fused(back, Lanes<R>(T::kHalfPi[2]), r);
    const Lanes<R> z = r * r;
    sin = fused(r * z, polynomial(T::kSin, z), r);
    cos = fused(z * z, polynomial(T::kCos, z), fused(z, Lanes<R>(R(-0.5)), Lanes<R>(R(1))));
  }
  auto is_odd() const { return (n & Words<R>(1)) != Words<R>(0); }
  /// Returns the sign bit, set if bit 1 of n + more is set.
  Lanes<R> sign(typename Table<R>::Word more) const {
    constexpr int kTop = int(sizeof(R)) * 8 - 2;
    return from_words<R>(((n + Words<R>(more)) & Words<R>(2)) << kTop);
  }
  Lanes<R> pick(Lanes<R> odd, Lanes<R> even) const {
    // Masks of words and of floats have different types; select on words.
    return from_words<R>(select(is_odd(), words_of<R>(odd), words_of<R>(even)));
  }
};

/// Returns the fast result where the reduction is exact, else f applied to the lane.
template <typename R, typename F>
Lanes<R> or_by_lane(Lanes<R> x, Lanes<R> fast, F f) {
  const auto far = !(magnitude(x) <= Lanes<R>(Table<R>::kTurnHigh));
  if (xsimd::any(far)) fast = select(far, map_lanes(f, x), fast);
  return select(magnitude(x) < Lanes<R>(Table<R>::kTiny), x, fast);
}

template <typename R>
Lanes<R> sin(Lanes<R> x) {
  const Turn<R> t(x);
  return or_by_lane(x, t.pick(t.cos, t.sin) ^ t.sign(0), [](R v) { return std::sin(v); });
}
template <typename R>
Lanes<R> cos(Lanes<R> x) {
  const Turn<R> t(x);
  const Lanes<R> y =
      or_by_lane(x, t.pick(t.sin, t.cos) ^ t.sign(1), [](R v) { return std::cos(v); });
  return select(magnitude(x) < Lanes<R>(Table<R>::kTiny), Lanes<R>(R(1)), y);
}
template <typename R>
Lanes<R> tan(Lanes<R> x) {
  const Turn<R> t(x);
  const Lanes<R> y = t.pick(negative(t.cos), t.sin) / t.pick(t.sin, t.cos);
  return or_by_lane(x, y, [](R v) { return std::tan(v); });
}

/// An odd polynomial for |x| < 1.
inline Lanes<float> erf_near_zero(Lanes<float> x) {
  static constexpr float kFit[] = {0x1.06eba8p-3f,  -0x1.812746p-2f, 0x1.ce2f08p-4f,
                                   -0x1.b829c8p-6f, 0x1.562a60p-8f,  -0x1.bccf66p-11f,
                                   0x1.d88750p-14f, -0x1.445f48p-17f};
  return fused(x, polynomial(kFit, x * x), x);
}
/// Returns erf(x) in float. Beyond 1, erf(x) is computed as 1 - exp(Q), where Q fits log(erfc).
/// Since erfc <= 0.16 there, the error of the fit is scaled down.
inline Lanes<float> erf(Lanes<float> x) {
  static constexpr float kFar[] = {0x1.4fb068p-12f, -0x1.2156fap+0f,  -0x1.437eb4p-1f,
                                   -0x1.c2e356p-4f, 0x1.b0e246p-6f,   -0x1.37ecc6p-8f,
                                   0x1.38e5e6p-11f, -0x1.825ce4p-15f, 0x1.b77830p-20f};
  const Lanes<float> size = magnitude(x), one(1.0f);
  const Lanes<float> within = select(size > Lanes<float>(4.0f), Lanes<float>(4.0f), size);
  const Lanes<float> far = one - exp(polynomial(kFar, within));
  return with_sign_of(select(size < one, erf_near_zero(size), far), x);
}
/// Returns erfc(x) for x >= 0: exp(-x^2) P(u) / (1 + 2 x), where P is a Chebyshev fit over all x
/// and the rounding of x^2 is made good.
inline Lanes<double> erfc_of_positive(Lanes<double> x) {
  static constexpr double kFit[] = {
      0x1.3ccda0b5d5dc2p+0,  -0x1.1f367683f89a5p-3,  0x1.d5f294815a405p-9,   0x1.510169d09665bp-4,
      -0x1.bda9309a2949ap-4, 0x1.7a14188a9ce2ap-4,   -0x1.e0d0fa6ddfe85p-5,  0x1.d0b0037d167adp-6,
      -0x1.3f603c398c6c5p-7, 0x1.cc3a0e7d2150cp-10,  0x1.33fb2968decd9p-12,  -0x1.303fa4966bc38p-12,
      0x1.b1439865f8d9ep-15, 0x1.778b933adcce7p-16,  -0x1.800077b775cf3p-17, -0x1.055686d42aa63p-20,
      0x1.d6339f66a50f8p-20, -0x1.eb803840c0574p-25, -0x1.15be4201dc721p-22, 0x1.8fa9fe49c359bp-26,
      0x1.4c37f59c36e71p-25, -0x1.014cd7201b5adp-28, -0x1.638dcc665be8dp-28, 0x1.561b105822235p-32,
      0x1.d3744857e262bp-32};
  const Lanes<double> one(1.0), two(2.0), centre(3.75), most(28.0);
  const Lanes<double> size = select(x > most, most, x), square = size * size;
  const Lanes<double> rest = fused(size, size, negative(square));
  const Lanes<double> bell = exp(negative(square)), u = (size - centre) / (size + centre);
  return fused(bell, negative(rest), bell) * polynomial(kFit, u) / fused(size, two, one);
}
/// An odd polynomial for |x| < 1.
inline Lanes<double> erf_near_zero(Lanes<double> x) {
  static constexpr double kFit[] = {
      0x1.06eba8214db69p-3,  -0x1.812746b0379e7p-2,  0x1.ce2f21a042bdbp-4,  -0x1.b82ce312888afp-6,
      0x1.565bcd0e61ec1p-8,  -0x1.c02db3fe3df06p-11, 0x1.f9a326a9ded68p-14, -0x1.f4d253d316901p-17,
      0x1.b9e62b40114a3p-20, -0x1.5f6bef468c54bp-23, 0x1.fc2a98c989fe5p-27, -0x1.4de81ed8d0f6dp-30,
      0x1.7c5e56e2ad52bp-34, -0x1.2315290276345p-38};
  return fused(x, polynomial(kFit, x * x), x);
}
inline Lanes<double> erf(Lanes<double> x) {
  const Lanes<double> size = magnitude(x), one(1.0);
  const Lanes<double> y = select(size < one, erf_near_zero(size), one - erfc_of_positive(size));
  return with_sign_of(y, x);
}
inline Lanes<double> erfc(Lanes<double> x) {
  const Lanes<double> size = magnitude(x), far = erfc_of_positive(size);
  return select(size < Lanes<double>(0.5), Lanes<double>(1.0) - erf_near_zero(x),
                select(x < Lanes<double>(0.0), Lanes<double>(2.0) - far, far));
}

/// The density in float is exp_of_negative(-x^2 / 2) with constants for x^2. The tail is exp(-x^2 /
/// 2) t Q(t) with t = 1 / (1 + p |x|): a fit of erfcx with relative error 2.4e-8.
inline formulas::Normal<Lanes<float>> normal(Lanes<float> x) {
  using T = Table<float>;
  // exp(-r / 2) for |r| <= log(2)
  static constexpr float kBell[] = {0x1.000000p+0f,  -0x1.000000p-1f, 0x1.000000p-3f,
                                    -0x1.555556p-6f, 0x1.5554e8p-9f,  -0x1.1110e0p-12f,
                                    0x1.6d43d2p-16f, -0x1.a1258cp-20f};
  static constexpr float kTail[] = {0x1.b9394cp-4f, 0x1.b87ee2p-4f,  0x1.a10428p-4f,
                                    0x1.271d8ap-4f, 0x1.b9a740p-4f,  -0x1.1b7c92p-4f,
                                    0x1.5bb8c4p-3f, -0x1.030afcp-3f, 0x1.da7fa0p-6f};
  const Lanes<float> zero(0.0f), one(1.0f);
  Lanes<float> size = magnitude(x), square = size * size;
  const auto vanishes = square >= Lanes<float>(-2 * T::kExpLow);
  const bool some = xsimd::any(vanishes);
  if (some) [[unlikely]] {
    size = xsimd::min(Lanes<float>(40.0f), size);
    square = select(vanishes, zero, square);
  }
  const Lanes<float> n = whole_log2s(square, -0.5f);
  Lanes<float> bell = scaled(polynomial(kBell, rest_of_log2s(square, n, -0.5f)), n);
  if (some) [[unlikely]]
    bell = select(vanishes, zero, bell);
  const Lanes<float> t = one / fused(size, Lanes<float>(0x1.147ae2p-2f), one);
  const Lanes<float> tail = bell * t * polynomial(kTail, t);
  return {size, select(tail < Lanes<float>(0x1p-126f), zero, tail),
          bell * Lanes<float>(0x1.988454p-2f)};
}
inline formulas::Normal<Lanes<double>> normal(Lanes<double> x) {
  const Lanes<double> size = xsimd::min(Lanes<double>(40.0), magnitude(x)), zero(0.0);
  const Lanes<double> tail =
      Lanes<double>(0.5) * erfc(size * Lanes<double>(0.70710678118654752440));
  return {size, select(tail < Lanes<double>(0x1p-1022), zero, tail),
          exp(size * size * Lanes<double>(-0.5)) * Lanes<double>(0.39894228040143267794)};
}

}  // namespace tapegrad::backends::cpu::functions

namespace tapegrad::formulas {

/// The functions that formulas call if V is a batch.
template <typename R, typename A>
struct Functions<xsimd::batch<R, A>> {
  using V = xsimd::batch<R, A>;
  static V exp(V x) { return backends::cpu::functions::exp(x); }
  static V exp2(V x) { return backends::cpu::functions::exp2(x); }
  static V expm1(V x) { return backends::cpu::functions::expm1(x); }
  static V log(V x) { return backends::cpu::functions::log(x); }
  static V log1p(V x) { return backends::cpu::functions::log1p(x); }
  static V log1p_of_fraction(V x) { return backends::cpu::functions::log1p_of_fraction(x); }
  static V log2(V x) { return backends::cpu::functions::log2(x); }
  static V log10(V x) { return backends::cpu::functions::log10(x); }
  static V sin(V x) { return backends::cpu::functions::sin(x); }
  static V cos(V x) { return backends::cpu::functions::cos(x); }
  static V tan(V x) { return backends::cpu::functions::tan(x); }
  static V tanh(V x) { return backends::cpu::functions::tanh(x); }
  static V erf(V x) { return backends::cpu::functions::erf(x); }
  static Normal<V> normal(V x) { return backends::cpu::functions::normal(x); }
  static V sigmoid(V x) { return backends::cpu::functions::sigmoid(x); }
  static V sqrt(V x) { return xsimd::sqrt(x); }
  static V abs(V x) { return xsimd::fabs(x); }
  static V negative(V x) { return backends::cpu::functions::negative(x); }
  static V normal_or_zero(V x) {
    return xsimd::select(abs(x) < V(std::numeric_limits<R>::min()), V(R(0)), x);
  }
  static V copysign(V size, V sign) {
    return backends::cpu::functions::with_sign_of(abs(size), sign);
  }
  static V floor(V x) { return xsimd::floor(x); }
  static V ceil(V x) { return xsimd::ceil(x); }
  static V trunc(V x) { return xsimd::trunc(x); }
  static V round(V x) { return xsimd::nearbyint(x); }
};

}  // namespace tapegrad::formulas
