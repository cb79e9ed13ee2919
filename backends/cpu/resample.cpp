#include "ops/resample.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/register.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cpu {
namespace {

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers the loop is not vectorised
#endif

constexpr int64_t kParallel = 32768;  // elements that justify a second thread
constexpr int64_t kResults = 4096;    // elements of a task

// One thread computes each sum, in the order of the taps, so results do not depend on the number of
// threads.

/// One tap of a result: the weight of row `index`.
template <typename W>
struct Tap {
  int64_t index;
  W weight;
};
/// The taps of each result, one after the other.
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

/// Results [begin, end) of rows of `inner` elements, each with kCount taps.
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
/// The same for rows of one element.
template <int kCount, typename T, typename W = Compute<T>>
void resample_elements(const T* from, const Tap<W>* taps, int64_t begin, int64_t end, T* to) {
  for (int64_t i = begin; i < end; ++i) {
    const Tap<W>* tap = taps + i * kCount;
    W sum = 0;
    for (int k = 0; k < kCount; ++k) sum += tap[k].weight * W(from[tap[k].index]);
    to[i] = T(sum);
  }
}

template <int kCount, typename T>
void resample_by(const Tensor& x, const Taps& taps, Tensor& y) {
  const int64_t inner = x.shape()[2], n = x.shape()[1], results = taps.results();
  const auto ordered = in_order<Compute<T>>(taps);
  const int64_t each = std::max<int64_t>(1, kResults / std::max<int64_t>(inner, 1));
  const int64_t pieces = (results + each - 1) / each;
  const T* xs = x.data<T>();
  T* ys = y.data<T>();
#pragma omp parallel for if (y.numel() > kParallel)
  for (int64_t task = 0; task < x.shape()[0] * pieces; ++task) {
    const int64_t begin = task % pieces * each, end = std::min(begin + each, results);
    const T* from = xs + task / pieces * n * inner;
    T* to = ys + task / pieces * results * inner;
    if (inner == 1)
      resample_elements<kCount>(from, ordered.data(), begin, end, to);
    else
      resample_rows<kCount>(from, ordered.data(), begin, end, inner, to);
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

/// Results with one tap, whose weight is 1, as of the nearest pixel.
template <typename T>
void copy_nearest(const Tensor& x, const Taps& taps, Tensor& y) {
  const int64_t inner = x.shape()[2], n = x.shape()[1], results = taps.results();
  const int64_t* index = taps.index.data();
  int64_t repeats = results % n == 0 ? results / n : 0;
  for (int64_t i = 0; i < results && repeats > 0; ++i)
    if (index[i] != i / repeats) repeats = 0;
  const T* xs = x.data<T>();
  T* ys = y.data<T>();
  const int64_t parts = x.shape()[0];
  if (inner > 1) {
#pragma omp parallel for collapse(2) if (y.numel() > kParallel)
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t i = 0; i < results; ++i)
        std::copy_n(xs + (part * n + index[i]) * inner, inner, ys + (part * results + i) * inner);
    return;
  }
#pragma omp parallel for if (y.numel() > kParallel)
  for (int64_t part = 0; part < parts; ++part) {
    const T* from = xs + part * n;
    T* to = ys + part * results;
    if (repeats > 0)
      copy_repeated(from, n, repeats, to);
    else
      for (int64_t i = 0; i < results; ++i) to[i] = from[index[i]];
  }
}

template <typename T>
void resample(const Tensor& x, const Taps& taps, Tensor& y) {
  if (y.numel() == 0) return;
  const auto run = taps.count == 1   ? copy_nearest<T>
                   : taps.count == 2 ? resample_by<2, T>
                                     : resample_by<4, T>;
  run(x, taps, y);
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

  /// The number of taps of each row if row i adds results i n ... i n + n - 1 with weight 1, as for
  /// the nearest pixel of an image that is n times as large; else 0.
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

/// Sums of `repeats` neighbours each.
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
  const int64_t inner = x.shape()[2], n = x.shape()[1], results = taps.results();
  const TapsByRow<T> by_row(taps, n);
  const int64_t repeats = inner == 1 ? by_row.repeats() : 0;
  const int64_t each = std::max<int64_t>(1, kResults / std::max<int64_t>(inner, 1));
  const int64_t pieces = (n + each - 1) / each;
  const T* ys = y.data<T>();
  T* xs = x.data<T>();
#pragma omp parallel for if (y.numel() > kParallel)
  for (int64_t task = 0; task < x.shape()[0] * pieces; ++task) {
    const T* from = ys + task / pieces * results * inner;
    T* to = xs + task / pieces * n * inner;
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
}

template <typename T>
void resample_adjoint(const Tensor& y, const Taps& taps, Tensor& x) {
  Tensor sums = Tensor::empty(x.shape(), f32);
  adjoint<float>(y.to(f32), taps, sums);
  kernels::copy(sums, x);
}

}  // namespace

void register_sample() {
  set<kernels::resample>(kFloatTypes, []<typename T>(Type<T>, auto&... a) { resample<T>(a...); });
  set<kernels::resample_adjoint>(TypeList<float, double>{},
                                 []<typename T>(Type<T>, auto&... a) { adjoint<T>(a...); });
  // Sixteen-bit floats are summed in float32 and rounded once.
  set<kernels::resample_adjoint>(
      TypeList<float16, bfloat16>{},
      []<typename T>(Type<T>, auto&... a) { resample_adjoint<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
