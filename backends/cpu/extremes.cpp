// Extremes and their positions along one dimension.
#include "backends/cpu/register.h"
#include "backends/cpu/tools/independent_rows.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/reducers.h"
#include "ops/internal/kernels/reduce.h"
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

/// Returns the first position from `i` on of an element of x that equals `value`, or that is NaN if
/// `value` is. One of the elements i to n - 1 does.
template <typename T>
[[gnu::noinline]] int64_t find_value(const T* x, int64_t i, int64_t n, Compute<T> value) {
  const auto find = [&](auto matches) {
    if constexpr (std::floating_point<T>) {
      for (; i + kLanes<T> <= n; i += kLanes<T>)
        if (xsimd::any(matches(Batch<T>::load_unaligned(x + i)))) break;
    } else {
      for (int hits = 0; i + kStripe <= n; i += kStripe) {
        for (int64_t j = i; j < i + kStripe; ++j) hits += matches(Compute<T>(x[j]));
        if (hits > 0) break;
      }
    }
    while (!matches(Compute<T>(x[i]))) ++i;
    return i;
  };
  if (value != value) return find([](auto y) { return !(y == y); });  // != of AVX-512 is ordered
  return find([value](auto y) { return y == decltype(y)(value); });
}

/// Returns the first extreme of n contiguous elements.
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
  return {best, find_value(x, start, n, best)};
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

/// Counts the equal elements of each column, or of each row if inner is 1, before it shares dy.
template <typename T>
class ExtremeGradient {
 public:
  ExtremeGradient(const Tensor& dy, const Tensor& x, const Tensor& y, Tensor& dx)
      : dy_(dy.data<T>()),
        x_(x.data<T>()),
        y_(y.data<T>()),
        dx_(dx.data<T>()),
        rows_(x.shape()[1]),
        inner_(x.shape()[2]),
        width_(std::min<int64_t>(inner_, kWidth)),
        strips_((inner_ + width_ - 1) / width_),
        lines_(x.shape()[0] * strips_),
        // A piece has at most 2^30 rows, so that its counts fit in 32 bits.
        pieces_(std::max(pieces_for(lines_, rows_ * width_, rows_), (rows_ >> 30) + 1)) {}

  void run() const {
    const bool is_large = lines_ * rows_ * width_ > kParallel;
    if (pieces_ == 1) {
      share_tasks(lines_, is_large, [this](int64_t line) {
        const Part part = part_at(line);
        Count counts[kWidth];
        std::fill_n(counts, width_, Count(0));
        count(part, counts);
        share(part, counts);
      });
      return;
    }
    std::vector<Count> all(size_t(lines_ * pieces_ * width_));
    share_tasks(lines_ * pieces_, is_large,
                [&](int64_t task) { count(part_at(task), all.data() + task * width_); });
    share_tasks(lines_ * pieces_, is_large, [&](int64_t task) {
      const Count* counts = all.data() + task / pieces_ * pieces_ * width_;
      Count totals[kWidth];
      std::fill_n(totals, width_, Count(0));
      for (int64_t i = 0; i < pieces_ * width_; ++i) totals[i % width_] += counts[i];
      share(part_at(task), totals);
    });
  }

 private:
  static constexpr int64_t kWidth = 64;                                // most columns of a strip
  using Count = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;  // as wide as T

  /// Rows of a strip of columns.
  struct Part {
    int64_t x, y;  // offsets of the first element
    int64_t rows, width;
  };

  Part part_at(int64_t task) const {
    const int64_t line = task / pieces_, piece = task % pieces_;
    const int64_t outer = line / strips_, column = line % strips_ * width_;
    const int64_t first = piece * rows_ / pieces_, last = (piece + 1) * rows_ / pieces_;
    return {(outer * rows_ + first) * inner_ + column, outer * inner_ + column, last - first,
            std::min(width_, inner_ - column)};
  }
  void count(const Part& part, Count* counts) const {
    const T *x = x_ + part.x, *y = y_ + part.y;
    if (inner_ == 1) {
      Count found = 0;
      for (int64_t i = 0; i < part.rows; ++i) found += Count(x[i] == *y);
      *counts = found;
      return;
    }
    for (int64_t i = 0; i < part.rows; ++i, x += inner_)
      for (int64_t j = 0; j < part.width; ++j) counts[j] += Count(x[j] == y[j]);
  }
  void share(const Part& part, const Count* counts) const {
    const T *x = x_ + part.x, *y = y_ + part.y;
    T *dx = dx_ + part.x, shares[kWidth], others[kWidth];
    for (int64_t j = 0; j < part.width; ++j) {
      shares[j] = dy_[part.y + j] / T(counts[j]);
      others[j] = 0 * shares[j];  // NaN for the extreme of a NaN
    }
    if (inner_ == 1) {
      for (int64_t i = 0; i < part.rows; ++i) dx[i] = x[i] == *y ? shares[0] : others[0];
      return;
    }
    for (int64_t i = 0; i < part.rows; ++i, x += inner_, dx += inner_)
      for (int64_t j = 0; j < part.width; ++j) dx[j] = x[j] == y[j] ? shares[j] : others[j];
  }

  const T *dy_, *x_, *y_;
  T* dx_;
  int64_t rows_, inner_, width_, strips_, lines_, pieces_;
};

}  // namespace

void register_extremes() {
  constexpr TypeList<float, double> kTypes;
  set<kernels::extreme_backward>(
      kTypes, []<typename T>(TypeTag<T>, auto&... a) { ExtremeGradient<T>(a...).run(); });
  set_independent_rows<kernels::extreme_backward, 0b1111,
                       [](const Tensor&, const Tensor& x, const Tensor&, const Tensor&) {
                         return rows_along(x);
                       }>(kTypes);
  set<kernels::extreme>(kNumberTypes, []<typename T>(TypeTag<T>, auto&... a) { extreme<T>(a...); });
  set<kernels::cumsum>(kSummedTypes, []<typename T>(TypeTag<T>, auto&... a) { sum_up<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
