// Reducers for reduce_frame.h, which explains their interface.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/tools/lanes.h"
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
  template <int k>
  static void add_rows(double* parts, const float* const (&rows)[k], int64_t first, int64_t last) {
    combine_in_double(parts, rows, first, last, [](auto a, auto b) { return a + b; });
  }
  static constexpr bool kAddsLanes = true;  // totals are added, and zeros change none
  static Doubles combine(Doubles part, Doubles x) { return part + x; }
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

/// The sum of |x|^kPower for the powers 1 and 2.
template <typename T, int kPower>
struct PowersOf : SumOf<T, double> {
  double add(double part, Compute<T> value) const { return part + power(double(value)); }
  static double block(const float* values, int64_t n) {
    return sum_in_double(values, n, [](auto x) { return power(x); });
  }
  static constexpr bool kAddsLanes = true;
  static Doubles combine(Doubles part, Doubles x) { return part + power(x); }

 private:
  static auto power(auto x) {
    if constexpr (kPower == 1)
      return x < 0 ? -x : x;
    else
      return x * x;
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
  static double block(const float* values, int64_t n) {
    constexpr int kParts = 4;
    Doubles parts[kParts];
    unrolled<kParts>([&](auto k) { parts[k()] = Doubles{} + 1.0; });
    int64_t i = 0;
    for (; i + kParts * kDoubles <= n; i += kParts * kDoubles) {
      fetch_run(values + i + kFetchAhead / int64_t(sizeof(float)), kParts * kDoubles);
      unrolled<kParts>([&](auto k) {
        parts[k()] *= widen(load_vector<HalfFloats>(values + i + k() * kDoubles));
      });
    }
    Doubles product = (parts[0] * parts[1]) * (parts[2] * parts[3]);
    for (int width = kDoubles / 2; width > 0; width /= 2)
      for (int lane = 0; lane < width; ++lane) product[lane] *= product[lane + width];
    for (; i < n; ++i) product[0] *= double(values[i]);
    return product[0];
  }
  template <int k>
  static void add_rows(double* parts, const float* const (&rows)[k], int64_t first, int64_t last) {
    combine_in_double(parts, rows, first, last, [](auto a, auto b) { return a * b; });
  }
  static Doubles combine(Doubles part, Doubles x) { return part * x; }
  Total join(Total a, Total b) const { return a * b; }
  Total repeat(Total total, int64_t n) const {
    if (n == 1) return total;
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

  template <int k>
  void add_rows(float* parts, const float* const (&rows)[k], int64_t first, int64_t last) const {
    using B = xsimd::batch<float>;
    int64_t i = first;
    for (; i + int64_t(B::size) <= last; i += int64_t(B::size)) {
      B part = B::load_unaligned(parts + i);
      for (int row = 0; row < k; ++row) part = combine(part, B::load_unaligned(rows[row] + i));
      part.store_unaligned(parts + i);
    }
    for (; i < last; ++i)
      for (int row = 0; row < k; ++row) parts[i] = float(add(Part(parts[i]), Part(rows[row][i])));
  }

  static Batch<float> combine(Batch<float> part, Batch<float> value) {
    return xsimd::select(value == value, extreme(value, part), value);
  }

  /// Looks for NaN apart from the extreme, which takes half of the instructions. The last register
  /// overlaps the one before.
  float block(const float* values, int64_t n) const {
    using B = xsimd::batch<float>;
    constexpr int64_t kLane = int64_t(B::size), kParts = 4;
    if (n < kLane) {
      float part = float(kFirst);
      for (int64_t i = 0; i < n; ++i) part = float(add(Part(part), Part(values[i])));
      return part;
    }
    B most = B::load_unaligned(values + n - kLane);
    auto is_number = most == most;
    const auto take = [&](B& part, int64_t i) {
      const B value = B::load_unaligned(values + i);
      is_number = is_number & (value == value);
      part = extreme(value, part);
    };
    int64_t i = 0;
    if (n >= kParts * kLane) {
      B parts[kParts];
      unrolled<kParts>([&](auto k) { parts[k()] = B(float(kFirst)); });
      for (; i + kParts * kLane <= n; i += kParts * kLane) {
        fetch_run(values + i + kFetchAhead / int64_t(sizeof(float)), kParts * kLane);
        unrolled<kParts>([&](auto k) { take(parts[k()], i + k() * kLane); });
      }
      most = extreme(most, extreme(extreme(parts[3], parts[1]), extreme(parts[2], parts[0])));
    }
    for (; i + kLane <= n; i += kLane) take(most, i);
    if (!xsimd::all(is_number)) return std::numeric_limits<float>::quiet_NaN();
    return fold<kLane / 2>(most, std::make_integer_sequence<int, int(kLane)>()).get(0);
  }

 private:
  /// The extreme of both. Of equal numbers, and beside NaN, the second operand is the result.
  static Batch<float> extreme(Batch<float> a, Batch<float> b) {
    return kLargest ? xsimd::max(a, b) : xsimd::min(a, b);
  }
  /// Lane 0 becomes the extreme of the lower 2 kWidth lanes.
  template <int kWidth, int... I>
  static Batch<float> fold(Batch<float> x, std::integer_sequence<int, I...> lanes) {
    const Batch<float> upper =
        __builtin_shufflevector(x.data, x.data, ((I + kWidth) % int(sizeof...(I)))...);
    const Batch<float> half = extreme(upper, x);
    if constexpr (kWidth == 1)
      return half;
    else
      return fold<kWidth / 2>(half, lanes);
  }
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
  /// With an integer as wide as the values, which vectorises.
  Total block(const Value* values, int64_t n) const requires(sizeof(Value) >= 4) {
    int found = 0;
    for (int64_t i = 0; i < n; ++i) found |= int((values[i] == Value(0)) == zero);
    return Total(found);
  }
  Part merge(Part a, Part b) const { return a | b; }
  Total join(Total a, Total b) const { return a | b; }
  Total repeat(Total total, int64_t) const { return total; }
};

}  // namespace tapegrad::backends::cpu
