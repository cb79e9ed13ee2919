// Short rows of floats, kLanes<float> rows at a time: lane r of column c is element c of row r.
#pragma once

#include <algorithm>

#include "backends/cpu/tools/exponentials.h"
#include "backends/cpu/tools/share.h"
#include "backends/cpu/tools/transpose.h"

namespace tapegrad::backends::cpu {

/// Rows of fewer floats are short. Segments of captured steps divide short rows only for sums and
/// extremes.
inline constexpr int64_t kShortRow = 32;
/// Largest number of floats of a middle row, which is not short: the lanes of several middle rows
/// are reduced together.
inline constexpr int64_t kMiddleRow = 256;
inline constexpr int64_t kTileOfRows = kLanes<float>;

namespace detail {

/// Loads columns [0, width) of kTileOfRows rows that begin `pitch` elements apart, width <= kWidth.
template <int kWidth>
void load_columns_of(const float* x, int64_t pitch, int64_t width, Batch<float>* columns) {
  FloatVector lines[kLanes<float>];
  unrolled<kLanes<float>>([&](auto r) {
    const float* row = x + r() * pitch;
    lines[r()] = width == kLanes<float> ? Batch<float>::load_unaligned(row).data
                                        : load_first(row, width, Batch<float>(0.0f)).data;
  });
  transpose(lines);
  unrolled<kWidth>([&](auto c) { columns[c()] = Batch<float>(lines[c()]); });
}

/// Returns the lanes of column c of rows of n floats: those in the vectors before `line` from
/// `column`, those in this vector from `values`.
template <int n, int c, int line, int... I>
FloatVector with_line(FloatVector column, FloatVector values, std::integer_sequence<int, I...>) {
  constexpr int kCount = int(sizeof...(I));
  const auto from = [](int lane) consteval {
    const int at = lane * n + c;
    if (at / kCount == line) return kCount + at % kCount;
    return line == 1 && at < kCount ? at : lane;
  };
  return __builtin_shufflevector(column, values, from(I)...);
}
/// Loads the columns of kTileOfRows contiguous rows of n floats.
template <int n>
void load_dense_columns(const float* x, Batch<float>* columns) {
  FloatVector lines[n];
  unrolled<n>(
      [&](auto i) { lines[i()] = Batch<float>::load_unaligned(x + i() * kLanes<float>).data; });
  unrolled<n>([&](auto c) {
    FloatVector column = lines[0];
    unrolled<n>([&](auto line) {
      if constexpr (line() > 0)
        column = with_line<n, int(c()), int(line())>(
            column, lines[line()], std::make_integer_sequence<int, int(kLanes<float>)>());
    });
    columns[c()] = Batch<float>(column);
  });
}

/// Stores columns [0, width) of kTileOfRows rows, width <= kWidth.
template <int kWidth>
void store_columns_of(const Batch<float>* columns, int64_t pitch, int64_t width, float* y) {
  FloatVector lines[kLanes<float>];
  unrolled<kLanes<float>>([&](auto i) { lines[i()] = columns[i() % kWidth].data; });
  transpose_upward(lines);
  unrolled<kLanes<float>>([&](auto r) {
    if (width == kLanes<float>)
      Batch<float>(lines[r()]).store_unaligned(y + r() * pitch);
    else
      store_first(y + r() * pitch, width, Batch<float>(lines[r()]));
  });
}

/// Calls run(first column, number of columns, constant that is not less) for all n columns.
template <typename Run>
void for_each_width(int64_t n, const Run& run) {
  for (int64_t first = 0; first < n; first += kLanes<float>) {
    const int64_t width = std::min(kLanes<float>, n - first);
    if (width <= 4)
      run(first, width, std::integral_constant<int, 4>());
    else if (width <= 8)
      run(first, width, std::integral_constant<int, 8>());
    else
      run(first, width, std::integral_constant<int, int(kLanes<float>)>());
  }
}

}  // namespace detail

/// Loads `rows` <= kTileOfRows rows of n < kShortRow floats. Lanes of other rows are 0. `columns`
/// has kShortRow elements, of which those from n on become arbitrary.
inline void load_columns(const float* x, int64_t rows, int64_t n, Batch<float>* columns) {
  if (rows == kTileOfRows) {
    switch (n) {
      case 1:
        return detail::load_dense_columns<1>(x, columns);
      case 2:
        return detail::load_dense_columns<2>(x, columns);
      case 3:
        return detail::load_dense_columns<3>(x, columns);
      case 4:
        return detail::load_dense_columns<4>(x, columns);
      case 5:
        return detail::load_dense_columns<5>(x, columns);
    }
    return detail::for_each_width(n, [&](int64_t first, int64_t width, auto most) {
      detail::load_columns_of<most()>(x + first, n, width, columns + first);
    });
  }
  for (int64_t c = 0; c < n; ++c) {
    alignas(64) float lanes[kTileOfRows] = {};
    for (int64_t r = 0; r < rows; ++r) lanes[r] = x[r * n + c];
    columns[c] = Batch<float>::load_aligned(lanes);
  }
}

/// Stores the columns to rows; see load_columns().
inline void store_columns(const Batch<float>* columns, int64_t rows, int64_t n, float* y) {
  if (rows == kTileOfRows)
    return detail::for_each_width(n, [&](int64_t first, int64_t width, auto most) {
      detail::store_columns_of<most()>(columns + first, n, width, y + first);
    });
  for (int64_t c = 0; c < n; ++c) {
    alignas(64) float lanes[kTileOfRows];
    columns[c].store_aligned(lanes);
    for (int64_t r = 0; r < rows; ++r) y[r * n + c] = lanes[r];
  }
}

/// Calls run(first row, rows <= kTileOfRows) for tiles of `rows` rows of n elements, on several
/// threads if there are at least `parallel` elements.
template <typename Run>
void for_each_tile_of_rows(int64_t rows, int64_t n, int64_t parallel, const Run& run) {
  const int64_t tiles = (rows + kTileOfRows - 1) / kTileOfRows;
  const int64_t together = std::max<int64_t>(1, 8192 / (kTileOfRows * n));
  share_tasks((tiles + together - 1) / together, rows * n >= parallel, [&](int64_t task) {
    const int64_t end = std::min(rows, (task + 1) * together * kTileOfRows);
    for (int64_t row = task * together * kTileOfRows; row < end; row += kTileOfRows)
      run(row, std::min(kTileOfRows, end - row));
  });
}

}  // namespace tapegrad::backends::cpu
