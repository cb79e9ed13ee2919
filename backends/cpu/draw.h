// Random words, many at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/random.h"

namespace tapegrad::backends::cpu {

/// Counters drawn together, as rows of the four words: what the compiler turns into vectors.
inline constexpr int kCounters = 64;
inline constexpr int kWords = 4 * kCounters;

using Words = uint32_t[kWords];

/// Words `first` and following of a draw, in their order; first is a multiple of 4.
inline void draw_words(RandomState state, int64_t first, Words& words) {
  alignas(64) uint32_t rows[4][kCounters];
  const uint64_t counter = state.offset + uint64_t(first) / 4;
  for (int j = 0; j < kCounters; ++j) {
    const std::array<uint32_t, 4> four = philox(state.seed, counter + uint64_t(j));
    for (int k = 0; k < 4; ++k) rows[k][j] = four[k];
  }
  for (int j = 0; j < kCounters; ++j)
    for (int k = 0; k < 4; ++k) words[4 * j + k] = rows[k][j];
}

/// Dropout keeps an element whose word is at least this.
inline uint32_t drop_below(double p) { return uint32_t(std::min(p * 0x1p32 + 0.5, 0xffffffffp0)); }

}  // namespace tapegrad::backends::cpu
