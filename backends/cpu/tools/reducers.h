// Reducers. reduce_block.h describes their interface.
#pragma once

#include <limits>
#include <type_traits>

#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/reduce_block.h"
#include "backends/cpu/tools/simd.h"
#include "backends/cpu/tools/wide_sum.h"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

namespace tapegrad::backends::cpu {

/// Returns the sum of up to kBlock integers, modulo 2^64. Integers of 8 and 16 bits are summed in
/// 32 bits, which suffice. Not inlined, because g++ 12 does not vectorise the loop inside of a
/// larger function.
template <typename Value>
[[gnu::noinline]] uint64_t sum_of_integers(const Value* values, int64_t n) {
  using Sum = std::conditional_t<(sizeof(Value) > 2), int64_t, int32_t>;
  std::make_unsigned_t<Sum> sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += std::make_unsigned_t<Sum>(Sum(values[i]));
  return uint64_t(int64_t(Sum(sum)));
}
/// The largest or smallest of n integers, or `first` if none is more extreme.
template <bool kLargest, typename Value>
[[gnu::noinline]] Value extreme_of_integers(const Value* values, int64_t n, Value first) {
  if constexpr (kLargest) {
#pragma omp simd reduction(max : first)
    for (int64_t i = 0; i < n; ++i) first = first > values[i] ? first : values[i];
  } else {
#pragma omp simd reduction(min : first)
    for (int64_t i = 0; i < n; ++i) first = first < values[i] ? first : values[i];
  }
  return first;
}

/// Sums short partial sums of float in double: the sum of 2^24 + 8 ones is exact, and a sixteen-bit
/// sum is rounded once. Integers wrap around in 64 bits.
template <typename T, typename Lane = std::conditional_t<kIsFloat<T>, Compute<T>, uint64_t>>
struct SumOf {
  using Value = Compute<T>;
  using Part = Lane;
  using Total = std::conditional_t<kIsFloat<T>, double, uint64_t>;
  static constexpr Part kFirst = 0;

  Part add(Part part, Value value) const { return part + Part(value); }
  static Doubles add(Doubles part, Doubles values) { return part + values; }
  Part merge(Part a, Part b) const { return a + b; }
  Total join(Total a, Total b) const { return a + b; }
  Total repeat(Total total, int64_t n) const { return n == 1 ? total : total * Total(n); }
  static Total block(const Value* values, int64_t n) requires(!kIsFloat<T>) {
    return sum_of_integers(values, n);
  }
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
  static Doubles add(Doubles part, Doubles values, double centre) {
    const Doubles d = values - centre;
    return part + d * d;
  }
};

/// The sum of |x|^kPower for the powers 1 and 2.
template <typename T, int kPower>
struct PowersOf : SumOf<T, double> {
  double add(double part, Compute<T> value) const { return part + power(double(value)); }
  static Doubles add(Doubles part, Doubles values) { return part + power(values); }
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

/// Returns whether a is at least as extreme as b, where NaN is the most extreme. Without a branch,
/// so that loops vectorise.
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
  void add_rows(Value* parts, const Value* const (&rows)[k], int64_t first, int64_t last) const
      requires(kIsFloat<T>) {
    using B = Batch<T>;
    int64_t i = first;
    for (; i + int64_t(B::size) <= last; i += int64_t(B::size)) {
      B part = B::load_unaligned(parts + i);
      for (int row = 0; row < k; ++row) part = combine(part, B::load_unaligned(rows[row] + i));
      part.store_unaligned(parts + i);
    }
    for (; i < last; ++i)
      for (int row = 0; row < k; ++row) parts[i] = add(parts[i], rows[row][i]);
  }

  static Batch<Value> combine(Batch<Value> part, Batch<Value> value) requires(kIsFloat<T>) {
    return xsimd::select(value == value, extreme(value, part), value);
  }

  static Total block(const Value* values, int64_t n) requires(!kIsFloat<T>) {
    return extreme_of_integers<kLargest>(values, n, kFirst);
  }

  /// Searches for NaN separately from the extreme, which takes half of the instructions. The last
  /// register overlaps the one before.
  Total block(const Value* values, int64_t n) const requires(kIsFloat<T>) {
    using B = Batch<T>;
    constexpr int64_t kLane = int64_t(B::size), kParts = 4;
    if (n < kLane) {
      Part part = kFirst;
      for (int64_t i = 0; i < n; ++i) part = add(part, values[i]);
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
      unrolled<kParts>([&](auto k) { parts[k()] = B(kFirst); });
      for (; i + kParts * kLane <= n; i += kParts * kLane) {
        unrolled<kParts>([&](auto k) { take(parts[k()], i + k() * kLane); });
      }
      most = extreme(most, extreme(extreme(parts[3], parts[1]), extreme(parts[2], parts[0])));
    }
    for (; i + kLane <= n; i += kLane) take(most, i);
    if (!xsimd::all(is_number)) return Limits::quiet_NaN();
    return fold<kLane / 2>(most, std::make_integer_sequence<int, int(kLane)>()).get(0);
  }

 private:
  /// Returns the extreme of both. Of equal numbers, and beside NaN, the second operand is the
  /// result.
  static Batch<Value> extreme(Batch<Value> a, Batch<Value> b) {
    return kLargest ? xsimd::max(a, b) : xsimd::min(a, b);
  }
  /// Lane 0 becomes the extreme of the lower 2 kWidth lanes.
  template <int kWidth, int... I>
  static Batch<Value> fold(Batch<Value> x, std::integer_sequence<int, I...> lanes) {
    const Batch<Value> upper =
        __builtin_shufflevector(x.data, x.data, ((I + kWidth) % int(sizeof...(I)))...);
    const Batch<Value> half = extreme(upper, x);
    if constexpr (kWidth == 1)
      return half;
    else
      return fold<kWidth / 2>(half, lanes);
  }
};

/// Reducer that finds whether any element is zero (`zero` is true) or nonzero (`zero` is false).
/// Elements of all types are converted to bool.
struct Contains {
  using Value = bool;
  using Part = uint8_t;
  using Total = uint8_t;
  static constexpr Part kFirst = 0;
  bool zero;

  Part add(Part part, bool value) const { return part | Part(value != zero); }
  Total block(const bool* values, int64_t n) const {
    Part found = 0;
    for (int64_t i = 0; i < n; ++i) found |= Part(values[i] != zero);
    return found;
  }
  Part merge(Part a, Part b) const { return a | b; }
  Total join(Total a, Total b) const { return a | b; }
  Total repeat(Total total, int64_t) const { return total; }
};

}  // namespace tapegrad::backends::cpu
