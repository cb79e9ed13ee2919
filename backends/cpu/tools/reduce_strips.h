// Reduction along few columns of floats, for several strips at once: lane s of a vector belongs to
// strip s, so that the sums of the strips do not wait for each other.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/tools/transpose.h"
#include "backends/cpu/tools/wide_sum.h"

namespace tapegrad::backends::cpu {

/// A reducer of floats whose Parts and Totals are doubles, which it can combine in vectors.
template <typename R>
concept CombinesDoubles = std::is_same_v<typename R::Value, float> &&
    std::is_same_v<typename R::Total, double> && requires(Doubles x) {
  R::combine(x, x);
};

inline constexpr int64_t kStripsTogether = kLanes<float>;
inline constexpr int64_t kFewestStrips = 4;  // fewer are faster one after another
inline constexpr int64_t kFewColumns = 8;    // so many are added in vectors of columns

/// Reduces `rows` contiguous rows of n < kFewColumns columns of each of up to kStripsTogether
/// strips, which begin at `starts`. Each total joins the Parts of up to `rows_at_once` rows, in
/// order, like those of a strip alone. totals: n for each strip.
template <CombinesDoubles R, typename Elements>
void reduce_strips(const R& r, const Elements& x, const int64_t* starts, int64_t strips,
                   int64_t rows, int64_t n, int64_t rows_at_once, double* totals) {
  constexpr int64_t kLane = kStripsTogether, kChunk = 4 * kLane;
  alignas(64) float buffers[kLane][kChunk];
  std::fill_n(totals, strips * n, double(R::kFirst));
  for (int64_t start = 0; start < rows; start += rows_at_once) {
    const int64_t end = std::min(rows, start + rows_at_once) * n;
    WideFloats parts[kFewColumns];
    std::fill_n(parts, n, WideFloats(double(R::kFirst)));
    int64_t column = 0;
    for (int64_t first = start * n; first < end; first += kChunk) {
      const int64_t chunk = std::min(kChunk, end - first);
      const float* values[kLane];
      for (int64_t s = 0; s < kLane; ++s)
        values[s] = s < strips ? x.load(starts[s] + first, 1, chunk, buffers[s]) : values[0];
      for (int64_t i = 0; i < chunk; i += kLane) {
        const int64_t count = std::min(kLane, chunk - i);
        FloatVector lines[kLane] = {};
        unrolled<kLane>([&](auto s) {
          if (count == kLane)
            std::memcpy(&lines[s()], values[s()] + i, sizeof(lines[s()]));
          else
            std::memcpy(&lines[s()], values[s()] + i, size_t(count) * sizeof(float));
        });
        transpose(lines);
        for (int64_t k = 0; k < count; ++k) {
          const WideFloats wide{Floats(lines[k])};
          WideFloats& part = parts[column];
          part.lower = R::combine(part.lower, wide.lower);
          part.upper = R::combine(part.upper, wide.upper);
          column = column + 1 == n ? 0 : column + 1;
        }
      }
    }
    for (int64_t j = 0; j < n; ++j) {
      double lanes[kLane];
      std::memcpy(lanes, &parts[j].lower, sizeof(parts[j].lower));
      std::memcpy(lanes + kDoubles, &parts[j].upper, sizeof(parts[j].upper));
      for (int64_t s = 0; s < strips; ++s) totals[s * n + j] = r.join(totals[s * n + j], lanes[s]);
    }
  }
}

}  // namespace tapegrad::backends::cpu
