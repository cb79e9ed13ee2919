// Extremes and their positions along one dimension.
#include "backends/cpu/register.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/reducers.h"
#include "ops/reduce.h"

namespace tapegrad::backends::cpu {
namespace {

/// An extreme and its first position along n.
template <typename Value>
struct Found {
  Value value;
  int64_t index;
};

constexpr int64_t kLongestColumn = 64;  // elements of a row that is processed like a column

/// Returns the first extreme of n contiguous or strided elements.
template <bool kLargest, typename T>
Found<Compute<T>> find_in_row(const T* x, int64_t n) {
  using Value = Compute<T>;
  const ExtremeOf<T, kLargest> extreme;
  alignas(64) Value buffer[kBlock];
  Value best = Value(x[0]);
  int64_t start = 0;  // start of the block that contains it
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    const Value value = reduce_block(extreme, load_values(x + i, 1, count, buffer), count);
    if (holds_against<kLargest>(best, value)) continue;
    best = value;
    start = i;
  }
  const auto is_best = [&](int64_t i) {
    return Value(x[i]) == best || (best != best && Value(x[i]) != Value(x[i]));
  };
  int64_t i = start;
  for (int hits = 0; i + kStripe <= n; i += kStripe) {
    for (int64_t j = i; j < i + kStripe; ++j) hits += is_best(j);
    if (hits > 0) break;
  }
  while (!is_best(i)) ++i;
  return {best, i};
}

/// The first extremes of n columns. Element (i, j) is x[i * step + j * column_step].
template <bool kLargest, typename T>
void find_in_columns(const T* x, int64_t rows, int64_t step, int64_t column_step, int64_t n,
                     Found<Compute<T>>* found) {
  using Value = Compute<T>;
  using Index = std::conditional_t<sizeof(Value) == 8, int64_t, int32_t>;  // as wide as Value, for
                                                                           // vectorisation
  alignas(64) Value best[kBlock], buffer[kBlock];
  Index index[kBlock] = {};
  std::copy_n(load_values(x, column_step, n, buffer), n, best);
  for (int64_t i = 1; i < rows; ++i) {
    const Value* values = load_values(x + i * step, column_step, n, buffer);
    const auto add = [&](int64_t j) {
      const bool stays = holds_against<kLargest>(best[j], values[j]);
      best[j] = stays ? best[j] : values[j];
      index[j] = stays ? index[j] : Index(i);
    };
    const T* next = x + std::min(i + 1, rows - 1) * step;
    int64_t j = 0;
    for (; j + kStripe <= n; j += kStripe) {
      if (column_step == 1) fetch_run(next + j, kStripe);
      for (int64_t l = j; l < j + kStripe; ++l) add(l);
    }
    for (; j < n; ++j) add(j);
  }
  for (int64_t j = 0; j < n; ++j) found[j] = {best[j], int64_t(index[j])};
}

template <bool kLargest, typename T>
void find_extremes(const Tensor& x, Tensor& values, Tensor& indices) {
  using Value = Compute<T>;
  const int64_t rows = x.shape()[1];
  int64_t outer = x.shape()[0], inner = x.shape()[2], step = inner, column_step = 1;
  if (indices.numel() == 0) return;
  if (inner == 1 && rows <= kLongestColumn) {
    std::swap(outer, inner);  // process rows side by side, like columns
    step = 1, column_step = rows;
  }
  const int64_t width = std::min(inner, column_step == 1 ? kBlock : kBlock / 4);
  const int64_t strips = (inner + width - 1) / width;
  // A piece has at most 2^30 rows, so that its indices fit in 32 bits.
  const int64_t pieces = std::max(pieces_for(outer * strips, rows * width, rows), (rows >> 30) + 1);
  std::vector<Found<Value>> parts(outer * strips * pieces * width);
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t task = 0; task < outer * strips * pieces; ++task) {
    const int64_t piece = task % pieces, strip = task / pieces % strips;
    const int64_t first = piece * rows / pieces, last = (piece + 1) * rows / pieces;
    const T* from = x.data<T>() + task / pieces / strips * rows * inner + first * step +
                    strip * width * column_step;
    Found<Value>* found = parts.data() + task * width;
    const int64_t n = std::min(width, inner - strip * width);
    if (inner == 1 && column_step == 1)
      *found = find_in_row<kLargest>(from, last - first);
    else
      find_in_columns<kLargest>(from, last - first, step, column_step, n, found);
    for (int64_t j = 0; j < n; ++j) found[j].index += first;
  }
  for (int64_t strip = 0; strip < outer * strips; ++strip) {
    Found<Value>* best = parts.data() + strip * pieces * width;
    const int64_t first = strip / strips * inner + strip % strips * width;
    const int64_t n = std::min(width, inner - strip % strips * width);
    for (int64_t piece = 1; piece < pieces; ++piece)
      for (int64_t j = 0; j < n; ++j) {
        const Found<Value>& other = best[piece * width + j];
        if (!holds_against<kLargest>(best[j].value, other.value)) best[j] = other;
      }
    for (int64_t j = 0; j < n; ++j) {
      if (values) values.data<T>()[first + j] = T(best[j].value);
      indices.data<int64_t>()[first + j] = best[j].index;
    }
  }
}

template <typename T>
void sum_up(const Tensor& x, Tensor& y) {
  using Sum = std::conditional_t<kIsFloat<T>, double, uint64_t>;
  using Out = std::conditional_t<kIsFloat<T>, T, int64_t>;
  const int64_t outer = x.shape()[0], rows = x.shape()[1], inner = x.shape()[2];
  const T* from = x.data<T>();
  Out* to = y.data<Out>();
  const auto rounded = [](Sum sum) {
    if constexpr (kIsFloat<T>)
      return convert<T>(sum);
    else
      return int64_t(sum);
  };
  if (inner == 1) {
#pragma omp parallel for if (x.numel() > kParallel)
    for (int64_t line = 0; line < outer; ++line) {
      Sum sum(0);
      for (int64_t i = line * rows; i < (line + 1) * rows; ++i)
        to[i] = rounded(sum += Sum(Compute<T>(from[i])));
    }
    return;
  }
  const int64_t strips = (inner + kBlock - 1) / kBlock;
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t task = 0; task < outer * strips; ++task) {
    const int64_t first = task % strips * kBlock;
    const int64_t n = std::min(kBlock, inner - first);
    Sum sums[kBlock];
    std::fill_n(sums, n, Sum(0));
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = (task / strips * rows + i) * inner + first;
      for (int64_t j = 0; j < n; ++j) {
        sums[j] += Sum(Compute<T>(from[at + j]));
        to[at + j] = rounded(sums[j]);
      }
    }
  }
}

template <typename T>
void extreme(const Tensor& x, bool largest, Tensor& values, Tensor& indices) {
  if (largest)
    find_extremes<true, T>(x, values, indices);
  else
    find_extremes<false, T>(x, values, indices);
}

}  // namespace

void register_extremes() {
  set<kernels::extreme>(kNumberTypes, []<typename T>(TypeTag<T>, auto&... a) { extreme<T>(a...); });
  set<kernels::cumsum>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { sum_up<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
