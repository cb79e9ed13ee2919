// Runs of elements as contiguous values of the compute type.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cpu/tools/simd.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

/// Calls f(0), ..., f(n - 1) with constants as arguments, so that arrays indexed by them stay in
/// registers.
template <int n, typename F>
[[gnu::always_inline]] inline void unrolled(const F& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, n>());
}

/// Calls run(first, integral_constant<count>) for groups that cover [0, number), with sizes in
/// descending order.
template <int... kSizes, typename Run>
void for_each_group(int64_t number, const Run& run) {
  int64_t first = 0;
  const auto groups_of = [&](auto size) {
    for (; first + size() <= number; first += size()) run(first, size);
  };
  (groups_of(std::integral_constant<int, kSizes>()), ...);
}

/// Prefetches each cache line of `count` elements, for reading or for writing.
template <typename T>
void fetch_run(const T* x, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / int64_t(sizeof(T))) fetch(x + i);
}

template <typename T>
void fetch_run_to_write(T* y, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / int64_t(sizeof(T))) fetch_to_write(y + i);
}

/// Returns n elements of x with stride `step` as contiguous Compute<T>: x itself if possible, else
/// `buffer`, into which they are converted.
template <typename T>
const Compute<T>* load_values(const T* x, int64_t step, int64_t n, Compute<T>* buffer) {
  if constexpr (!kIsHalf<T>) {
    if (step == 1) return x;
  } else if (step == 1) {
    widen(x, n, buffer);
    return buffer;
  }
  for (int64_t i = 0; i < n; ++i) buffer[i] = Compute<T>(x[i * step]);
  return buffer;
}

/// Returns the memory to which results for y are written: y itself, or `buffer`, from which
/// store_values() rounds them to y.
template <typename T>
Compute<T>* place_values(T* y, Compute<T>* buffer) {
  if constexpr (kIsHalf<T>)
    return buffer;
  else
    return y;
}
template <typename T>
void store_values(const Compute<T>* values, int64_t n, T* y) {
  if constexpr (kIsHalf<T>) narrow(values, n, y);
}

/// `count` elements of a contiguous tensor, or `standard` for each if the tensor is empty.
template <typename T>
std::vector<Compute<T>> numbers_of(const Tensor& x, int64_t count, double standard) {
  std::vector<Compute<T>> numbers(count, Compute<T>(standard));
  if (x) widen(x.data<T>(), count, numbers.data());
  return numbers;
}

}  // namespace tapegrad::backends::cpu
