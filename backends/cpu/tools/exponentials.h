// Row primitives of softmax and attention: the maximum of a row, and exp of the shifted row.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/wide_sum.h"

namespace tapegrad::backends::cpu {

/// Loads the first `count` lanes, 0 < count < lanes; the others are those of `standard`.
template <typename V>
xsimd::batch<V> load_first(const V* x, int64_t count, xsimd::batch<V> standard) {
#if XSIMD_WITH_AVX512F
  if constexpr (std::is_same_v<V, float>)
    return _mm512_mask_loadu_ps(standard, __mmask16((1u << count) - 1), x);
#endif
  alignas(64) V lanes[xsimd::batch<V>::size];
  standard.store_aligned(lanes);
  std::copy_n(x, count, lanes);
  return xsimd::batch<V>::load_aligned(lanes);
}

/// Returns the values, with 0 in all but the first `count` lanes.
template <typename V>
xsimd::batch<V> first_lanes(xsimd::batch<V> values, int64_t count) {
#if XSIMD_WITH_AVX512F
  if constexpr (std::is_same_v<V, float>)
    return _mm512_maskz_mov_ps(__mmask16((1u << count) - 1), values);
#endif
  alignas(64) V lanes[xsimd::batch<V>::size];
  values.store_aligned(lanes);
  return load_first(lanes, count, xsimd::batch<V>(V(0)));
}

/// Stores the first `count` lanes.
template <typename V>
void store_first(V* y, int64_t count, xsimd::batch<V> values) {
#if XSIMD_WITH_AVX512F
  if constexpr (std::is_same_v<V, float>)
    return _mm512_mask_storeu_ps(y, __mmask16((1u << count) - 1), values);
#endif
  alignas(64) V lanes[xsimd::batch<V>::size];
  values.store_aligned(lanes);
  std::copy_n(lanes, count, y);
}

/// Loads the first `count` lanes, 0 < count <= lanes; the others are `standard`.
template <typename V>
xsimd::batch<V> load_lanes(const V* x, int64_t count, V standard) {
  using B = xsimd::batch<V>;
  return count == int64_t(B::size) ? B::load_unaligned(x) : load_first(x, count, B(standard));
}
/// Stores the first `count` lanes, 0 < count <= lanes.
template <typename V>
void store_lanes(V* y, int64_t count, xsimd::batch<V> values) {
  if (count == int64_t(xsimd::batch<V>::size))
    values.store_unaligned(y);
  else
    store_first(y, count, values);
}

/// e = exp(x - shift) for n contiguous values; returns their sum. e may be null. Calls
/// fetch_next(i) at each position i, to prefetch other data.
template <typename V, typename Fetch>
V exp_shifted(const V* x, int64_t n, V shift, V* e, Fetch fetch_next) {
  using B = xsimd::batch<V>;
  constexpr int64_t kSize = int64_t(B::size);
  const B by(shift);
  B sum(V(0));
  int64_t i = 0;
  for (; i + kSize <= n; i += kSize) {
    fetch_next(i);
    const B value = functions::exp_of_negative(B::load_unaligned(x + i) - by);
    if (e != nullptr) value.store_unaligned(e + i);
    sum += value;
  }
  if (i < n) {
    const B value = functions::exp_of_negative(load_first(x + i, n - i, by) - by);
    if (e != nullptr) store_first(e + i, n - i, value);
    sum += first_lanes(value, n - i);
  }
  return xsimd::hadd(sum);
}

template <typename V>
V exp_shifted(const V* x, int64_t n, V shift, V* e) {
  return exp_shifted(x, n, shift, e, [](int64_t) {});
}

/// Replaces sums by their logarithms.
inline void take_logarithm(WideFloats& sums) {
  using Wide = xsimd::batch<double>;
  const auto logarithm = [](Doubles x) {
    return Doubles(functions::log(Wide(Wide::register_type(x))).data);
  };
  sums.lower = logarithm(sums.lower), sums.upper = logarithm(sums.upper);
}

/// Returns the largest lane; no lane may be NaN.
template <typename V>
V largest_lane(xsimd::batch<V> lanes) {
#if XSIMD_WITH_AVX512F
  if constexpr (std::is_same_v<V, float>) return _mm512_reduce_max_ps(lanes);
#endif
  alignas(64) V each[xsimd::batch<V>::size];
  lanes.store_aligned(each);
  return *std::max_element(std::begin(each), std::end(each));
}

/// Returns the largest of n contiguous values, ignoring NaN; -infinity if there is none. The shift
/// of a softmax may ignore NaN: the sum of exponentials is NaN anyway.
template <typename V>
V largest_number(const V* x, int64_t n) {
  using B = xsimd::batch<V>;
  constexpr int64_t kSize = int64_t(B::size);
  V largest = -std::numeric_limits<V>::infinity();
  if (n < kSize) {
    for (int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
    return largest;
  }
  B even(largest), odd(largest);
  int64_t i = 0;
  // max() of a NaN and a second operand returns the second operand.
  for (; i + 2 * kSize <= n; i += 2 * kSize) {
    even = xsimd::max(B::load_unaligned(x + i), even);
    odd = xsimd::max(B::load_unaligned(x + i + kSize), odd);
  }
  if (i + kSize <= n) even = xsimd::max(B::load_unaligned(x + i), even);
  odd = xsimd::max(B::load_unaligned(x + n - kSize), odd);  // overlaps what is done
  return largest_lane(xsimd::max(even, odd));
}

}  // namespace tapegrad::backends::cpu
