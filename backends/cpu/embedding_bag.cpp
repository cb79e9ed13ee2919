// Sums and maxima of rows of a table over bags of ids, without a copy of the rows.
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/index_loops.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/wide_sum.h"
#include "core/base/error.h"
#include "ops/internal/kernels/bag.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kIdsAhead = 8;  // ids between a prefetch and its use

/// The type in which rows of T are summed, as in index_add.
template <typename T>
using BagSum = std::conditional_t<sizeof(T) == 2, float, double>;

struct Bags {
  const int64_t* ids;
  const int64_t* bounds;
  int64_t count, size;  // of bags, and of the ids in bags

  Bags(const Tensor& ids, const Tensor& bounds)
      : ids(ids.data<int64_t>()),
        bounds(bounds.data<int64_t>()),
        count(bounds.numel() - 1),
        size(this->bounds[count]) {}
};

/// Adds to sums[j] the products row[j] * scale of kTogether rows, in their order.
template <int kTogether, typename T>
void add_rows(const T* const* rows, const Compute<T>* scales, int64_t count, BagSum<T>* sums) {
  int64_t j = 0;
  if constexpr (std::is_same_v<T, float>) {
    for (; j + kDoubles <= count; j += kDoubles) {
      Doubles sum;
      std::memcpy(&sum, sums + j, sizeof(sum));
      unrolled<kTogether>(
          [&](auto i) { sum += widen(load_vector<HalfFloats>(rows[i()] + j) * scales[i()]); });
      std::memcpy(sums + j, &sum, sizeof(sum));
    }
  }
  for (; j < count; ++j)
    for (int i = 0; i < kTogether; ++i) sums[j] += BagSum<T>(Compute<T>(rows[i][j]) * scales[i]);
}

/// Sums the scaled rows of a bag whose rows have kParts vectors, so that the sums stay in
/// registers.
template <int kParts, typename Row, typename Next, typename Factor>
void sum_narrow_rows(int64_t begin, int64_t end, const Row& row, const Next& next,
                     const Factor& factor, float* y) {
  Doubles sums[kParts];
  unrolled<kParts>([&](auto k) { sums[k()] = Doubles{}; });
  for (int64_t i = begin; i < end; ++i) {
    const float* from = row(i);
    const float scale = factor(i);
    fetch_run(next(i), kParts * kDoubles);
    unrolled<kParts>([&](auto k) {
      sums[k()] += widen(load_vector<HalfFloats>(from + k() * kDoubles) * scale);
    });
  }
  unrolled<kParts>([&](auto k) {
    const HalfFloats part = __builtin_convertvector(sums[k()], HalfFloats);
    std::memcpy(y + k() * kDoubles, &part, sizeof(part));
  });
}

/// Computes y[j] = the sum of row(i)[j] * factor(i) for i in [begin, end), j < count. `next(i)` is
/// a row that is read soon.
template <typename T, typename Row, typename Next, typename Factor>
void sum_rows(int64_t begin, int64_t end, int64_t count, const Row& row, const Next& next,
              const Factor& factor, Compute<T>* y) {
  constexpr int64_t kWide = 1024;
  if (count == 1) {
    BagSum<T> total(0);
    for (int64_t i = begin; i < end; ++i) {
      fetch(next(i));
      total += BagSum<T>(Compute<T>(*row(i)) * factor(i));
    }
    *y = Compute<T>(total);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (count == 8 * kDoubles) return sum_narrow_rows<8>(begin, end, row, next, factor, y);
    if (count == 4 * kDoubles) return sum_narrow_rows<4>(begin, end, row, next, factor, y);
    if (count == 2 * kDoubles) return sum_narrow_rows<2>(begin, end, row, next, factor, y);
  }
  for (int64_t first = 0; first < count; first += kWide) {
    const int64_t width = std::min(kWide, count - first);
    BagSum<T> sums[kWide];
    std::fill_n(sums, width, BagSum<T>(0));
    const auto add = [&](int64_t i, auto together) {
      const T* rows[together()];
      Compute<T> scales[together()];
      for (int k = 0; k < together(); ++k) {
        rows[k] = row(i + k) + first;
        scales[k] = factor(i + k);
        fetch_run(next(i + k) + first, std::min<int64_t>(width, 64));
      }
      add_rows<together()>(rows, scales, width, sums);
    };
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) add(i, std::integral_constant<int, 8>());
    for (; i < end; ++i) add(i, std::integral_constant<int, 1>());
    for (int64_t j = 0; j < width; ++j) y[first + j] = Compute<T>(sums[j]);
  }
}

/// Calls run(factor) with a function that returns the factor of an id's position.
template <typename V, typename Run>
void with_factors(const Tensor& factors, const Run& run) {
  if (factors)
    run([from = factors.data<V>()](int64_t i) { return from[i]; });
  else
    run([](int64_t) { return V(1); });
}

template <typename T, typename Factor>
void sum_bags(const T* from, const Bags& bags, int64_t width, const Factor& factor,
              Compute<T>* to) {
#pragma omp parallel for if (bags.size * width > kParallelAbove)
  for (int64_t bag = 0; bag < bags.count; ++bag) {
    const auto row = [&](int64_t i) { return from + bags.ids[i] * width; };
    const auto next = [&](int64_t i) { return row(std::min(i + kIdsAhead, bags.size - 1)); };
    sum_rows<T>(bags.bounds[bag], bags.bounds[bag + 1], width, row, next, factor, to + bag * width);
  }
}

template <typename T>
void bag_sum(const Tensor& weight, const Tensor& ids, const Tensor& bounds, const Tensor& factors,
             Tensor& y) {
  using V = Compute<T>;
  with_factors<V>(factors, [&](const auto& factor) {
    sum_bags(weight.data<const T>(), Bags(ids, bounds), weight.shape()[1], factor, y.data<V>());
  });
}

/// The bag of each id, and the ids of each row.
struct Owners {
  std::vector<int64_t> bags;
  SourcesByRow ids;

  Owners(const Bags& given, int64_t rows)
      : bags(static_cast<size_t>(given.size)), ids(given.ids, given.size, rows) {
    for (int64_t bag = 0; bag < given.count; ++bag)
      std::fill(bags.begin() + given.bounds[bag], bags.begin() + given.bounds[bag + 1], bag);
  }
};

template <typename T, typename Factor>
void spread_bags(const T* from, const Owners& owners, int64_t rows, int64_t width,
                 const Factor& factor, T* to) {
  const int64_t* order = owners.ids.order.data();
  const int64_t count = int64_t(owners.ids.order.size());
#pragma omp parallel for schedule(dynamic, 64) if ((rows + count) * width > kParallelAbove)
  for (int64_t row = 0; row < rows; ++row) {  // zeros for rows without ids
    const auto source = [&](int64_t k) { return from + owners.bags[size_t(order[k])] * width; };
    const auto next = [&](int64_t k) { return source(std::min(k + kIdsAhead, count - 1)); };
    const auto factor_of = [&](int64_t k) { return factor(order[k]); };
    sum_rows<T>(owners.ids.begin(row), owners.ids.end(row), width, source, next, factor_of,
                to + row * width);
  }
}

/// spread_bags() for rows of kWidth elements, without sorting the ids: sums of a range of rows are
/// collected in one buffer. Each thread reads all ids and adds those of its range.
template <int kWidth, typename T, typename Factor>
void spread_narrow_bags(const T* from, const Bags& bags, int64_t rows, const Factor& factor,
                        T* to) {
  const bool parallel = bags.size * kWidth > kParallelAbove;
  const int64_t ranges = parallel ? omp_get_max_threads() : 1;
  const int64_t range = (rows + ranges - 1) / ranges;
#pragma omp parallel for if (parallel) num_threads(int(ranges))
  for (int64_t part = 0; part < ranges; ++part) {
    const int64_t begin = std::min(part * range, rows), count = std::min(range, rows - begin);
    std::vector<BagSum<T>> sums(size_t(count * kWidth));
    for (int64_t bag = 0; bag < bags.count; ++bag)
      for (int64_t i = bags.bounds[bag]; i < bags.bounds[bag + 1]; ++i) {
        const uint64_t row = uint64_t(bags.ids[i] - begin);
        if (row >= uint64_t(count)) continue;
        for (size_t j = 0; j < kWidth; ++j)
          sums[row * kWidth + j] += BagSum<T>(from[size_t(bag) * kWidth + j] * factor(i));
      }
    for (int64_t k = 0; k < count * kWidth; ++k) to[begin * kWidth + k] = T(sums[size_t(k)]);
  }
}

template <typename T>
void bag_spread(const Tensor& dy, const Tensor& ids, const Tensor& bounds, const Tensor& factors,
                Tensor& dweight) {
  const int64_t rows = dweight.shape()[0], width = dweight.shape()[1];
  const Bags bags(ids, bounds);
  with_factors<T>(factors, [&](const auto& factor) {
    const T* from = dy.data<const T>();
    T* to = dweight.data<T>();
    if (width == 1 && rows <= 4 * bags.size)
      return spread_narrow_bags<1>(from, bags, rows, factor, to);
    if (width == 2 && rows <= 4 * bags.size)
      return spread_narrow_bags<2>(from, bags, rows, factor, to);
    if (width == 4 && rows <= 4 * bags.size)
      return spread_narrow_bags<4>(from, bags, rows, factor, to);
    spread_bags(from, Owners(bags, rows), rows, width, factor, to);
  });
}

template <typename T>
void bag_argmax(const Tensor& weight, const Tensor& ids, const Tensor& bounds, Tensor& rows) {
  using V = Compute<T>;
  const Bags bags(ids, bounds);
  const int64_t width = weight.shape()[1];
  const T* from = weight.data<T>();
  int64_t* to = rows.data<int64_t>();
#pragma omp parallel for if (bags.size * width > kParallelAbove)
  for (int64_t bag = 0; bag < bags.count; ++bag)
    for (int64_t j = 0; j < width; j += kColumns) {
      const int64_t count = std::min(kColumns, width - j);
      const int64_t begin = bags.bounds[bag], end = bags.bounds[bag + 1];
      int64_t* into = to + bag * width + j;
      if (begin == end) {
        std::fill_n(into, count, int64_t(0));
        continue;
      }
      V best[kColumns], buffer[kColumns];
      int32_t place[kColumns] = {};
      widen(from + bags.ids[begin] * width + j, count, best);
      for (int64_t i = begin + 1; i < end; ++i) {
        const V* values = load_values(from + bags.ids[i] * width + j, 1, count, buffer);
        for (int64_t c = 0; c < count; ++c) {
          const bool larger = !(best[c] >= values[c]) & (best[c] == best[c]);
          best[c] = larger ? values[c] : best[c];
          place[c] = larger ? int32_t(i - begin) : place[c];
        }
      }
      for (int64_t c = 0; c < count; ++c) into[c] = bags.ids[begin + place[c]];
    }
}

void check_bounds(const Tensor& bounds, std::string_view op, int64_t count) {
  const int64_t* at = bounds.data<int64_t>();
  for (int64_t i = 0; i < bounds.numel(); ++i)
    if (at[i] < (i == 0 ? 0 : at[i - 1]) || at[i] > count || at[0] != 0) [[unlikely]]
      fail<ArgumentError>(op, ": offset ", at[i], " of bag ", i,
                          " does not begin at 0, falls, or lies past the ", count, " indices");
}

}  // namespace

void register_embedding_bag() {
  set<kernels::bag_sum>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { bag_sum<T>(a...); });
  set<kernels::bag_spread>(TypeList<float, double>{},
                           []<typename T>(TypeTag<T>, auto&... a) { bag_spread<T>(a...); });
  set<kernels::bag_argmax>(kFloatTypes,
                           []<typename T>(TypeTag<T>, auto&... a) { bag_argmax<T>(a...); });
  set<kernels::check_bounds>(TypeList<int64_t>{}, [](auto, auto&... a) { check_bounds(a...); });
}

}  // namespace tapegrad::backends::cpu
