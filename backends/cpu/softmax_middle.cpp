#include <algorithm>
#include <cmath>

#include "backends/cpu/softmax_rows.h"
#include "backends/cpu/tools/exponentials.h"
#include "backends/cpu/tools/short_rows.h"
#include "backends/cpu/tools/wide_sum.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;
constexpr int64_t kGroup = kTileOfRows;  // rows whose lanes are reduced together

/// Calls visit(index, batch, lanes in use) for a row of x. The lanes not in use are `standard`.
template <typename Visit>
[[gnu::always_inline]] inline void visit_row(const float* x, int64_t n, float standard,
                                             const Visit& visit) {
  int64_t i = 0;
  for (; i + kLanes<float> <= n; i += kLanes<float>)
    visit(i, B::load_unaligned(x + i), kLanes<float>);
  if (i < n) visit(i, load_first(x + i, n - i, B(standard)), n - i);
}

/// A number for each row of a group.
struct alignas(64) PerRow {
  float row[kGroup];

  PerRow() = default;
  explicit PerRow(B lanes) { lanes.store_aligned(row); }
};

/// Calls part(row), a batch, for each row of a group, and combines the lanes of each batch.
template <typename Part, typename Combine>
[[gnu::always_inline]] inline B reduce_group(int64_t rows, const Part& part,
                                             const Combine& combine) {
  FloatVector parts[kGroup] = {};
  for (int64_t r = 0; r < rows; ++r) parts[r] = part(r).data;
  return combine_lanes<float>(
      parts, [&](FloatVector a, FloatVector b) { return combine(B(a), B(b)).data; });
}

constexpr auto kSum = [](B a, B b) { return a + b; };
constexpr auto kLargest = [](B a, B b) { return xsimd::max(a, b); };

/// Returns the largest element of each row, ignoring NaN: a row with NaN has a sum of NaN anyway.
B largest_of_rows(const float* x, int64_t rows, int64_t n) {
  return reduce_group(
      rows,
      [&](int64_t r) {
        B largest(-kInfinity);
        visit_row(x + r * n, n, -kInfinity,
                  [&](int64_t, B values, int64_t) { largest = xsimd::max(values, largest); });
        return largest;
      },
      kLargest);
}

/// Returns the sums of exp(x - largest). The exponentials are stored to y if it is not null.
template <bool kKeep>
B sum_exponentials_of_rows(const float* x, int64_t rows, int64_t n, const PerRow& largest,
                           float* y) {
  return reduce_group(
      rows,
      [&](int64_t r) {
        const B shift(largest.row[r]);
        B sum(0.0f);
        visit_row(x + r * n, n, -kInfinity, [&](int64_t i, B values, int64_t count) {
          const B e = functions::exp_of_negative(values - shift);
          if constexpr (kKeep) store_lanes(y + r * n + i, count, e);
          sum += e;
        });
        return sum;
      },
      kSum);
}

/// Returns the logarithms, computed in double, plus the shifts.
B log_of_sums(B sums, B shifts) {
  WideFloats wide(Floats(sums.data));
  const WideFloats shift(Floats(shifts.data));
  take_logarithm(wide);
  wide.lower += shift.lower, wide.upper += shift.upper;
  return B(FloatVector(wide.rounded()));
}

/// Returns the sums of f(y, dy) of each row.
template <typename F>
B sum_of_rows(const float* y, const float* dy, int64_t rows, int64_t n, const F& f) {
  return reduce_group(
      rows,
      [&](int64_t r) {
        B sum(0.0f);
        visit_row(dy + r * n, n, 0.0f, [&](int64_t i, B values, int64_t lanes) {
          sum += f(load_lanes(y + r * n + i, lanes, 0.0f), values);
        });
        return sum;
      },
      kSum);
}

/// Computes dx = gradient(y, dy, sum of term(y, dy) over the row).
template <typename Term, typename Gradient>
void backward_rows(const float* y, const float* dy, const SoftmaxRows& rows, float* dx,
                   const Term& term, const Gradient& gradient) {
  const int64_t n = rows.n;
  for_each_tile_of_rows(rows.outer, n, kParallelSoftmax, [=](int64_t row, int64_t count) {
    const float *ys = y + row * n, *dys = dy + row * n;
    const PerRow sums(sum_of_rows(ys, dys, count, n, term));
    for (int64_t r = 0; r < count; ++r)
      visit_row(dys + r * n, n, 0.0f, [&](int64_t i, B values, int64_t lanes) {
        store_lanes(dx + (row + r) * n + i, lanes,
                    gradient(load_lanes(ys + r * n + i, lanes, 0.0f), values, B(sums.row[r])));
      });
  });
}

}  // namespace

void softmax_middle(const float* x, const SoftmaxRows& rows, float* y) {
  const int64_t n = rows.n;
  for_each_tile_of_rows(rows.outer, n, kParallelSoftmax, [=](int64_t row, int64_t count) {
    const float* from = x + row * n;
    float* to = y + row * n;
    const PerRow largest(largest_of_rows(from, count, n));
    const PerRow scale(B(1.0f) / sum_exponentials_of_rows<true>(from, count, n, largest, to));
    for (int64_t r = 0; r < count; ++r)
      visit_row(to + r * n, n, 0.0f, [&](int64_t i, B e, int64_t lanes) {
        store_lanes(to + r * n + i, lanes, e * B(scale.row[r]));
      });
  });
}

void log_softmax_middle(const float* x, const SoftmaxRows& rows, float* y) {
  const int64_t n = rows.n;
  for_each_tile_of_rows(rows.outer, n, kParallelSoftmax, [=](int64_t row, int64_t count) {
    const float* from = x + row * n;
    float* to = y + row * n;
    const PerRow largest(largest_of_rows(from, count, n));
    const PerRow total(
        log_of_sums(sum_exponentials_of_rows<false>(from, count, n, largest, nullptr), B(0.0f)));
    for (int64_t r = 0; r < count; ++r)
      visit_row(from + r * n, n, 0.0f, [&](int64_t i, B values, int64_t lanes) {
        store_lanes(to + r * n + i, lanes, values - B(largest.row[r]) - B(total.row[r]));
      });
  });
}

void logsumexp_middle(const float* x, const SoftmaxRows& rows, float* y) {
  const int64_t n = rows.n;
  for_each_tile_of_rows(rows.outer, n, kParallelSoftmax, [=](int64_t row, int64_t count) {
    const float* from = x + row * n;
    const B most = largest_of_rows(from, count, n);
    const PerRow largest(most);
    PerRow result(
        log_of_sums(sum_exponentials_of_rows<false>(from, count, n, largest, nullptr), most));
    for (int64_t r = 0; r < count; ++r) {
      if (!std::isinf(largest.row[r])) continue;
      result.row[r] = largest.row[r];  // NaN if the row has one
      for (int64_t i = 0; i < n; ++i)
        if (std::isnan(from[r * n + i])) result.row[r] = from[r * n + i];
    }
    std::copy_n(result.row, count, y + row);
  });
}

void softmax_middle_backward(const float* y, const float* dy, const SoftmaxRows& rows, float* dx) {
  backward_rows(
      y, dy, rows, dx, [](B p, B dp) { return p * dp; },
      [](B p, B dp, B sum) { return p * (dp - sum); });
}

void log_softmax_middle_backward(const float* y, const float* dy, const SoftmaxRows& rows,
                                 float* dx) {
  backward_rows(
      y, dy, rows, dx, [](B, B dl) { return dl; },
      [](B log, B dl, B sum) { return dl - functions::exp_of_negative(log) * sum; });
}

}  // namespace tapegrad::backends::cpu
