#include "ops/resample.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "backends/cpu/fast/packed.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/share.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cpu {
namespace {

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers the loop is not vectorised
#endif

constexpr int64_t kResults = 4096;  // elements of a task

// One thread computes each sum, in the order of the taps, so results do not depend on the number of
// threads.

/// Operands [outer, n, inner] and [outer, results, inner], one of which is read.
template <typename T>
struct ResampledRows {
  int64_t outer, n, results, inner;
  const T* from;
  T* to;
  std::optional<PackedValues> packed{};  // the operand that is read, if the result is packed, too

  /// An element of packed images is a block of channels.
  ResampledRows(const Tensor& x, int64_t n, int64_t results, Tensor& y)
      : outer(x.shape()[0]), n(n), results(results), inner(x.shape()[2]) {
    if constexpr (Packable<T>) packed = packed_rows(x, y);
    if (!packed) {
      from = x.data<T>();
    } else {
      from = cpu::data<T>(*packed);
      outer /= packed->packing.block;
      inner *= packed->packing.block;
    }
    to = y.data<T>();
  }
  /// Called after y is written.
  void finish(const Tensor& x, Tensor& y) const {
    if (!packed) return;
    Packing packing = packed->packing;
    packing.size = packing.size / x.shape()[1] * y.shape()[1];
    y.storage().set_packed(packing);
  }

 private:
  static std::optional<PackedValues> packed_rows(const Tensor& x, const Tensor& y) {
    if (!x.storage().is_packed() || !may_be_packed(y)) return {};
    auto values = x.storage().packed();
    if (!values) return values;
    const Packing& p = values->packing;
    const int64_t planes = p.batch * p.channels;
    if (x.numel() != planes * p.size || x.shape()[0] % planes != 0) values.reset();
    return values;
  }
};

/// One tap of a result: the weight of row `index`.
template <typename W>
struct Tap {
  int64_t index;
  W weight;
};
/// Returns the taps of each result, one after the other.
template <typename W>
std::vector<Tap<W>> in_order(const Taps& taps) {
  const int64_t results = taps.results();
  std::vector<Tap<W>> all;
  all.reserve(taps.index.size());
  for (int64_t i = 0; i < results; ++i)
    for (int64_t k = 0; k < taps.count; ++k)
      all.push_back({taps.index[size_t(k * results + i)], W(taps.weight[size_t(k * results + i)])});
  return all;
}

/// Computes the results [begin, end), rows of `inner` elements, each from kCount taps.
template <int kCount, typename T, typename W = Compute<T>>
void resample_rows(const T* from, const Tap<W>* taps, int64_t begin, int64_t end, int64_t inner,
                   T* to) {
  for (int64_t i = begin; i < end; ++i) {
    const Tap<W>* tap = taps + i * kCount;
    T* row = to + i * inner;
#pragma omp simd
    for (int64_t j = 0; j < inner; ++j) {
      W sum = 0;
      for (int k = 0; k < kCount; ++k) sum += tap[k].weight * W(from[tap[k].index * inner + j]);
      row[j] = T(sum);
    }
  }
}
/// Taps of single elements. Tap k of all results is contiguous, so that results are gathered in
/// vectors.
template <typename W>
struct ElementTaps {
  int64_t results;
  std::vector<int32_t> index;
  std::vector<W> weight;

  explicit ElementTaps(const Taps& taps)
      : results(taps.results()),
        index(taps.index.begin(), taps.index.end()),
        weight(taps.weight.begin(), taps.weight.end()) {}
};

/// Computes the results [begin, end) of rows of one element.
template <int kCount, typename T, typename W = Compute<T>>
void resample_elements(const T* from, const ElementTaps<W>& taps, int64_t begin, int64_t end,
                       T* to) {
  const int32_t* index = taps.index.data();
  const W* weight = taps.weight.data();
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    W sum = 0;
    for (int k = 0; k < kCount; ++k)
      sum += weight[k * taps.results + i] * W(from[index[k * taps.results + i]]);
    to[i] = T(sum);
  }
}

template <int kCount, typename T>
void resample_by(const ResampledRows<T>& rows, const Taps& taps) {
  using W = Compute<T>;
  const bool of_elements = rows.inner == 1;
  const auto ordered = of_elements ? std::vector<Tap<W>>() : in_order<W>(taps);
  const auto adjacent = of_elements ? std::optional<ElementTaps<W>>(taps) : std::nullopt;
  const int64_t each = std::max<int64_t>(1, kResults / std::max<int64_t>(rows.inner, 1));
  const int64_t pieces = (rows.results + each - 1) / each;
#pragma omp parallel for if (rows.outer * rows.results * rows.inner > kParallel)
  for (int64_t task = 0; task < rows.outer * pieces; ++task) {
    const int64_t begin = task % pieces * each, end = std::min(begin + each, rows.results);
    const T* x = rows.from + task / pieces * rows.n * rows.inner;
    T* y = rows.to + task / pieces * rows.results * rows.inner;
    if (of_elements)
      resample_elements<kCount>(x, *adjacent, begin, end, y);
    else
      resample_rows<kCount>(x, ordered.data(), begin, end, rows.inner, y);
  }
}

/// Copies each element `repeats` times, or kRepeats times if that is positive.
template <int kRepeats, typename T>
void copy_repeated(const T* from, int64_t n, int64_t repeats, T* to) {
  const int64_t each = kRepeats > 0 ? kRepeats : repeats;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < each; ++k) to[i * each + k] = from[i];
}
template <typename T>
void copy_repeated(const T* from, int64_t n, int64_t repeats, T* to) {
  if (repeats == 2) return copy_repeated<2>(from, n, repeats, to);
  if (repeats == 3) return copy_repeated<3>(from, n, repeats, to);
  if (repeats == 4) return copy_repeated<4>(from, n, repeats, to);
  copy_repeated<0>(from, n, repeats, to);
}

/// Copies the results that have one tap of weight 1, such as those of the nearest pixel.
template <typename T>
void copy_nearest(const ResampledRows<T>& rows, const Taps& taps) {
  const int64_t inner = rows.inner, n = rows.n, results = rows.results;
  const int64_t* index = taps.index.data();
  int64_t repeats = results % n == 0 ? results / n : 0;
  for (int64_t i = 0; i < results && repeats > 0; ++i)
    if (index[i] != i / repeats) repeats = 0;
  const bool parallel = rows.outer * results * inner > kParallel;
  if (inner > 1) {
#pragma omp parallel for collapse(2) if (parallel)
    for (int64_t part = 0; part < rows.outer; ++part)
      for (int64_t i = 0; i < results; ++i)
        std::copy_n(rows.from + (part * n + index[i]) * inner, inner,
                    rows.to + (part * results + i) * inner);
    return;
  }
#pragma omp parallel for if (parallel)
  for (int64_t part = 0; part < rows.outer; ++part) {
    const T* from = rows.from + part * n;
    T* to = rows.to + part * results;
    if (repeats > 0)
      copy_repeated(from, n, repeats, to);
    else
      for (int64_t i = 0; i < results; ++i) to[i] = from[index[i]];
  }
}

template <typename T>
void resample(const Tensor& x, const Taps& taps, Tensor& y) {
  if (y.numel() == 0) return;
  const ResampledRows<T> rows(x, x.shape()[1], taps.results(), y);
  const auto run = taps.count == 1   ? copy_nearest<T>
                   : taps.count == 2 ? resample_by<2, T>
                                     : resample_by<4, T>;
  run(rows, taps);
  rows.finish(x, y);
}

/// The taps of all results, grouped by the row that they read; each group in the order of the
/// results. In a group, `index` is the result.
template <typename W>
struct TapsByRow {
  std::vector<int64_t> starts;  // of the group of each row, and the end of the last
  std::vector<Tap<W>> taps;

  TapsByRow(const Taps& all, int64_t rows)
      : starts(size_t(rows) + 1), taps(size_t(all.results() * all.count)) {
    const std::vector<Tap<W>> ordered = in_order<W>(all);
    for (const Tap<W>& tap : ordered) ++starts[size_t(tap.index) + 1];
    for (int64_t row = 0; row < rows; ++row) starts[size_t(row) + 1] += starts[size_t(row)];
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    for (size_t i = 0; i < ordered.size(); ++i)
      taps[size_t(next[size_t(ordered[i].index)]++)] = {int64_t(i) / all.count, ordered[i].weight};
  }

  /// Returns the number of taps of each row if row i adds results i n ... i n + n - 1 with weight
  /// 1, as for the nearest pixel of an image that is n times as large; else 0.
  int64_t repeats() const {
    const int64_t each = starts[1];
    if (each * int64_t(starts.size() - 1) != int64_t(taps.size())) return 0;
    for (size_t row = 0; row < starts.size(); ++row)
      if (starts[row] != int64_t(row) * each) return 0;
    for (size_t i = 0; i < taps.size(); ++i)
      if (taps[i].index != int64_t(i) || taps[i].weight != W(1)) return 0;
    return each;
  }
};

/// Sums groups of `repeats` neighbours.
template <typename T>
void add_neighbours(const T* from, int64_t repeats, int64_t rows, T* to) {
  if (repeats == 2) {
    for (int64_t row = 0; row < rows; ++row) to[row] = T(0) + from[2 * row] + from[2 * row + 1];
    return;
  }
  for (int64_t row = 0; row < rows; ++row, from += repeats) {
    T sum = 0;
    for (int64_t k = 0; k < repeats; ++k) sum += from[k];
    to[row] = sum;
  }
}

template <typename T>
void adjoint(const Tensor& y, const Taps& taps, Tensor& x) {
  if (x.numel() == 0) return;
  const ResampledRows<T> rows(y, x.shape()[1], taps.results(), x);
  const int64_t inner = rows.inner, n = rows.n, results = rows.results;
  const TapsByRow<T> by_row(taps, n);
  const int64_t repeats = inner == 1 ? by_row.repeats() : 0;
  const int64_t each = std::max<int64_t>(1, kResults / std::max<int64_t>(inner, 1));
  const int64_t pieces = (n + each - 1) / each;
#pragma omp parallel for if (rows.outer * results * inner > kParallel)
  for (int64_t task = 0; task < rows.outer * pieces; ++task) {
    const T* from = rows.from + task / pieces * results * inner;
    T* to = rows.to + task / pieces * n * inner;
    const int64_t begin = task % pieces * each;
    if (repeats > 0) {
      add_neighbours(from + begin * repeats, repeats, std::min(each, n - begin), to + begin);
      continue;
    }
    for (int64_t row = begin; row < std::min(begin + each, n); ++row) {
      const Tap<T>* tap = by_row.taps.data() + by_row.starts[size_t(row)];
      const Tap<T>* end = by_row.taps.data() + by_row.starts[size_t(row) + 1];
      if (inner == 1) {
        T sum = 0;
        for (; tap < end; ++tap) sum += tap->weight * from[tap->index];
        to[row] = sum;
        continue;
      }
      T* line = to + row * inner;
      std::fill_n(line, inner, T(0));
      for (; tap < end; ++tap) {
        const T weight = tap->weight;
        const T* source = from + tap->index * inner;
#pragma omp simd
        for (int64_t j = 0; j < inner; ++j) line[j] += weight * source[j];
      }
    }
  }
  rows.finish(y, x);
}

template <typename T>
void resample_adjoint(const Tensor& y, const Taps& taps, Tensor& x) {
  Tensor sums = Tensor::empty(x.shape(), f32);
  adjoint<float>(y.to(f32), taps, sums);
  kernels::copy(sums, x);
}

}  // namespace

void register_sample() {
  set<kernels::resample>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { resample<T>(a...); },
                         {.takes_packed = true});
  set<kernels::resample_adjoint>(TypeList<float, double>{},
                                 []<typename T>(TypeTag<T>, auto&... a) { adjoint<T>(a...); },
                                 {.takes_packed = true});
  // Sixteen-bit floats are summed in float32 and rounded once.
  set<kernels::resample_adjoint>(
      TypeList<float16, bfloat16>{},
      []<typename T>(TypeTag<T>, auto&... a) { resample_adjoint<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
