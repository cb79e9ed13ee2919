// Runs of elements as contiguous values of the type that is computed in.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cpu/tools/simd.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

/// f(0), ..., f(n - 1), each with its number as a constant: arrays that are
/// indexed so stay in registers.
template <int n, typename F>
[[gnu::always_inline]] inline void unrolled(const F& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, n>());
}

/// fetch() and fetch_to_write() for each line of `count` elements.
template <typename T>
void fetch_run(const T* x, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / int64_t(sizeof(T))) fetch(x + i);
}

template <typename T>
void fetch_run_to_write(T* y, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / int64_t(sizeof(T))) fetch_to_write(y + i);
}

/// The n elements from x on, `step` apart, as contiguous Compute<T>: x itself where it is that,
/// else the buffer they were converted into.
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

/// Where n results for y are to be written: y itself, or a buffer that store_values() rounds from.
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

/// `count` elements of a contiguous tensor, or `standard` for each when it was left out.
template <typename T>
std::vector<Compute<T>> numbers_of(const Tensor& x, int64_t count, double standard) {
  std::vector<Compute<T>> numbers(count, Compute<T>(standard));
  if (x) widen(x.data<T>(), count, numbers.data());
  return numbers;
}

}  // namespace tapegrad::backends::cpu
