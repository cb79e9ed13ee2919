// Powers in vectors of double.
#pragma once

#include "backends/cpu/tools/functions.h"

namespace tapegrad::backends::cpu::functions {

/// Returns a^b, given |a|^b: a negative a gives NaN unless b is an integer.
inline Lanes<double> with_sign_of_power(Lanes<double> a, Lanes<double> b, Lanes<double> size) {
  const Lanes<double> zero(0.0), nan(std::numeric_limits<double>::quiet_NaN());
  if (!xsimd::any(a < zero)) return size;
  const Lanes<double> half = b * Lanes<double>(0.5);
  const Lanes<double> odd = select(xsimd::floor(half) == half, size, negative(size));
  return select(a < zero, select(xsimd::floor(b) == b, odd, nan), size);
}

/// Returns |a|^b for finite floats a and b and a != 0, as 2^(b log2|a|) with an error below 2^-37;
/// a negative a gives NaN unless b is an integer.
inline Lanes<double> power_of_float(Lanes<double> a, Lanes<double> b) {
  using T = Table<double>;
  // log2((1 + s) / (1 - s)) / s in s^2, for (1 + s) / (1 - s) in [sqrt(1/2), sqrt(2))
  static constexpr double kLog2[] = {0x1.71547652b8251p+1, 0x1.ec709dc53bc31p-1,
                                     0x1.2776c293f64f2p-1, 0x1.a61a2e3a19268p-2,
                                     0x1.47956d1330963p-2, 0x1.21afa5289a32bp-2};
  // 2^r for |r| <= 1/2
  static constexpr double kExp2[] = {
      0x1.000000000003dp+0,  0x1.62e42fef84cd5p-1,  0x1.ebfbdff8149e3p-3,
      0x1.c6b08dd7007ccp-5,  0x1.3b2ab72b1879ep-7,  0x1.5d8745a3cec2ap-10,
      0x1.43088e23ba6dap-13, 0x1.00dc4c3d33fc1p-16, 0x1.63ef985f2da27p-20};
  const Lanes<double> round(T::kRound), bound(400.0);
  const Words<double> bits = words_of(magnitude(a));
  const Words<double> biased =
      (bits + Words<double>((T::kBias << T::kMantissa) - T::kSqrtHalf)) >> T::kMantissa;
  const Lanes<double> mantissa =
      from_words<double>(bits - ((biased - Words<double>(T::kBias)) << T::kMantissa));
  const Lanes<double> k = from_words<double>(biased | Words<double>(T::kOneShifted)) -
                          Lanes<double>(T::kShifted + double(T::kBias));
  const Lanes<double> s = (mantissa - Lanes<double>(1.0)) / (mantissa + Lanes<double>(1.0));
  const Lanes<double> whole = b * fused(s, polynomial(kLog2, s * s), k);
  const Lanes<double> y = xsimd::max(negative(bound), xsimd::min(bound, whole));
  const Lanes<double> n = (y + round) - round;
  const Lanes<double> size = polynomial(kExp2, y - n) * power_of_two(n);
  return with_sign_of_power(a, b, size);
}
/// The sum of two numbers, of which `low` is at most about an ulp of `high`.
struct Pair {
  Lanes<double> high, low;
};
/// Requires |a| >= |b|, or a = 0.
inline Pair exact_sum(Lanes<double> a, Lanes<double> b) {
  const Lanes<double> sum = a + b;
  return {sum, (a - sum) + b};
}
inline Pair exact_product(Lanes<double> a, Lanes<double> b) {
  const Lanes<double> product = a * b;
  return {product, fused(a, b, negative(product))};
}

/// Returns log(u) for u > 0, with an error of about 2^-66 of the result.
inline Pair exact_log(Lanes<double> u) {
  using T = Table<double>;
  // ((atanh(s) / s - 1) / s^2 - 1/3) / s^2 in s^2, for (1 + s) / (1 - s) in [sqrt(1/2), sqrt(2))
  static constexpr double kFit[] = {
      0x1.999999999999ap-3, 0x1.2492492492522p-3, 0x1.c71c71c6ea759p-4, 0x1.745d177ab7fc0p-4,
      0x1.3b1395c578c1bp-4, 0x1.1118ca4d29aebp-4, 0x1.df7c545c26cd7p-5, 0x1.e032c332f4c14p-5};
  const Logarithm<double> l(u);
  const Lanes<double> two(2.0), third(0x1.5555555555555p-2), rest_of_third(0x1.5555555555555p-56);
  // s = f / (2 + f)
  const Pair divisor = exact_sum(two, l.f);
  const Lanes<double> s = l.f / divisor.high;
  const Lanes<double> left = fused(negative(s), divisor.high, l.f) - s * divisor.low;
  const Lanes<double> s_low = left / divisor.high;
  // z = s^2, g = z / 3 + z^2 P(z)
  Pair z = exact_product(s, s);
  z.low = z.low + two * s * s_low;
  Pair g = exact_product(z.high, third);
  const Lanes<double> g_low = g.low + (z.high * rest_of_third + z.low * third);
  g = exact_sum(g.high, z.high * z.high * polynomial(kFit, z.high));
  g.low = g.low + g_low;
  // log(1 + f) = 2 (s + s g)
  Pair y = exact_product(s, g.high);
  const Lanes<double> y_low = y.low + (s * g.low + s_low * g.high);
  y = exact_sum(s, y.high);
  y.low = y.low + (y_low + s_low);
  const Pair sum = exact_sum(l.k * Lanes<double>(T::kLn2High), two * y.high);
  return exact_sum(sum.high, sum.low + fused(l.k, Lanes<double>(T::kLn2Low), two * y.low));
}

/// Returns a^b with an error below 1.1 ulp. Zeros, infinities and NaN go to the C library.
inline Lanes<double> pow(Lanes<double> a, Lanes<double> b) {
  using T = Table<double>;
  const Lanes<double> zero(0.0), one(1.0), inf(std::numeric_limits<double>::infinity());
  if (xsimd::all(b == Lanes<double>(2.0))) return a * a;
  const auto near = (magnitude(a) < inf) & (magnitude(b) < inf) & !(a == zero);
  const Pair l = exact_log(select(near, magnitude(a), one));
  const Lanes<double> factor = select(near, b, one);
  const Pair x = exact_product(factor, l.high);
  const auto within = (x.high > Lanes<double>(T::kExpLow)) & (x.high < Lanes<double>(T::kExpHigh));
  const Lanes<double> high =
      xsimd::max(Lanes<double>(T::kExpLow), xsimd::min(Lanes<double>(T::kExpHigh), x.high));
  const Lanes<double> low = select(within, fused(factor, l.low, x.low), zero);
  // The remainder high + low - n log(2) is r + lost.
  const Lanes<double> n = whole_log2s(high);
  const Lanes<double> whole = fused(n, Lanes<double>(-T::kLn2High), high);
  const Lanes<double> rest = fused(n, Lanes<double>(-T::kLn2Low), low), r = whole + rest;
  const Lanes<double> lost = (whole - r) + rest;
  // Only the last sum is rounded to the precision of the result, so that whole powers are exact.
  const Pair sum = exact_sum(one, r);
  const Lanes<double> tail = sum.low + fused(r * r, polynomial(T::kExp, r), lost);
  const Lanes<double> size = scaled(sum.high + tail, n);
  const Lanes<double> y = with_sign_of_power(a, b, size);
  if (xsimd::all(near)) [[likely]]
    return y;
  return select(near, y, map_lanes([](double a, double b) { return std::pow(a, b); }, a, b));
}

}  // namespace tapegrad::backends::cpu::functions
