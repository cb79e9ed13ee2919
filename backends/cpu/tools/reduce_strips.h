// Reduction along columns of floats whose Parts stay in registers.
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
/// strips, which begin at `starts`. Lane s of a vector belongs to strip s, so that the sums of the
/// strips do not wait for each other. Each total joins the Parts of up to `rows_at_once` rows, in
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

/// Reduces kRuns runs of `rows` rows of n >= kDoubles columns. The rows are `step` elements apart,
/// also from the last row of a run to the first of the next. The vectors of the columns first ...
/// first + kVectors * kDoubles - 1 stay in registers; the last vector overlaps the one before if it
/// would end behind column n. parts: n for each run.
template <int kVectors, int kRuns, CombinesDoubles R>
void reduce_vectors(const float* x, int64_t step, int64_t rows, int64_t n, int64_t first,
                    double* parts) {
  Doubles part[kRuns][kVectors];
  int64_t column[kVectors];
  unrolled<kVectors>([&](auto v) { column[v()] = std::min(first + v() * kDoubles, n - kDoubles); });
  unrolled<kRuns>(
      [&](auto r) { unrolled<kVectors>([&](auto v) { part[r()][v()] = Doubles{} + R::kFirst; }); });
  for (int64_t i = 0; i < rows; ++i, x += step)
    unrolled<kRuns>([&](auto r) {
      unrolled<kVectors>([&](auto v) {
        const float* from = x + r() * rows * step + column[v()];
        if (v() % 2 == 0) fetch(from + kFetchAhead / int64_t(sizeof(float)));
        part[r()][v()] = R::combine(part[r()][v()], widen(load_vector<HalfFloats>(from)));
      });
    });
  unrolled<kRuns>([&](auto r) {
    unrolled<kVectors>([&](auto v) {
      std::memcpy(parts + r() * n + column[v()], &part[r()][v()], sizeof(Doubles));
    });
  });
}

inline constexpr int64_t kRunsTogether = 4;  // runs whose sums do not wait for each other

/// Reduces `runs` runs of `rows` rows of n >= kDoubles columns, runs <= kRunsTogether if n is at
/// most 2 * kDoubles, else runs = 1. Each Part combines the rows of its run in order, as add_rows()
/// does.
template <CombinesDoubles R>
void reduce_columns(const float* x, int64_t step, int64_t runs, int64_t rows, int64_t n,
                    double* parts) {
  const int64_t vectors = (n + kDoubles - 1) / kDoubles;
  if (runs == kRunsTogether) {
    if (vectors == 1) return reduce_vectors<1, kRunsTogether, R>(x, step, rows, n, 0, parts);
    return reduce_vectors<2, kRunsTogether, R>(x, step, rows, n, 0, parts);
  }
  int64_t v = 0;
  for (; v + 8 <= vectors; v += 8) reduce_vectors<8, 1, R>(x, step, rows, n, v * kDoubles, parts);
  const auto reduce_rest = [&]<int k>(std::integral_constant<int, k>) {
    if ((vectors - v) & k) reduce_vectors<k, 1, R>(x, step, rows, n, v * kDoubles, parts), v += k;
  };
  reduce_rest(std::integral_constant<int, 4>());
  reduce_rest(std::integral_constant<int, 2>());
  reduce_rest(std::integral_constant<int, 1>());
}

}  // namespace tapegrad::backends::cpu
