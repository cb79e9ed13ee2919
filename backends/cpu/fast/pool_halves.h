// Max pooling with non-overlapping windows of 2 x 2 or 1 x 2, without borders or branches. The
// functions take the distance from a window's first row to its second: the width of the plane, or 0
// for windows of one row.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/base/tensor.h"
#include "ops/pool.h"

namespace tapegrad::backends::cpu {

struct Planes {
  int64_t count, height, width, out_height, out_width;
  int64_t size() const { return height * width; }
  int64_t out_size() const { return out_height * out_width; }
};
inline Planes planes_of(const Shape& x, const Shape& y) {
  return {x[0] * x[1], x[2], x[3], y[2], y[3]};
}

/// Running maximum of a window. NaN counts as larger than all numbers; the first of equal elements
/// is kept.
template <typename T>
struct WindowMaximum {
  T value;
  int32_t index;

  void take(T other, int32_t at) {
    const bool larger = !(value >= other) & (value == value);  // branch-free
    value = larger ? other : value;
    index = larger ? at : index;
  }
};

inline bool are_halves(const MaximumWindows& windows, const Planes& p) {
  const MaxPool2dOptions& o = windows.options;
  const int64_t rows = o.kernel_size.height;
  return !windows.adaptive && (rows == 1 || rows == 2) && o.kernel_size.width == 2 &&
         *o.stride == o.kernel_size && o.padding == Size2d(0) && o.dilation == Size2d(1) &&
         rows * p.out_height <= p.height && 2 * p.out_width <= p.width;
}

/// Pools one row of windows; the first element has index `first` in the plane.
template <bool kIndices, typename T>
void max_pool_row(const T* x, int32_t first, int32_t second_row, int64_t count, T* y,
                  [[maybe_unused]] int32_t* indices) {
  using Wide = Compute<T>;
  const T *upper = x + first, *lower = upper + second_row;
  for (int64_t j = 0; j < count; ++j) {
    const int32_t at = first + 2 * int32_t(j);
    WindowMaximum<Wide> best{Wide(upper[2 * j]), at};
    best.take(Wide(upper[2 * j + 1]), at + 1);
    if (second_row != 0) {
      best.take(Wide(lower[2 * j]), at + second_row);
      best.take(Wide(lower[2 * j + 1]), at + second_row + 1);
    }
    y[j] = T(best.value);
    if constexpr (kIndices) indices[j] = best.index;
  }
}

// Pools eight windows at a time. Uses the compiler's vectors, because xsimd 8 cannot separate even
// and odd lanes.
inline constexpr int kWindows = 8;
using WindowFloats [[gnu::vector_size(4 * kWindows)]] = float;
using Ints [[gnu::vector_size(4 * kWindows)]] = int32_t;

template <typename V, typename T>
V load_vector(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}

/// Maximum for each lane.
struct Maxima {
  WindowFloats values;
  Ints indices;

  void take(WindowFloats other, Ints at) {
    const Ints larger = ~(values >= other) & (values == values);
    values = larger ? other : values;
    indices = larger ? at : indices;
  }
};

template <bool kIndices>
void max_pool_eight(const float* x, int32_t first, int32_t second_row, int64_t j, float* y,
                    [[maybe_unused]] int32_t* indices) {
  const auto even = [](WindowFloats a, WindowFloats b) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
  };
  const auto odd = [](WindowFloats a, WindowFloats b) {
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
  };
  const float *upper = x + first + 2 * j, *lower = upper + second_row;
  const auto u0 = load_vector<WindowFloats>(upper),
             u1 = load_vector<WindowFloats>(upper + kWindows);
  const Ints at = Ints{0, 2, 4, 6, 8, 10, 12, 14} + (first + 2 * int32_t(j));
  Maxima best{even(u0, u1), at};
  best.take(odd(u0, u1), at + 1);
  if (second_row != 0) {
    const auto l0 = load_vector<WindowFloats>(lower),
               l1 = load_vector<WindowFloats>(lower + kWindows);
    best.take(even(l0, l1), at + second_row);
    best.take(odd(l0, l1), at + second_row + 1);
  }
  std::memcpy(y + j, &best.values, sizeof(WindowFloats));
  if constexpr (kIndices) std::memcpy(indices + j, &best.indices, sizeof(Ints));
}

template <bool kIndices, typename T>
void max_pool_halves(const T* x, const Planes& p, int64_t rows, T* y, int32_t* indices) {
  const int32_t second_row = rows == 2 ? int32_t(p.width) : 0;
  for (int64_t i = 0; i < p.out_height; ++i, y += p.out_width) {
    const int32_t first = int32_t(rows * i * p.width);
    int32_t* at = kIndices ? indices + i * p.out_width : nullptr;
    if constexpr (std::is_same_v<T, float>) {
      if (p.out_width >= kWindows) {
        for (int64_t j = 0; j < p.out_width; j += kWindows)  // the last eight may overlap the
                                                             // previous
          max_pool_eight<kIndices>(x, first, second_row, std::min(j, p.out_width - kWindows), y,
                                   at);
        continue;
      }
    }
    max_pool_row<kIndices>(x, first, second_row, p.out_width, y, at);
  }
}

/// Writes the gradient of eight windows, whose first element has index `first` in the plane.
inline void max_pool_eight_backward(const float* dy, const int32_t* indices, int32_t first,
                                    int32_t second_row, float* dx) {
  const auto gradients = load_vector<WindowFloats>(dy);
  const auto places = load_vector<Ints>(indices);
  const Ints at = Ints{0, 2, 4, 6, 8, 10, 12, 14} + first;
  const auto store_row = [&](const Ints& even, float* to) {
    const WindowFloats zero{};
    const WindowFloats a =
        zero + (places == even ? gradients : zero);  // turns -0 into 0, as a sum would
    const WindowFloats b = zero + (places == even + 1 ? gradients : zero);
    const WindowFloats left = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    const WindowFloats right = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    std::memcpy(to, &left, sizeof(left));
    std::memcpy(to + kWindows, &right, sizeof(right));
  };
  store_row(at, dx + first);
  if (second_row != 0) store_row(at + second_row, dx + first + second_row);
}

/// Writes all elements of a plane of dx in one pass. A row has at least kWindows windows.
inline void max_pool_halves_backward(const float* dy, const int32_t* indices, const Planes& p,
                                     int64_t rows, float* dx) {
  const int64_t covered = 2 * p.out_width;
  const int32_t second_row = rows == 2 ? int32_t(p.width) : 0;
  for (int64_t i = 0; i < p.out_height; ++i, dy += p.out_width, indices += p.out_width) {
    for (int64_t from = 0; from < p.out_width; from += kWindows) {
      const int64_t j = std::min(from, p.out_width - kWindows);  // may overlap the previous eight
      max_pool_eight_backward(dy + j, indices + j, int32_t(rows * i * p.width + 2 * j), second_row,
                              dx);
    }
    for (int64_t row = rows * i; row < rows * (i + 1); ++row)
      std::fill_n(dx + row * p.width + covered, p.width - covered, 0.0f);
  }
  const int64_t pooled = rows * p.out_height;
  std::fill_n(dx + pooled * p.width, (p.height - pooled) * p.width, 0.0f);
}

}  // namespace tapegrad::backends::cpu
