// What softmax and attention do with a row: its largest value, and exp of what it lies below that.
#pragma once

#include <algorithm>
#include <limits>

#include "backends/cpu/functions.h"
#include "backends/cpu/reducers.h"

namespace tapegrad::backends::cpu {

/// e = exp(x - shift) for n contiguous values; gives their sum. e may be null. Meanwhile
/// calls fetch_next(i), where i is where it is.
template <typename V, typename Fetch>
V exp_shifted(const V* x, int64_t n, V shift, V* e, Fetch fetch_next) {
  using B = xsimd::batch<V>;
  constexpr int64_t kSize = int64_t(B::size);
  const B by(shift);
  B sum(V(0));
  int64_t i = 0;
  for (; i + kSize <= n; i += kSize) {
    fetch_next(i);
    const B value = functions::exp(B::load_unaligned(x + i) - by);
    if (e != nullptr) value.store_unaligned(e + i);
    sum += value;
  }
  if (i < n) {
    alignas(64) V rest[kSize];
    std::fill_n(rest, kSize, -std::numeric_limits<V>::infinity());
    std::copy(x + i, x + n, rest);
    const B shifted = B::load_aligned(rest) - by;
    functions::exp(shifted).store_aligned(rest);
    if (e != nullptr) std::copy_n(rest, n - i, e + i);
    std::fill(rest + (n - i), rest + kSize, V(0));  // -inf - -inf is NaN
    sum += B::load_aligned(rest);
  }
  return xsimd::hadd(sum);
}

template <typename V>
V exp_shifted(const V* x, int64_t n, V shift, V* e) {
  return exp_shifted(x, n, shift, e, [](int64_t) {});
}

/// The largest of n > 0 contiguous values; NaN if there is one.
template <typename V>
V largest_of(const V* x, int64_t n) {
  using B = xsimd::batch<V>;
  constexpr int64_t kSize = int64_t(B::size);
  const ExtremeOf<V, true> extreme;
  V largest = extreme.kFirst;
  if (n < kSize) {
    for (int64_t i = 0; i < n; ++i) largest = extreme.add(largest, x[i]);
    return largest;
  }
  B lanes = B::load_unaligned(x);
  for (int64_t i = kSize; i < n; i += kSize) {
    const B values = B::load_unaligned(x + std::min(i, n - kSize));  // the last ones may come twice
    lanes = select(lanes >= values || !(lanes == lanes), lanes, values);
  }
  alignas(64) V each[kSize];
  lanes.store_aligned(each);
  for (const V value : each) largest = extreme.add(largest, value);
  return largest;
}

}  // namespace tapegrad::backends::cpu
