// Transposition in registers.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/cpu/tools/lanes.h"

namespace tapegrad::backends::cpu {

/// A vector of kLanes<float> floats, or of any four-byte elements: moving keeps their bits.
using FloatVector = Batch<float>::register_type;

namespace detail {

/// Returns the lanes of a whose index has bit kBit clear, and beside each the lane of b of the same
/// index.
template <int kBit, typename Vector, int... I>
Vector join_low(Vector a, Vector b, std::integer_sequence<int, I...>) {
  constexpr int kCount = int(sizeof...(I));
  return __builtin_shufflevector(a, b, ((I & kBit) != 0 ? I - kBit + kCount : I)...);
}
template <int kBit, typename Vector, int... I>
Vector join_high(Vector a, Vector b, std::integer_sequence<int, I...>) {
  constexpr int kCount = int(sizeof...(I));
  return __builtin_shufflevector(a, b, ((I & kBit) != 0 ? I + kCount : I + kBit)...);
}

/// Exchanges the bit kBit of the row index and of the lane index.
template <int kBit, int kCount = int(kLanes<float>), typename Vector>
[[gnu::always_inline]] inline void exchange(Vector* rows) {
  constexpr std::make_integer_sequence<int, kCount> kIndices;
  unrolled<kCount>([&](auto i) {
    if constexpr ((i() & kBit) == 0) {
      const Vector a = rows[i()], b = rows[i() + kBit];
      rows[i()] = join_low<kBit>(a, b, kIndices);
      rows[i() + kBit] = join_high<kBit>(a, b, kIndices);
    }
  });
}

/// Combines the lanes kBit apart of each row, for 2 kBit rows side by side.
template <int kBit, int kCount, typename Vector, typename Combine>
[[gnu::always_inline]] inline Vector combine_bit(Vector* rows, const Combine& combine) {
  constexpr std::make_integer_sequence<int, kCount> kIndices;
  unrolled<kBit>([&](auto i) {
    const Vector a = rows[i()], b = rows[i() + kBit];
    rows[i()] = combine(join_low<kBit>(a, b, kIndices), join_high<kBit>(a, b, kIndices));
  });
  if constexpr (kBit > 1) combine_bit<kBit / 2, kCount>(rows, combine);
  return rows[0];
}

}  // namespace detail

/// Returns a vector whose lane r combines all lanes of rows[r]: first those that are half of the
/// lanes apart, neighbours last. There are as many rows as lanes. Overwrites the rows.
template <typename Element, typename Vector, typename Combine>
[[gnu::always_inline]] inline Vector combine_lanes(Vector* rows, const Combine& combine) {
  constexpr int kCount = int(sizeof(Vector) / sizeof(Element));
  return detail::combine_bit<kCount / 2, kCount>(rows, combine);
}

/// Transposes a matrix of kLanes<float> rows.
[[gnu::always_inline]] inline void transpose(FloatVector* rows) {
  if constexpr (kLanes<float> >= 16) detail::exchange<8>(rows);
  if constexpr (kLanes<float> >= 8) detail::exchange<4>(rows);
  detail::exchange<2>(rows), detail::exchange<1>(rows);
}

/// Transposes a matrix of kCount vectors of kCount elements.
template <int kCount, int kBit = kCount / 2, typename Vector>
[[gnu::always_inline]] inline void transpose_square(Vector* rows) {
  detail::exchange<kBit, kCount>(rows);
  if constexpr (kBit > 1) transpose_square<kCount, kBit / 2>(rows);
}

/// Transposes like transpose(), in the order that lets the compiler drop repeated work if only the
/// first rows of the matrix differ.
[[gnu::always_inline]] inline void transpose_upward(FloatVector* rows) {
  detail::exchange<1>(rows), detail::exchange<2>(rows);
  if constexpr (kLanes<float> >= 8) detail::exchange<4>(rows);
  if constexpr (kLanes<float> >= 16) detail::exchange<8>(rows);
}

/// Copies to[i * to_pitch + j] = from[j * pitch + i] for j in [0, lines) and i in [0, length).
template <typename T>
void copy_transposed(int64_t lines, int64_t length, const T* from, int64_t pitch, T* to,
                     int64_t to_pitch) {
  int64_t squares = 0, side = 0;  // lines and elements of lines that are copied as squares
  if constexpr (std::is_same_v<T, float>) {
    constexpr int64_t kSide = kLanes<float>;
    squares = lines / kSide * kSide, side = length / kSide * kSide;
    for (int64_t j = 0; j < squares; j += kSide)
      for (int64_t i = 0; i < side; i += kSide) {
        FloatVector rows[kSide];
        unrolled<kSide>([&](auto l) {
          std::memcpy(&rows[l()], from + (j + l()) * pitch + i, sizeof(FloatVector));
        });
        transpose(rows);
        unrolled<kSide>([&](auto l) {
          std::memcpy(to + (i + l()) * to_pitch + j, &rows[l()], sizeof(FloatVector));
        });
      }
  }
  for (int64_t j = 0; j < lines; ++j)
    for (int64_t i = j < squares ? side : 0; i < length; ++i)
      to[i * to_pitch + j] = from[j * pitch + i];
}

}  // namespace tapegrad::backends::cpu
