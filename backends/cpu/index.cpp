// Reading and writing by index. Indices are contiguous, int64 and already checked.
//
// Kernels that only move values are compiled per element size rather than per type. Sums over
// repeated indices are made by one thread for each destination, in the order of the sources.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include <omp.h>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/index_loops.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/map.h"
#include "backends/cpu/tools/wide_sum.h"
#include "core/dispatch/dispatcher.h"
#include "ops/index.h"

namespace tapegrad::backends::cpu {
namespace {

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

constexpr int64_t kSourcesAhead = 8;  // sources between a prefetch and its use

/// The type in which values of T are summed.
template <typename T>
using IndexSum = std::conditional_t<std::is_integral_v<T>, int64_t,
                                    std::conditional_t<sizeof(T) == 2, float, double>>;

void scan_index(const Tensor& index, int64_t size, kernels::IndexScan& scan) {
  const int64_t* values = index.data<int64_t>();
  const int64_t count = index.numel();
  if (count == 0) return;
  // A negative index is a large unsigned number, so one maximum tests both bounds.
  uint64_t largest = 0;
  if (count <= kParallelAbove) {
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, uint64_t(values[i]));
  } else {
#pragma omp parallel for simd reduction(max : largest)
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, uint64_t(values[i]));
  }
  scan.largest = int64_t(largest);
  if (largest < uint64_t(size)) return;
  scan.largest = *std::max_element(values, values + count);
  scan.outside =
      std::find_if(values, values + count, [size](int64_t i) { return i < 0 || i >= size; }) -
      values;
  scan.value = values[scan.outside];
}

/// Consecutive entries of an index.
struct Run {
  int64_t from, to, length;
};
/// Returns the runs of an index; none if they are too short to be of use: more than a quarter of
/// the entries so far, except for as many as the reflected border of an image may have.
std::vector<Run> runs_of(const int64_t* which, int64_t count) {
  constexpr int64_t kShortRuns = 256;
  std::vector<Run> runs;
  for (int64_t k = 0; k < count; ++k) {
    if (!runs.empty() && which[k] == runs.back().from + runs.back().length)
      ++runs.back().length;
    else
      runs.push_back({which[k], k, 1});
    if (4 * int64_t(runs.size()) > k + kShortRuns) return {};
  }
  return runs;
}

/// Returns the offsets of the entries of an index.
template <typename Offset>
std::vector<Offset> scaled_index(const int64_t* which, int64_t count, int64_t step) {
  std::vector<Offset> offsets(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) offsets[size_t(k)] = Offset(which[k] * step);
  return offsets;
}

/// The copies of an index_select(). y consists of lines of `count` blocks of x.
template <typename W>
struct BlockCopies {
  const W* from;
  W* to;
  const int64_t* which;        // for each block of a line, the block of x
  int64_t count, block;        // number of blocks of a line, and of words of a block
  int64_t size, step;          // number of blocks in a line of x, and of words from one to the next
  std::vector<int64_t> lines;  // offsets of the lines in x, in words
  bool in_parallel;

  int64_t line_count() const { return int64_t(lines.size()); }
};

/// Copies runs of adjacent blocks.
template <typename W>
void copy_runs(const BlockCopies<W>& copies, const std::vector<Run>& runs) {
  const int64_t block = copies.block;
  share_tasks(copies.line_count(), copies.in_parallel, [&](int64_t line) {
    const W* from = copies.from + copies.lines[size_t(line)];
    W* to = copies.to + line * copies.count * block;
    for (const Run& run : runs) {
      const int64_t length = run.length * block;
      if (length == 1)
        to[run.to] = from[run.from];
      else
        std::memcpy(to + run.to * block, from + run.from * block, size_t(length) * sizeof(W));
    }
  });
}

/// Copies blocks of one Element each.
template <typename Element, typename W>
void copy_elements(const BlockCopies<W>& copies) {
  constexpr int64_t kWords = sizeof(Element) / sizeof(W);
  const auto* elements = reinterpret_cast<const Element*>(copies.from);
  auto* to = reinterpret_cast<Element*>(copies.to);
  const int64_t count = copies.count, step = copies.step / kWords;
  const auto copy_at = [&](const auto* offsets) {
    share_tasks(copies.line_count(), copies.in_parallel, [&](int64_t line) {
      const Element* from = elements + copies.lines[size_t(line)] / kWords;
      Element* into = to + line * count;
#pragma omp simd
      for (int64_t k = 0; k < count; ++k) into[k] = from[offsets[k]];
    });
  };
  if (copies.line_count() == 1 && step == 1) return copy_at(copies.which);
  // Vectors hold twice as many offsets of 32 bits.
  if (copies.size * std::abs(step) <= std::numeric_limits<int32_t>::max())
    return copy_at(scaled_index<int32_t>(copies.which, count, step).data());
  copy_at(scaled_index<int64_t>(copies.which, count, step).data());
}

/// Returns whether all blocks of two words are aligned as a Pair.
template <typename Pair, typename W>
bool are_aligned_pairs(const BlockCopies<W>& copies) {
  const auto is_even = [](int64_t offset) { return offset % 2 == 0; };
  const auto is_aligned = [](const void* p) { return uintptr_t(p) % alignof(Pair) == 0; };
  return is_even(copies.step) && std::ranges::all_of(copies.lines, is_even) &&
         is_aligned(copies.from) && is_aligned(copies.to);
}

/// Copies each block by copy_block(from, to).
template <typename W, typename Copy>
void copy_blocks(const BlockCopies<W>& copies, const Copy& copy_block) {
  const int64_t count = copies.count, block = copies.block;
  const int64_t together = std::max<int64_t>(1, 4096 / block);  // blocks of a task
  const int64_t tasks = (count + together - 1) / together;      // of a line
  const int64_t fetched = std::min(block, 4 * (64 / int64_t(sizeof(W))));
  share_tasks(copies.line_count() * tasks, copies.in_parallel, [&](int64_t task) {
    const int64_t line = task / tasks, first = task % tasks * together;
    const W* from = copies.from + copies.lines[size_t(line)];
    W* to = copies.to + (line * count + first) * block;
    for (int64_t k = first; k < std::min(first + together, count); ++k, to += block) {
      // The next blocks are elsewhere in memory; the processor itself follows a block to its end.
      fetch_run(from + copies.which[std::min(k + kSourcesAhead, count - 1)] * copies.step, fetched);
      copy_block(from + copies.which[k] * copies.step, to);
    }
  });
}

template <typename W>
void index_select(const Tensor& x, const Tensor& index, int dim, Tensor& y) {
  // Copies contiguous blocks of x behind dim as a whole; if they are not contiguous, copies x
  // first.
  bool dense = true;
  int64_t block = 1;
  for (int i = x.rank() - 1; i > dim; --i) {
    dense &= x.shape()[i] == 1 || x.strides()[i] == block;
    block *= x.shape()[i];
  }
  if (!dense) return index_select<W>(x.clone(), index, dim, y);
  const BlockCopies<W> copies{x.data<W>(),
                              y.data<W>(),
                              index.data<int64_t>(),
                              index.numel(),
                              block,
                              x.shape()[dim],
                              x.strides()[dim],
                              offsets_of(x.layout(), 0, dim),
                              y.numel() > kParallelAbove};
  const std::vector<Run> runs = runs_of(copies.which, copies.count);
  if (copies.step == block && !runs.empty() && 4 * int64_t(runs.size()) <= copies.count)
    return copy_runs(copies, runs);  // as when padding
  if (block == 1) return copy_elements<W>(copies);
  if constexpr (sizeof(W) <= 4) {
    using Pair = Word<2 * sizeof(W)>;
    if (block == 2 && are_aligned_pairs<Pair>(copies)) return copy_elements<Pair>(copies);
  }
  // A call of memcpy takes longer than copying a few numbers.
  switch (block) {
    case 2:
      return copy_blocks(copies,
                         [](const W* from, W* to) { std::memcpy(to, from, 2 * sizeof(W)); });
    case 4:
      return copy_blocks(copies,
                         [](const W* from, W* to) { std::memcpy(to, from, 4 * sizeof(W)); });
    case 8:
      return copy_blocks(copies,
                         [](const W* from, W* to) { std::memcpy(to, from, 8 * sizeof(W)); });
    default:
      copy_blocks(copies, [block](const W* from, W* to) {
        std::memcpy(to, from, size_t(block) * sizeof(W));
      });
  }
}

/// index_add() for rows of kInner elements: sums of the sources are collected in one buffer per
/// line of rows. Tasks share a line if there are few lines: each adds the sources of a range of
/// destinations. Each source belongs to `times` successive entries of the index.
template <int kInner, typename T>
void add_narrow_rows(const T* from, const int64_t* which, int64_t lines, int64_t count,
                     int64_t times, int64_t size, IndexSum<T> scale, T* to) {
  using S = IndexSum<T>;
  const bool parallel = lines * count * kInner > kParallelAbove;
  const int64_t threads = parallel ? omp_get_max_threads() : 1;
  const int64_t ranges = lines >= threads ? 1 : std::min(threads, size);
  const int64_t range = (size + ranges - 1) / ranges;
  std::vector<S> memory(size_t(threads * range * kInner));
  // Whether there is a source: adding 0 to an element may change its sign.
  std::vector<char> has(static_cast<size_t>(size));
  for (int64_t k = 0; k < count; ++k) has[size_t(which[k])] = 1;
#pragma omp parallel for if (parallel) num_threads(int(threads))
  for (int64_t task = 0; task < lines * ranges; ++task) {
    const int64_t begin = task % ranges * range, length = std::min(range, size - begin);
    const T* line = from + task / ranges * (count / times) * kInner;
    T* target = to + (task / ranges * size + begin) * kInner;
    S* sums = memory.data() + omp_get_thread_num() * range * kInner;
    if (length <= 0) continue;
    std::fill_n(sums, length * kInner, S(0));
    const auto add = [&](int64_t place, int64_t source) {
      for (int i = 0; i < kInner; ++i) sums[place * kInner + i] += S(line[source * kInner + i]);
    };
    for (int64_t k = 0, source = 0; k < count; ++source)
      for (const int64_t end = k + times; k < end; ++k)
        if (const uint64_t place = uint64_t(which[k] - begin); place < uint64_t(length))
          add(int64_t(place), source);
    for (int64_t row = 0; row < length; ++row)
      for (int64_t i = row * kInner; i < (row + 1) * kInner; ++i) {
        const T sum = T(S(target[i]) + scale * sums[i]);
        target[i] = has[size_t(begin + row)] ? sum : target[i];
      }
  }
}

/// Sums kVectors vectors of columns, from column `first` on, of the sources `order`[begin] ...
/// [end - 1]; `count` is the number of all sources. The last vector overlaps the one before if it
/// would end behind column `width`.
template <int kVectors>
void sum_sources(const float* from, const int64_t* order, int64_t begin, int64_t end, int64_t count,
                 int64_t inner, int64_t first, int64_t width, double* sums) {
  Doubles part[kVectors];
  int64_t column[kVectors];
  unrolled<kVectors>([&](auto v) {
    part[v()] = Doubles{};
    column[v()] = std::min(first + v() * kDoubles, width - kDoubles);
  });
  for (int64_t k = begin; k < end; ++k) {
    const float* line = from + order[k] * inner;
    // The sources of the next rows are elsewhere in memory.
    const float* ahead = from + order[std::min(k + kSourcesAhead, count - 1)] * inner;
    unrolled<kVectors>([&](auto v) {
      if (v() % 2 == 0) fetch(ahead + column[v()]);
      part[v()] += widen(load_vector<HalfFloats>(line + column[v()]));
    });
  }
  unrolled<kVectors>([&](auto v) { std::memcpy(sums + column[v()], &part[v()], sizeof(Doubles)); });
}

template <typename T>
void index_add(const Tensor& source, const Tensor& index, int dim, Number alpha, Tensor& y) {
  using S = IndexSum<T>;
  const int64_t* which = index.data<int64_t>();
  const int64_t count = index.numel(), size = y.shape()[dim];
  const int64_t length = source.shape()[dim], times = count / length;
  const int64_t outer = numel(y.shape(), 0, dim);
  const int64_t inner = numel(y.shape(), dim + 1, y.rank());
  const T* from = source.data<T>();
  T* to = y.data<T>();
  const S scale = alpha.to<S>();
  if (size <= 4 * count) {
    const auto add = [&]<int kInner>(std::integral_constant<int, kInner>) {
      add_narrow_rows<kInner>(from, which, outer, count, times, size, scale, to);
    };
    if (inner == 1) return add(std::integral_constant<int, 1>());
    if constexpr (std::is_same_v<T, float>) {
      if (inner == 2) return add(std::integral_constant<int, 2>());
      if (inner == 3) return add(std::integral_constant<int, 3>());
      if (inner == 4) return add(std::integral_constant<int, 4>());
    }
  }
  // If the index is short, only the rows that it names take memory and time.
  std::vector<int64_t> named, places;
  if (8 * count < size) {
    named.assign(which, which + count);
    std::sort(named.begin(), named.end());
    named.erase(std::unique(named.begin(), named.end()), named.end());
    for (int64_t k = 0; k < count; ++k)
      places.push_back(std::lower_bound(named.begin(), named.end(), which[k]) - named.begin());
  }
  const bool few = !named.empty();
  const SourcesByRow sources(few ? places.data() : which, count, few ? int64_t(named.size()) : size,
                             times);
  const int64_t* order = sources.order.data();
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  const int64_t row_count = int64_t(sources.rows.size()), tasks = outer * row_count * blocks;
  const int64_t together = std::max<int64_t>(1, 4096 / std::min(inner, kColumns));
#pragma omp parallel for schedule(dynamic, together) if (source.numel() * times > kParallelAbove)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t column = task % blocks * kColumns;
    const int64_t row = sources.rows[size_t(task / blocks % row_count)];
    const int64_t o = task / blocks / row_count;
    const int64_t width = std::min(kColumns, inner - column);
    S sum[kColumns];
    const T* lines = from + o * length * inner + column;
    const int64_t begin = sources.begin(row), end = sources.end(row);
    int64_t done = 0;
    if constexpr (std::is_same_v<T, float>) {
      const auto add = [&]<int k>(std::integral_constant<int, k>) {
        for (; width - done > (k == 1 ? 0 : (k - 1) * kDoubles); done += k * kDoubles)
          sum_sources<k>(lines, order, begin, end, count, inner, done, width, sum);
      };
      if (width >= kDoubles) {
        add(std::integral_constant<int, 8>());
        add(std::integral_constant<int, 4>());
        add(std::integral_constant<int, 2>());
        add(std::integral_constant<int, 1>());
      }
    }
    if (done < width) std::fill_n(sum, width, S(0));
    for (int64_t k = begin; done < width && k < end; ++k) {
      const T* line = lines + order[k] * inner;
      if (k + kSourcesAhead < count) fetch_run(lines + order[k + kSourcesAhead] * inner, width);
      for (int64_t i = 0; i < width; ++i) sum[i] += S(line[i]);
    }
    T* target = to + (o * size + (few ? named[size_t(row)] : row)) * inner + column;
    for (int64_t i = 0; i < width; ++i) target[i] = T(S(target[i]) + scale * sum[i]);
  }
}

template <typename W>
struct Fill {
  W bits;
  W operator()(W x, bool masked) const {  // by a mask, which vectorises
    const W mask = W(W(0) - W(masked));
    return W(x ^ ((x ^ bits) & mask));
  }
};

template <typename W>
void gather_along(const Tensor& x, const Tensor& index, int dim, Tensor& y) {
  const W* from = x.data<W>();
  W* to = y.data<W>();
  if (dim < x.rank() - 1 || x.strides()[dim] != 1)
    return for_each_meant<Repeats::kYes>(x, index, dim,
                                         [=](int64_t p, int64_t q) { to[p] = from[q]; });
  // Along a contiguous line, vectors of indices address the elements.
  const int64_t* which = index.data<int64_t>();
  const int64_t length = index.shape()[dim];
  const std::vector<int64_t> lines = offsets_of(x.layout(), 0, dim);
  std::vector<int64_t> places;  // in an index that repeats values
  if (index.numel() != y.numel()) places = offsets_in_index(index, x, 0, dim);
  share_tasks(int64_t(lines.size()), y.numel() > kParallelAbove, [&](int64_t i) {
    const W* line = from + lines[size_t(i)];
    const int64_t* at = which + (places.empty() ? i * length : places[size_t(i)]);
    W* into = to + i * length;
#pragma omp simd
    for (int64_t j = 0; j < length; ++j) into[j] = line[at[j]];
  });
}

template <typename T>
void scatter_add(const Tensor& source, const Tensor& index, int dim, Tensor& y) {
  const T* from = source.data<T>();
  T* to = y.data<T>();
  for_each_meant<Repeats::kYes>(y, index, dim,
                                [=](int64_t p, int64_t q) { to[q] = T(to[q] + from[p]); });
}

template <typename T>
void masked_fill(const Tensor& x, const Tensor& mask, Number value, Tensor& y) {
  using W = Word<sizeof(T)>;
  const T element = value.to<T>();
  Fill<W> fill;
  std::memcpy(&fill.bits, &element, sizeof(T));
  map<W, W, bool>(fill, y, x, mask);
}

/// Copies the rows of a contiguous x that the index names, for one block of the index after
/// another.
template <typename T>
constinit const RowFunctions<const Tensor&, const Tensor&, int, Tensor&> kSelectedRows{
    .divided = 1 << 1 | 1 << 3,
    .sums = 0,
    .divide = [](const Tensor& x, const Tensor& index, int dim, Tensor& y) -> RowDivision {
      const bool is_simple =
          dim == 0 && x.is_contiguous() && index.is_contiguous() && y.is_contiguous();
      return {.rows = is_simple ? index.numel() : 0};
    },
    .run =
        [](const RowBlock&, const Tensor& x, const Tensor& index, int, Tensor& y) {
          const int64_t* which = index.data<int64_t>();
          const int64_t count = index.numel(), block = y.numel() / count;
          const T* from = x.data<T>();
          T* to = y.data<T>();
          for (int64_t k = 0; k < count; ++k, to += block) {
            fetch_run(from + which[std::min(k + kSourcesAhead, count - 1)] * block,
                      std::min<int64_t>(block, 256 / sizeof(T)));
            std::memcpy(to, from + which[k] * block, size_t(block) * sizeof(T));
          }
        },
    .finish = nullptr,
};

}  // namespace

void register_index() {
  kernels::index_select.set_rows(DeviceType::kCpu, f32, kSelectedRows<float>);
  kernels::index_select.set_rows(DeviceType::kCpu, f64, kSelectedRows<double>);
  set<kernels::scan_index>(TypeList<int64_t>{},
                           []<typename T>(TypeTag<T>, auto&... a) { scan_index(a...); });
  set<kernels::index_select>(
      kAllTypes, []<typename T>(TypeTag<T>, const Tensor& x, const Tensor& index, int dim,
                                Tensor& y) { index_select<Word<sizeof(T)>>(x, index, dim, y); });
  set<kernels::index_add>(kNumberTypes,
                          []<typename T>(TypeTag<T>, auto&... a) { index_add<T>(a...); });
  set<kernels::gather>(
      kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { gather_along<Word<sizeof(T)>>(a...); });
  set<kernels::scatter_add>(TypeList<float, double, uint8_t, int32_t, int64_t>{},
                            []<typename T>(TypeTag<T>, auto&... a) { scatter_add<T>(a...); });
  set<kernels::masked_fill>(kAllTypes,
                            []<typename T>(TypeTag<T>, auto&... a) { masked_fill<T>(a...); },
                            {.parts = Parts::kElements});
}

}  // namespace tapegrad::backends::cpu
