#include "backends/cpu/fast/products_summed.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/short_rows.h"
#include "backends/cpu/tools/transpose.h"
#include "backends/cpu/tools/wide_sum.h"

namespace tapegrad::backends::cpu {
namespace {

using ProductLoop = ProductLoops::Loop;
using ProductNest = ProductLoops::Nest;

/// The offsets of the factors and the result in successive iterations of some loops.
class ProductWalk {
 public:
  ProductWalk(const ProductNest& nest, int64_t first) : nest_(nest) {
    for (int i = nest.rank - 1; i >= 0; --i) {
      const ProductLoop& loop = nest.loops[size_t(i)];
      const int64_t at = i > 0 ? first % loop.size : first;
      index_[size_t(i)] = at;
      a += at * loop.a, b += at * loop.b, y += at * loop.y;
      first /= loop.size;
    }
  }
  void next() {
    for (int i = nest_.rank - 1; i >= 0; --i) {
      const ProductLoop& loop = nest_.loops[size_t(i)];
      a += loop.a, b += loop.b, y += loop.y;
      if (i == 0 || ++index_[size_t(i)] < loop.size) return;
      a -= loop.size * loop.a, b -= loop.size * loop.b, y -= loop.size * loop.y;
      index_[size_t(i)] = 0;
    }
  }

  int64_t a = 0, b = 0, y = 0;

 private:
  const ProductNest& nest_;
  std::array<int64_t, kMaxRank> index_;
};

/// Returns kFloats elements of a factor, or one element in all lanes.
template <bool kIsOne>
Floats factor(const float* x) {
  if constexpr (kIsOne)
    return Floats{} + *x;
  else
    return load_vector<Floats>(x);
}

/// Returns the lanes of the sum of the products of a row, as lanes_of_row() in reduce.cpp.
template <bool kIsOne>
Doubles lanes_of_products(const float* a, const float* b, int64_t n) {
  Doubles lower{}, upper{};
  const auto add = [&](Floats values) {
    const WideFloats wide(values);
    lower += wide.lower, upper += wide.upper;
  };
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats)
    add(factor<kIsOne>(kIsOne ? a : a + i) * load_vector<Floats>(b + i));
  if (i < n) {
    const auto last = [&](const float* x) {
      return Floats(load_first(x, n - i, Batch<float>(0.0f)).data);
    };
    alignas(64) float products[kFloats];  // an infinite factor makes NaN of the other lanes
    const Floats all = (kIsOne ? factor<true>(a) : last(a + i)) * last(b + i);
    std::memcpy(products, &all, sizeof(all));
    add(last(products));
  }
  return lower + upper;
}

/// Sums each row of the columns' loop.
template <bool kIsOne>
void sum_product_rows(const ProductLoops& loops, const float* a, const float* b, float* y) {
  const int64_t rows = loops.kept.count(), n = loops.columns.inner().size;
  const int64_t together = std::max<int64_t>(1, 8192 / (kDoubles * n)) * kDoubles;
  share_tasks((rows + together - 1) / together, rows * n >= kParallel, [&](int64_t task) {
    const int64_t end = std::min(rows, (task + 1) * together);
    ProductWalk at(loops.kept, task * together);
    for (int64_t row = task * together; row < end; row += kDoubles) {
      const int64_t count = std::min<int64_t>(kDoubles, end - row);
      Doubles lanes[kDoubles] = {};
      for (int64_t r = 0; r < count; ++r, at.next())
        lanes[r] = lanes_of_products<kIsOne>(a + at.a, b + at.b, n);
      const Doubles totals =
          combine_lanes<double>(lanes, [](Doubles p, Doubles q) { return p + q; });
      for (int64_t r = 0; r < count; ++r) y[row + r] = float(totals[r]);
    }
  });
}

/// Offsets of a vector of columns in the rows of the factors and in the sums.
struct ProductVector {
  int64_t a, b, sums;
};

/// Adds the products of `rows` rows to the sums of kVectors vectors of columns; the sums begin with
/// 0 if `is_first`.
template <bool kIsOne, int kVectors>
void add_product_vectors(const float* a, const float* b, const ProductLoop& row, int64_t rows,
                         const ProductVector* vectors, bool is_first, double* sums) {
  Doubles lower[kVectors], upper[kVectors];
  unrolled<kVectors>([&](auto v) {
    lower[v()] = upper[v()] = Doubles{};
    if (is_first) return;
    std::memcpy(&lower[v()], sums + vectors[v()].sums, sizeof(Doubles));
    std::memcpy(&upper[v()], sums + vectors[v()].sums + kDoubles, sizeof(Doubles));
  });
  for (int64_t i = 0; i < rows; ++i, a += row.a, b += row.b)
    unrolled<kVectors>([&](auto v) {
      const float* from = b + vectors[v()].b;
      fetch(from + kFetchAhead / int64_t(sizeof(float)));
      const WideFloats wide(factor<kIsOne>(a + vectors[v()].a) * load_vector<Floats>(from));
      lower[v()] += wide.lower, upper[v()] += wide.upper;
    });
  unrolled<kVectors>([&](auto v) {
    std::memcpy(sums + vectors[v()].sums, &lower[v()], sizeof(Doubles));
    std::memcpy(sums + vectors[v()].sums + kDoubles, &upper[v()], sizeof(Doubles));
  });
}

/// Adds the products of rows to the sums of `count` vectors. The last two are added together: they
/// overlap if there is no whole number of vectors in a row.
template <bool kIsOne>
void add_product_rows(const float* a, const float* b, const ProductLoop& row, int64_t rows,
                      const ProductVector* vectors, int64_t count, bool is_first, double* sums) {
  const auto add = [&]<int k>(std::integral_constant<int, k>) {
    add_product_vectors<kIsOne, k>(a, b, row, rows, vectors, is_first, sums);
    vectors += k, count -= k;
  };
  while (count == 4 || count >= 6) add(std::integral_constant<int, 4>());
  if (count >= 3) add(std::integral_constant<int, 3>());
  if (count == 2) add(std::integral_constant<int, 2>());
  if (count == 1) add(std::integral_constant<int, 1>());
}

/// Sums over rows, in the order of ColumnReduction.
template <bool kIsOne>
class ProductColumns {
 public:
  ProductColumns(const ProductLoops& loops, const float* a, const float* b, float* y)
      : loops_(loops),
        a_(a),
        b_(b),
        y_(y),
        rows_(loops.reduced.count()),
        columns_(loops.columns.count()),
        blocks_((columns_ + kBlock - 1) / kBlock),
        width_(std::min(columns_, kBlock)),
        strips_(loops.kept.count() * blocks_),
        pieces_(pieces_for(strips_, rows_ * width_, (rows_ + kRowsAtOnce - 1) / kRowsAtOnce)) {}

  void run() const {
    const bool pays = strips_ * rows_ * width_ > kParallel;
    if (blocks_ == 1 && pieces_ == 1) {
      const int64_t together = outputs_together(rows_ * width_);
      return share_tasks((strips_ + together - 1) / together, pays, [&](int64_t task) {
        const int64_t end = std::min(strips_, (task + 1) * together);
        double totals[kBlock];
        ProductWalk at(loops_.kept, task * together);
        for (int64_t strip = task * together; strip < end; ++strip, at.next()) {
          sum_rows(at, 0, columns_, 0, rows_, totals);
          write(at, 0, columns_, totals);
        }
      });
    }
    std::vector<double> parts(size_t(strips_ * pieces_ * width_));
    share_tasks(strips_ * pieces_, pays, [&](int64_t task) {
      const int64_t piece = task % pieces_, strip = task / pieces_, first = first_column(strip);
      sum_rows(ProductWalk(loops_.kept, strip / blocks_), first, columns_from(first),
               piece * rows_ / pieces_, (piece + 1) * rows_ / pieces_,
               parts.data() + task * width_);
    });
    for (int64_t strip = 0; strip < strips_; ++strip) {
      double* totals = parts.data() + strip * pieces_ * width_;
      for (int64_t piece = 1; piece < pieces_; ++piece)
        for (int64_t j = 0; j < width_; ++j) totals[j] += totals[piece * width_ + j];
      const int64_t first = first_column(strip);
      write(ProductWalk(loops_.kept, strip / blocks_), first, columns_from(first), totals);
    }
  }

 private:
  int64_t first_column(int64_t strip) const { return strip % blocks_ * kBlock; }
  int64_t columns_from(int64_t first) const { return std::min(kBlock, columns_ - first); }

  void write(const ProductWalk& at, int64_t first, int64_t n, const double* totals) const {
    float* y = y_ + at.y + first;
    for (int64_t j = 0; j < n; ++j) y[j] = float(totals[j]);
  }

  /// Sums the rows [begin, end) of n columns.
  void sum_rows(const ProductWalk& at, int64_t first, int64_t n, int64_t begin, int64_t end,
                double* totals) const {
    if (end - begin <= kRowsAtOnce) return add_rows(at, first, n, begin, end, totals);
    double sums[kBlock];
    std::fill_n(totals, n, 0.0);
    for (int64_t last; begin < end; begin = last) {
      last = std::min(end, begin + kRowsAtOnce);
      add_rows(at, first, n, begin, last, sums);
      for (int64_t j = 0; j < n; ++j) totals[j] += sums[j];
    }
  }

  /// The vectors of some columns.
  struct Vectors {
    std::array<ProductVector, 2 * kBlock / kFloats> all;
    int64_t count = 0, in_row = 0;  // in all rows of columns, in one
  };
  Vectors vectors_of(int64_t n) const {
    const ProductLoop& column = loops_.columns.inner();
    const int64_t length = std::min(n, column.size);
    ProductNest around = loops_.columns;
    --around.rank;
    ProductWalk to(around, 0);  // if there are several blocks, nothing is around the columns
    Vectors found;
    found.in_row = (length + kFloats - 1) / kFloats;
    for (int64_t done = 0; done < n; done += length, to.next())
      for (int64_t j = 0; j < length; j += kFloats) {
        const int64_t from = std::min(j, length - kFloats);
        found.all[size_t(found.count++)] = {to.a + from * column.a, to.b + from, done + from};
      }
    return found;
  }

  /// Computes the sums of the products of the rows [begin, end) of n columns.
  void add_rows(const ProductWalk& at, int64_t first, int64_t n, int64_t begin, int64_t end,
                double* sums) const {
    if (n == width_) return add_rows(at, first, vectors_, begin, end, sums);
    add_rows(at, first, vectors_of(n), begin, end, sums);
  }
  void add_rows(const ProductWalk& at, int64_t first, const Vectors& vectors, int64_t begin,
                int64_t end, double* sums) const {
    const ProductLoop& row = loops_.reduced.inner();
    const float* a = a_ + at.a + first * loops_.columns.inner().a;
    const float* b = b_ + at.b + first;
    if (loops_.reduced.rank == 1)
      return add_product_rows<kIsOne>(a + begin * row.a, b + begin * row.b, row, end - begin,
                                      vectors.all.data(), vectors.count, true, sums);
    for (int64_t v = 0; v < vectors.count; v += vectors.in_row)
      for (int64_t i = begin, rows; i < end; i += rows) {
        rows = std::min(end - i, row.size - i % row.size);
        const ProductWalk from(loops_.reduced, i);
        add_product_rows<kIsOne>(a + from.a, b + from.b, row, rows, vectors.all.data() + v,
                                 vectors.in_row, i == begin, sums);
      }
  }

  const ProductLoops& loops_;
  const float *a_, *b_;
  float* y_;
  const int64_t rows_, columns_, blocks_, width_, strips_, pieces_;
  const Vectors vectors_ = vectors_of(width_);
};

}  // namespace

int64_t ProductLoops::Nest::count() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= loops[size_t(i)].size;
  return count;
}

std::optional<ProductLoops> ProductsInRegisters::accepts(const Tensor& a, const Tensor& b,
                                                         const Tensor& y) {
  for (const Tensor* x : {&a, &b, &y})
    if (x->dtype() != f32) return {};
  if (a.numel() == 0 || !y.is_contiguous()) return {};
  ProductLoops found;
  const ProductNest* last = nullptr;  // of the loop within
  int64_t kept = 1;
  for (int i = a.rank() - 1; i >= 0; --i) {  // nests have the innermost loop first
    const int64_t size = a.shape()[i];
    if (size == 1) continue;
    const bool is_kept = y.shape()[i] == size;
    if (last == nullptr) found.by_rows = !is_kept;
    const bool is_column = is_kept != found.by_rows && (last == nullptr || last == &found.columns);
    if (found.by_rows && !is_kept && !is_column) return {};
    ProductNest& nest = is_column ? found.columns : is_kept ? found.kept : found.reduced;
    const ProductLoop loop{size, a.strides()[i], b.strides()[i], is_kept ? kept : 0};
    if (is_kept) kept *= size;
    ProductLoop* within = std::exchange(last, &nest) == &nest ? &nest.inner() : nullptr;
    if (within != nullptr && loop.a == within->a * within->size &&
        loop.b == within->b * within->size)
      within->size *= size;
    else
      nest.push(loop);
  }
  if (last == nullptr || (!found.by_rows && found.reduced.rank == 0)) return {};
  for (ProductNest* nest : {&found.kept, &found.reduced, &found.columns})
    std::reverse(nest->loops.begin(), nest->loops.begin() + nest->rank);
  const ProductLoop inner = found.columns.inner();
  // While a step is recorded, its values have no memory yet, as packed ones. Separate calls of a
  // product and a sum can join a segment, which pays off more if the columns are few.
  const bool is_packed = a.storage().is_packed() || b.storage().is_packed();
  if (is_packed &&
      (found.by_rows || inner.size < 2 * kFloats || (a.is_contiguous() && b.is_contiguous())))
    return {};
  const bool is_long = found.columns.count() > (found.by_rows ? kMiddleRow : kBlock);
  if (inner.size < kFloats || (is_long && found.by_rows) ||
      (found.columns.rank > 1 && (is_long || found.by_rows)))
    return {};
  if (is_long && found.columns.count() % kBlock < kFloats && found.columns.count() % kBlock > 0)
    return {};
  found.is_swapped = inner.b != 1;
  if (found.is_swapped)
    for (ProductNest* nest : {&found.kept, &found.reduced, &found.columns})
      for (ProductLoop& loop : nest->loops) std::swap(loop.a, loop.b);
  const ProductLoop& steps = found.columns.inner();
  if (steps.b != 1 || (steps.a != 0 && steps.a != 1)) return {};
  return found;
}

void ProductsInRegisters::run(TypeTag<float>, const ProductLoops& loops, const Tensor& a,
                              const Tensor& b, Tensor& y) {
  const float *first = a.data<float>(), *second = b.data<float>();
  if (loops.is_swapped) std::swap(first, second);
  float* sums = y.data<float>();
  const bool is_one = loops.columns.inner().a == 0;
  if (loops.by_rows)
    (is_one ? sum_product_rows<true> : sum_product_rows<false>)(loops, first, second, sums);
  else if (is_one)
    ProductColumns<true>(loops, first, second, sums).run();
  else
    ProductColumns<false>(loops, first, second, sums).run();
}

}  // namespace tapegrad::backends::cpu
