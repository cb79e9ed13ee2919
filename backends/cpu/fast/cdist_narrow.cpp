// Each lane of a vector has a row of x1, for which the rows of x2 are visited in order. Sums of few
// terms are made in the type of the operands and added in double.
#include "backends/cpu/fast/cdist_narrow.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/transpose.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kNarrowTerms = 32;  // terms that are added without double

/// A matrix of one batch.
template <typename V>
struct PointMatrix {
  const V* data;
  int64_t row_step, column_step;

  PointMatrix(const Tensor& x, int64_t batch)
      : data(x.data<V>() + batch * x.strides()[0]),
        row_step(x.strides()[1]),
        column_step(x.strides()[2]) {}

  /// tile[column][row] of kLanes<V> rows; rows from `rows` on repeat the last one.
  void load(int64_t row, int64_t rows, int64_t column, int64_t columns,
            V (*tile)[kLanes<V>]) const {
    const V* from = data + row * row_step + column * column_step;
    if (rows == kLanes<V> && row_step == 1) {
      for (int64_t c = 0; c < columns; ++c) std::copy_n(from + c * column_step, kLanes<V>, tile[c]);
      return;
    }
    if constexpr (std::is_same_v<V, float>)
      if (rows == kLanes<V> && columns == kLanes<V> && column_step == 1) {
        FloatVector lines[kLanes<V>];
        unrolled<kLanes<V>>(
            [&](auto r) { std::memcpy(&lines[r()], from + r() * row_step, sizeof(lines[r()])); });
        transpose(lines);
        unrolled<kLanes<V>>(
            [&](auto c) { std::memcpy(tile[c()], &lines[c()], sizeof(lines[c()])); });
        return;
      }
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < kLanes<V>; ++r)
        tile[c][r] = from[std::min(r, rows - 1) * row_step + c * column_step];
  }
};

/// kLanes<V> rows of x1 with at most kMost coordinates.
template <bool kSigns, int kMost, typename V>
void pull_rows(const PointMatrix<V>& slopes, const PointMatrix<V>& lengths, const V* a, const V* b,
               int64_t row, int64_t rows, int64_t m, int64_t k, V* to) {
  using B = Batch<V>;
  const B zero(V(0));
  int64_t coordinate[kMost];  // those from k on repeat the last one, and are not used
  for (int c = 0; c < kMost; ++c) coordinate[c] = std::min<int64_t>(c, k - 1);
  B x[kMost];
  unrolled<kMost>([&](auto c) {
    alignas(64) V lanes[kLanes<V>];
    for (int64_t r = 0; r < kLanes<V>; ++r)
      lanes[r] = a[(row + std::min(r, rows - 1)) * k + coordinate[c()]];
    x[c()] = B::load_aligned(lanes);
  });
  alignas(64) double totals[kMost][kLanes<V>] = {};
  for (int64_t start = 0; start < m; start += kNarrowTerms) {
    B sums[kMost];
    unrolled<kMost>([&](auto c) { sums[c()] = zero; });
    const int64_t end = std::min(m, start + kNarrowTerms);
    for (int64_t first = start; first < end; first += kLanes<V>) {
      const int64_t columns = std::min(kLanes<V>, end - first);
      alignas(64) V slope[kLanes<V>][kLanes<V>], length[kLanes<V>][kLanes<V>];
      slopes.load(row, rows, first, columns, slope);
      if constexpr (!kSigns) lengths.load(row, rows, first, columns, length);
      for (int64_t j = 0; j < columns; ++j) {
        B weight = B::load_aligned(slope[j]);
        if constexpr (!kSigns) {
          const B size = B::load_aligned(length[j]);
          weight = xsimd::select(size == zero, weight, weight / size);
        }
        const V* other = b + (first + j) * k;
        unrolled<kMost>([&](auto c) {
          const B d = x[c()] - B(other[coordinate[c()]]);
          if constexpr (kSigns)
            sums[c()] += xsimd::select(d > zero, weight, xsimd::select(d < zero, zero - weight, d));
          else
            sums[c()] = functions::fused(weight, d, sums[c()]);
        });
      }
    }
    unrolled<kMost>([&](auto c) {
      alignas(64) V parts[kLanes<V>];
      sums[c()].store_aligned(parts);
      for (int64_t r = 0; r < kLanes<V>; ++r) totals[c()][r] += double(parts[r]);
    });
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < k; ++c) to[(row + r) * k + c] = V(totals[c][r]);
}

template <bool kSigns, int kMost, typename V>
void pull_narrow(const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& y,
                 Tensor& dx1) {
  const int64_t n = x1.shape()[1], m = x2.shape()[1], k = x1.shape()[2];
  const int64_t tiles = (n + kLanes<V> - 1) / kLanes<V>;
#pragma omp parallel for if (y.numel() * k > (1 << 16))
  for (int64_t task = 0; task < x1.shape()[0] * tiles; ++task) {
    const int64_t batch = task / tiles, row = task % tiles * kLanes<V>;
    pull_rows<kSigns, kMost>(PointMatrix<V>(dy, batch), PointMatrix<V>(y, batch),
                             x1.data<V>() + batch * n * k, x2.data<V>() + batch * m * k, row,
                             std::min(kLanes<V>, n - row), m, k, dx1.data<V>() + batch * n * k);
  }
}

}  // namespace

template <typename V>
void cdist_narrow_backward(const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& y,
                           bool signs, Tensor& dx1) {
  const bool is_four = x1.shape()[2] <= 4;
  const auto run =
      signs ? (is_four ? pull_narrow<true, 4, V> : pull_narrow<true, kNarrowPoints, V>)
            : (is_four ? pull_narrow<false, 4, V> : pull_narrow<false, kNarrowPoints, V>);
  run(dy, x1, x2, y, dx1);
}
template void cdist_narrow_backward<float>(const Tensor&, const Tensor&, const Tensor&,
                                           const Tensor&, bool, Tensor&);
template void cdist_narrow_backward<double>(const Tensor&, const Tensor&, const Tensor&,
                                            const Tensor&, bool, Tensor&);

}  // namespace tapegrad::backends::cpu
