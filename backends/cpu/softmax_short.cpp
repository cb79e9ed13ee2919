#include "backends/cpu/softmax_rows.h"

#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/short_rows.h"
#include "backends/cpu/tools/wide_sum.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;

/// Up to kTileOfRows rows, side by side: n elements of each, `inner` elements apart.
struct RowTile {
  int64_t offset;  // of the first element
  int64_t row;     // index of the first row
  int64_t count;   // rows
  int64_t n, inner;

  void load(const float* x, B* columns) const {
    if (inner == 1) return load_columns(x + offset, count, n, columns);
    for (int64_t c = 0; c < n; ++c) columns[c] = load_lanes(x + offset + c * inner, count, 0.0f);
  }
  void store(const B* columns, float* y) const {
    if (inner == 1) return store_columns(columns, count, n, y + offset);
    for (int64_t c = 0; c < n; ++c) store_lanes(y + offset + c * inner, count, columns[c]);
  }
};

/// Calls run(tile) for all rows.
template <typename Run>
void for_each_row_tile(const SoftmaxRows& rows, const Run& run) {
  const int64_t outer = rows.outer, n = rows.n, inner = rows.inner;
  if (inner == 1)
    return for_each_tile_of_rows(outer, n, kParallelSoftmax, [&](int64_t row, int64_t count) {
      run(RowTile{row * n, row, count, n, 1});
    });
  const int64_t tiles = (inner + kTileOfRows - 1) / kTileOfRows;  // of each matrix [n, inner]
  const int64_t together =
      std::max<int64_t>(1, kParallelSoftmax / (n * std::min(inner, kTileOfRows)));
  const int64_t count = outer * tiles;
  share_tasks((count + together - 1) / together, outer * n * inner >= kParallelSoftmax,
              [&](int64_t task) {
                int64_t i = task * together / tiles, first = task * together % tiles * kTileOfRows;
                for (int64_t left = std::min(together, count - task * together); left > 0; --left) {
                  run(RowTile{i * n * inner + first, i * inner + first,
                              std::min(kTileOfRows, inner - first), n, inner});
                  first += kTileOfRows;
                  if (first >= inner) ++i, first = 0;
                }
              });
}

Floats floats(B x) { return Floats(x.data); }
B batch(Floats x) { return B(FloatVector(x)); }

void add(WideFloats& sum, B x) {
  const WideFloats wide(floats(x));
  sum.lower += wide.lower, sum.upper += wide.upper;
}

/// Returns the largest element of each row, ignoring NaN.
B largest_of_columns(const B* columns, int64_t n) {
  B largest(-kInfinity);
  for (int64_t c = 0; c < n; ++c) largest = xsimd::max(columns[c], largest);
  return largest;
}

/// Returns the sums of exp(x - largest). The exponentials replace the columns if kKeep.
template <bool kKeep>
WideFloats sum_exponentials_of_columns(B* columns, int64_t n, B largest) {
  WideFloats sum(0.0);
  for (int64_t c = 0; c < n; ++c) {
    const B e = functions::exp_of_negative(columns[c] - largest);
    if constexpr (kKeep) columns[c] = e;
    add(sum, e);
  }
  return sum;
}

}  // namespace

void softmax_short(const float* x, const SoftmaxRows& rows, float* y) {
  for_each_row_tile(rows, [=](const RowTile& tile) {
    B columns[kShortRow];
    tile.load(x, columns);
    WideFloats sum =
        sum_exponentials_of_columns<true>(columns, tile.n, largest_of_columns(columns, tile.n));
    sum.lower = 1.0 / sum.lower, sum.upper = 1.0 / sum.upper;
    const B scale = batch(sum.rounded());
    for (int64_t c = 0; c < tile.n; ++c) columns[c] *= scale;
    tile.store(columns, y);
  });
}

void log_softmax_short(const float* x, const SoftmaxRows& rows, float* y) {
  for_each_row_tile(rows, [=](const RowTile& tile) {
    B columns[kShortRow];
    tile.load(x, columns);
    const B largest = largest_of_columns(columns, tile.n);
    WideFloats sum = sum_exponentials_of_columns<false>(columns, tile.n, largest);
    take_logarithm(sum);
    const B total = batch(sum.rounded());
    for (int64_t c = 0; c < tile.n; ++c) columns[c] = columns[c] - largest - total;
    tile.store(columns, y);
  });
}

void logsumexp_short(const float* x, const SoftmaxRows& rows, float* y) {
  for_each_row_tile(rows, [=](const RowTile& tile) {
    B columns[kShortRow];
    tile.load(x, columns);
    const B largest = largest_of_columns(columns, tile.n);
    B infinite = largest;  // the result for an infinite maximum: NaN if the row has one
    for (int64_t c = 0; c < tile.n; ++c)
      infinite = xsimd::select(columns[c] == columns[c], infinite, columns[c]);
    WideFloats sum = sum_exponentials_of_columns<false>(columns, tile.n, largest);
    take_logarithm(sum);
    const WideFloats shift(floats(largest));
    sum.lower += shift.lower, sum.upper += shift.upper;
    store_lanes(
        y + tile.row, tile.count,
        xsimd::select(xsimd::fabs(largest) == B(kInfinity), infinite, batch(sum.rounded())));
  });
}

void softmax_short_backward(const float* y, const float* dy, const SoftmaxRows& rows, float* dx) {
  for_each_row_tile(rows, [=](const RowTile& tile) {
    B ys[kShortRow], dys[kShortRow];
    tile.load(y, ys);
    tile.load(dy, dys);
    WideFloats wide(0.0);
    for (int64_t c = 0; c < tile.n; ++c) add(wide, ys[c] * dys[c]);
    const B sum = batch(wide.rounded());
    for (int64_t c = 0; c < tile.n; ++c) ys[c] *= dys[c] - sum;
    tile.store(ys, dx);
  });
}

void log_softmax_short_backward(const float* y, const float* dy, const SoftmaxRows& rows,
                                float* dx) {
  for_each_row_tile(rows, [=](const RowTile& tile) {
    B ys[kShortRow], dys[kShortRow];
    tile.load(y, ys);
    tile.load(dy, dys);
    WideFloats wide(0.0);
    for (int64_t c = 0; c < tile.n; ++c) add(wide, dys[c]);
    const B sum = batch(wide.rounded());
    for (int64_t c = 0; c < tile.n; ++c) dys[c] -= functions::exp_of_negative(ys[c]) * sum;
    tile.store(dys, dx);
  });
}

}  // namespace tapegrad::backends::cpu
