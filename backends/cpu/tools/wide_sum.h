// Sums of floats accumulated in vectors of double.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "backends/cpu/tools/simd.h"

namespace tapegrad::backends::cpu {

inline constexpr int kFloats = int(kLanes<float>), kDoubles = kFloats / 2;
using Floats [[gnu::vector_size(4 * kFloats)]] = float;
using HalfFloats [[gnu::vector_size(2 * kFloats)]] = float;
using Doubles [[gnu::vector_size(4 * kFloats)]] = double;

template <typename Vector>
Vector load_vector(const float* x) {
  Vector values;
  std::memcpy(&values, x, sizeof(values));
  return values;
}

/// Half of the lanes, starting at `first`.
template <int first, int... i>
HalfFloats half_of(Floats x, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(x, x, (first + i)...);
}

inline Doubles widen(HalfFloats x) {
#if XSIMD_WITH_AVX512F  // g++ 12 converts quarters and joins them
  return Doubles(_mm512_maskz_cvtps_pd(0xff, __m256(x)));
#else
  return __builtin_convertvector(x, Doubles);
#endif
}

/// The lanes of a vector of float in two vectors of double.
struct WideFloats {
  Doubles lower = {}, upper = {};

  WideFloats() {}
  explicit WideFloats(double each) : lower(Doubles{} + each), upper(lower) {}
  explicit WideFloats(Floats x)
      : lower(widen(half_of<0>(x, std::make_integer_sequence<int, kDoubles>()))),
        upper(widen(half_of<kDoubles>(x, std::make_integer_sequence<int, kDoubles>()))) {}
  /// Returns the lanes rounded to float.
  Floats rounded() const { return joined(std::make_integer_sequence<int, kFloats>()); }

 private:
  template <int... i>
  Floats joined(std::integer_sequence<int, i...>) const {
    return __builtin_shufflevector(__builtin_convertvector(lower, HalfFloats),
                                   __builtin_convertvector(upper, HalfFloats), i...);
  }
};

/// Computes parts[i] = combine(parts[i], row[i]) for each row in order, first <= i < last. combine
/// takes vectors of double or doubles.
template <int kRows, typename Combine>
void combine_in_double(double* parts, const float* const (&rows)[kRows], int64_t first,
                       int64_t last, const Combine& combine) {
  int64_t i = first;
  for (; i + kDoubles <= last; i += kDoubles) {
    Doubles part;
    std::memcpy(&part, parts + i, sizeof(part));
    for (int row = 0; row < kRows; ++row)
      part = combine(part, widen(load_vector<HalfFloats>(rows[row] + i)));
    std::memcpy(parts + i, &part, sizeof(part));
  }
  for (; i < last; ++i)
    for (int row = 0; row < kRows; ++row) parts[i] = combine(parts[i], double(rows[row][i]));
}

/// kFloats partial sums side by side.
class WideSum {
 public:
  void add(const float* x) { add(x, std::identity()); }
  /// Adds f of each number; f takes vectors of double.
  template <typename F>
  void add(const float* x, const F& f) {
    lower_ += f(widen(load_vector<HalfFloats>(x)));
    upper_ += f(widen(load_vector<HalfFloats>(x + kDoubles)));
  }
  void add(Floats values) {
    const WideFloats wide(values);
    lower_ += wide.lower, upper_ += wide.upper;
  }
  void join(const WideSum& other) { lower_ += other.lower_, upper_ += other.upper_; }
  double total() const { return folded<kDoubles / 2>(lower_ + upper_)[0]; }

 private:
  /// Lane 0 becomes the sum of the lower 2 kWidth lanes.
  template <int kWidth>
  static Doubles folded(Doubles x) {
    const Doubles sums = x + moved<kWidth>(x, std::make_integer_sequence<int, kDoubles>());
    if constexpr (kWidth == 1)
      return sums;
    else
      return folded<kWidth / 2>(sums);
  }
  template <int kWidth, int... i>
  static Doubles moved(Doubles x, std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(x, x, ((i + kWidth) % kDoubles)...);
  }
  Doubles lower_ = {}, upper_ = {};
};

/// Returns the sum of f(x) of n contiguous floats; f takes doubles and vectors of them. Without
/// prefetches, which make a loop this short slower.
template <typename F = std::identity>
double sum_in_double(const float* x, int64_t n, const F& f = {}) {
  WideSum a;
  int64_t i = 0;
  if (n >= 4 * kFloats) {
    WideSum b, c, d;
    for (; i + 4 * kFloats <= n; i += 4 * kFloats) {
      a.add(x + i, f);
      b.add(x + i + kFloats, f);
      c.add(x + i + 2 * kFloats, f);
      d.add(x + i + 3 * kFloats, f);
    }
    for (; i + kFloats <= n; i += kFloats) a.add(x + i, f);
    a.join(b), c.join(d), a.join(c);
  } else {
    for (; i + kFloats <= n; i += kFloats) a.add(x + i, f);
  }
  double total = i > 0 ? a.total() : 0.0;
  for (; i < n; ++i) total += f(double(x[i]));
  return total;
}

}  // namespace tapegrad::backends::cpu
