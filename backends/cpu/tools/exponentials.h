// Row primitives of softmax and attention: the maximum of a row, and exp of the shifted row.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cpu/tools/functions.h"

namespace tapegrad::backends::cpu {

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
    alignas(64) V rest[kSize];
    std::fill_n(rest, kSize, shift);
    std::copy(x + i, x + n, rest);
    const B shifted = B::load_aligned(rest) - by;
    functions::exp_of_negative(shifted).store_aligned(rest);
    if (e != nullptr) std::copy_n(rest, n - i, e + i);
    std::fill(rest + (n - i), rest + kSize, V(0));
    sum += B::load_aligned(rest);
  }
  return xsimd::hadd(sum);
}

template <typename V>
V exp_shifted(const V* x, int64_t n, V shift, V* e) {
  return exp_shifted(x, n, shift, e, [](int64_t) {});
}

/// The largest lane; no lane may be NaN.
template <typename V>
V largest_lane(xsimd::batch<V> lanes) {
#if XSIMD_WITH_AVX512F
  if constexpr (std::is_same_v<V, float>) return _mm512_reduce_max_ps(lanes);
#endif
  alignas(64) V each[xsimd::batch<V>::size];
  lanes.store_aligned(each);
  return *std::max_element(std::begin(each), std::end(each));
}

/// The largest of n contiguous values, ignoring NaN; -infinity if there is none. The shift of a
/// softmax may ignore NaN: the sum of exponentials is NaN anyway.
template <typename V>
V largest_number(const V* x, int64_t n) {
  using B = xsimd::batch<V>;
  constexpr int64_t kSize = int64_t(B::size);
  V largest = -std::numeric_limits<V>::infinity();
  int64_t i = 0;
  if (n >= 2 * kSize) {
    B even(largest), odd(largest);
    // max() of a NaN and a second operand returns the second operand.
    for (; i + 2 * kSize <= n; i += 2 * kSize) {
      even = xsimd::max(B::load_unaligned(x + i), even);
      odd = xsimd::max(B::load_unaligned(x + i + kSize), odd);
    }
    largest = largest_lane(xsimd::max(even, odd));
  }
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

}  // namespace tapegrad::backends::cpu
