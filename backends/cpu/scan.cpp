// Cumulative ops along the middle of three dimensions, computed in double (integers in 64 bits).
#include "ops/scan.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/register.h"
#include "core/base/float16.h"
#include "ops/internal/kernels/running_extreme.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kParallelScan = 1 << 14;  // elements

constexpr int64_t kScannedTogether = 64;  // columns that a task scans side by side

/// Calls run(offset, columns) for parts of [outer, n, inner]: `columns` neighbours from an offset.
template <typename Run>
void for_each_scanned(const Tensor& x, const Run& run) {
  const int64_t outer = x.shape()[0], n = x.shape()[1], inner = x.shape()[2];
  const int64_t blocks = (inner + kScannedTogether - 1) / kScannedTogether;
#pragma omp parallel for if (x.numel() > kParallelScan)
  for (int64_t task = 0; task < outer * blocks; ++task) {
    const int64_t column = task % blocks * kScannedTogether;
    run(task / blocks * n * inner + column, std::min(kScannedTogether, inner - column));
  }
}

/// Calls step(state, place, i) for the i-th element of every column of [outer, n, inner], where the
/// column's state begins as `first`. `reversed` begins at the last element.
template <typename State, typename Step>
void scan(const Tensor& x, const State& first, bool reversed, const Step& step) {
  const int64_t n = x.shape()[1], inner = x.shape()[2];
  for_each_scanned(x, [=](int64_t offset, int64_t columns) {
    const auto row = [=](int64_t i) { return offset + (reversed ? n - 1 - i : i) * inner; };
    State states[kScannedTogether];
    std::fill_n(states, kScannedTogether, first);
    if (columns == 1) {
      State state = first;
      for (int64_t i = 0; i < n; ++i) step(state, row(i), i);
      return;
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < columns; ++j) step(states[j], row(i) + j, i);
  });
}

template <typename T>
void multiply_up(const Tensor& x, Tensor& y) {
  constexpr bool kFloat = std::is_floating_point_v<Compute<T>>;
  using Product = std::conditional_t<kFloat, double, uint64_t>;
  using Out = std::conditional_t<kFloat, T, int64_t>;
  const T* from = x.data<T>();
  Out* to = y.data<Out>();
  scan(x, Product(1), /*reversed=*/false, [=](Product& product, int64_t at, int64_t) {
    product *= Product(Compute<T>(from[at]));
    to[at] = convert<Out>(product);
  });
}

/// Computes log(sum) from the largest term and the sum relative to it.
template <typename T>
void log_sum_up(const Tensor& x, Tensor& y) {
  struct Terms {
    double largest, sum;
  };
  const T* from = x.data<T>();
  T* to = y.data<T>();
  const Terms none{-std::numeric_limits<double>::infinity(), 0};
  scan(x, none, /*reversed=*/false, [=](Terms& terms, int64_t at, int64_t) {
    auto& [largest, sum] = terms;
    const double value = double(Compute<T>(from[at]));
    if (value == largest) {  // includes infinities, whose difference is NaN
      sum += 1;
    } else if (value < largest || std::isnan(largest)) {  // NaN stays
      sum += std::exp(value - largest);
    } else {  // larger, or NaN
      sum = sum * std::exp(largest - value) + 1;
      largest = value;
    }
    const bool infinite = std::isinf(largest);
    to[at] = convert<T>(infinite ? largest : largest + std::log(sum));
  });
}

/// Returns whether `value` becomes the extreme after `best`: NaN stays, and of equal elements the
/// last one counts.
template <bool kLargest, typename V>
bool takes_over(V best, V value) {
  const bool less = kLargest ? value < best : best < value;
  return !less & !((best != best) & (value == value));
}

/// Computes the running extremes of a row. Comparisons that do not depend on each other find the
/// blocks without a new extreme.
template <bool kLargest, typename T>
void extremes_of_row(const T* from, int64_t n, T* values, int64_t* to) {
  using Value = Compute<T>;
  Value best = Value(from[0]);
  int64_t where = 0;
  for (int64_t start = 0; start < n; start += kScannedTogether) {
    const int64_t end = std::min(start + kScannedTogether, n);
    int takes = start == 0;  // the first block has a new extreme in most data
    if (takes == 0)
      for (int64_t i = start; i < end; ++i) takes |= takes_over<kLargest>(best, Value(from[i]));
    if (takes == 0) {
      std::fill(values + start, values + end, from[where]);
      std::fill(to + start, to + end, where);
      continue;
    }
    for (int64_t i = start; i < end; ++i) {
      const Value value = Value(from[i]);
      if (takes_over<kLargest>(best, value)) {
        best = value;
        where = i;
      }
      values[i] = from[where];
      to[i] = where;
    }
  }
}

/// Computes the running extremes of adjacent columns together, one row after another.
template <bool kLargest, typename T>
void extremes_of_columns(const T* from, int64_t n, int64_t step, int64_t columns, T* values,
                         int64_t* to) {
  Compute<T> best[kScannedTogether];
  int64_t where[kScannedTogether] = {};
  for (int64_t j = 0; j < columns; ++j) best[j] = Compute<T>(from[j]);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const Compute<T> value = Compute<T>(from[i * step + j]);
      const bool takes = takes_over<kLargest>(best[j], value);
      best[j] = takes ? value : best[j];
      where[j] = takes ? i : where[j];
      values[i * step + j] = T(best[j]);
      to[i * step + j] = where[j];
    }
}

template <bool kLargest, typename T>
void extremes(const Tensor& x, Tensor& values, Tensor& indices) {
  if (x.numel() == 0) return;
  const int64_t n = x.shape()[1], inner = x.shape()[2];
  for_each_scanned(x, [=, from = x.data<T>(), into = values.data<T>(),
                       to = indices.data<int64_t>()](int64_t at, int64_t columns) {
    if (inner == 1)
      extremes_of_row<kLargest>(from + at, n, into + at, to + at);
    else
      extremes_of_columns<kLargest>(from + at, n, inner, columns, into + at, to + at);
  });
}

template <typename T>
void recur(const Tensor& b, const Tensor& a, bool reversed, Tensor& y) {
  const T *factors = a.data<T>(), *terms = b.data<T>();
  T* to = y.data<T>();
  scan(b, 0.0, reversed, [=](double& value, int64_t at, int64_t i) {
    value = i == 0 ? double(terms[at]) : double(factors[at]) * value + double(terms[at]);
    to[at] = T(value);
  });
}

}  // namespace

void register_scan() {
  set<kernels::cumprod>(kSummedTypes,
                        []<typename T>(TypeTag<T>, auto&... a) { multiply_up<T>(a...); });
  set<kernels::logcumsumexp>(kFloatTypes,
                             []<typename T>(TypeTag<T>, auto&... a) { log_sum_up<T>(a...); });
  set<kernels::running_values>(
      kSummedTypes,
      []<typename T>(TypeTag<T>, const Tensor& x, bool largest, Tensor& y, Tensor& indices) {
        largest ? extremes<true, T>(x, y, indices) : extremes<false, T>(x, y, indices);
      });
  set<kernels::recurrence>(TypeList<float, double>{},
                           []<typename T>(TypeTag<T>, auto&... a) { recur<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
