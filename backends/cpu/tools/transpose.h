// Transposition in registers.
#pragma once

#include <utility>

#include "backends/cpu/tools/lanes.h"

namespace tapegrad::backends::cpu {

/// A vector of kLanes<float> floats, or of any four-byte elements: moving keeps their bits.
using FloatVector = Batch<float>::register_type;

namespace detail {

/// The lanes of a whose index has bit kBit clear, and beside each the lane of b of the same index.
template <int kBit, int... I>
FloatVector join_low(FloatVector a, FloatVector b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, ((I & kBit) != 0 ? I - kBit + kLanes<float> : I)...);
}
template <int kBit, int... I>
FloatVector join_high(FloatVector a, FloatVector b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, ((I & kBit) != 0 ? I + kLanes<float> : I + kBit)...);
}

/// Exchanges the bit kBit of the row index and of the lane index.
template <int kBit>
[[gnu::always_inline]] inline void exchange(FloatVector* rows) {
  constexpr std::make_integer_sequence<int, kLanes<float>> kIndices;
  unrolled<kLanes<float>>([&](auto i) {
    if constexpr ((i() & kBit) == 0) {
      const FloatVector a = rows[i()], b = rows[i() + kBit];
      rows[i()] = join_low<kBit>(a, b, kIndices);
      rows[i() + kBit] = join_high<kBit>(a, b, kIndices);
    }
  });
}

}  // namespace detail

/// Transposes a matrix of kLanes<float> rows.
[[gnu::always_inline]] inline void transpose(FloatVector* rows) {
  if constexpr (kLanes<float> >= 16) detail::exchange<8>(rows);
  if constexpr (kLanes<float> >= 8) detail::exchange<4>(rows);
  detail::exchange<2>(rows), detail::exchange<1>(rows);
}

}  // namespace tapegrad::backends::cpu
