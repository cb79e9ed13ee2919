// Reducers for reduce_frame.h, which explains their interface.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/tools/simd.h"
#include "backends/cpu/tools/wide_sum.h"

namespace tapegrad::backends::cpu {

/// Sums short partial sums of float in double: the sum of 2^24 + 8 ones is exact, and a sixteen-bit
/// sum is rounded once. Integers wrap around in 64 bits.
template <typename T, typename Lane = std::conditional_t<kIsFloat<T>, Compute<T>, uint64_t>>
struct SumOf {
  using Value = Compute<T>;
  using Part = Lane;
  using Total = std::conditional_t<kIsFloat<T>, double, uint64_t>;
  static constexpr Part kFirst = 0;

  Part add(Part part, Value value) const { return part + Part(value); }
  Part merge(Part a, Part b) const { return a + b; }
  Total join(Total a, Total b) const { return a + b; }
  Total repeat(Total total, int64_t n) const { return n == 1 ? total : total * Total(n); }
};
/// Sums in double throughout, so that the mean of equal floats is exactly their value.
template <typename T>
struct WideSumOf : SumOf<T, double> {
  static double block(const float* values, int64_t n) { return sum_in_double(values, n); }
};

/// The sum of squared distances from the centre.
template <typename T>
struct SquaresOf : SumOf<T, double> {
  static constexpr bool kCentred = true;
  double add(double part, Compute<T> value, double centre) const {
    const double d = double(value) - centre;
    return part + d * d;
  }
};

/// The sum of |x|^p; if kPower is 0, p is given at run time.
template <typename T, int kPower>
struct PowersOf : SumOf<T, double> {
  double p = kPower;
  double add(double part, Compute<T> value) const {
    if constexpr (kPower == 1) return part + std::fabs(double(value));
    if constexpr (kPower == 2) return part + double(value) * double(value);
    if (p == 0) return part + (value != 0);
    return part + std::pow(std::fabs(double(value)), p);
  }
};

template <typename T>
struct ProductOf {
  using Value = Compute<T>;
  using Part = std::conditional_t<kIsFloat<T>, double, uint64_t>;
  using Total = Part;
  static constexpr Part kFirst = 1;

  Part add(Part part, Value value) const { return part * Part(value); }
  Part merge(Part a, Part b) const { return a * b; }
  Total join(Total a, Total b) const { return a * b; }
  Total repeat(Total total, int64_t n) const {
    Total power = 1;
    for (; n > 0; n /= 2, total *= total)
      if (n % 2 == 1) power *= total;
    return power;
  }
};

/// Whether a is at least as extreme as b, where NaN is the most extreme. Without a branch, so that
/// loops vectorise.
template <bool kLargest, typename Value>
bool holds_against(Value a, Value b) {
  return bool(int(kLargest ? a >= b : a <= b) | int(a != a));
}

/// The largest or smallest element; NaN if any element is NaN.
template <typename T, bool kLargest>
struct ExtremeOf {
  using Value = Compute<T>;
  using Part = Value;
  using Total = Value;
  using Limits = std::numeric_limits<Value>;
  static constexpr Part kFirst = kIsFloat<T> ? (kLargest ? -Limits::infinity() : Limits::infinity())
                                             : (kLargest ? Limits::lowest() : Limits::max());

  Part add(Part part, Value value) const {
    const Part further = (kLargest ? part >= value : part <= value) ? part : value;
    return part != part ? part : further;  // two selections, which vectorise
  }
  Part merge(Part a, Part b) const { return add(a, b); }
  Total join(Total a, Total b) const { return add(a, b); }
  Total repeat(Total total, int64_t) const { return total; }
};

/// Whether any element is zero (`zero` is true) or nonzero (`zero` is false).
template <typename T>
struct Contains {
  using Value = Compute<T>;
  using Part = uint8_t;
  using Total = uint8_t;
  static constexpr Part kFirst = 0;
  bool zero;

  Part add(Part part, Value value) const { return part | Part((value == Value(0)) == zero); }
  Part merge(Part a, Part b) const { return a | b; }
  Total join(Total a, Total b) const { return a | b; }
  Total repeat(Total total, int64_t) const { return total; }
};

}  // namespace tapegrad::backends::cpu
