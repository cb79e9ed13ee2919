// Common frame of all reductions, whose loops reduce_plan.h selects. Elements are combined in
// `Part`s of at most kBlock elements; Parts are combined in `Total`s, which may have a wider type.
// The order of combination depends only on the sizes, never on the number of threads.
// reduce_block.h describes reducers.
#pragma once

#include <algorithm>
#include <vector>

#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/reduce_block.h"
#include "backends/cpu/tools/reduce_plan.h"
#include "backends/cpu/tools/reduce_strips.h"
#include "backends/cpu/tools/share.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

inline constexpr int64_t kRowsAtOnce = 256;          // rows reduced before Parts join Totals
inline constexpr int64_t kStripe = 64;               // columns between two prefetches
inline constexpr int64_t kPiece = int64_t(1) << 16;  // elements per task, approximately

/// Rows that are added to a Part in one pass. One row of integers, because every further instance
/// adds code for every R.
template <typename Value>
inline constexpr int kRowsTogether = std::is_floating_point_v<Value> ? 4 : 1;

/// Computes the products of n elements, n <= kBlock, which are rounded to T, as values of type
/// Compute<T>.
template <typename T>
void load_products(const T* a, const T* b, int64_t step, int64_t n, Compute<T>* products) {
  alignas(64) Compute<T> buffers[2][kBlock];
  const Compute<T>* x = load_values(a, step, n, buffers[0]);
  const Compute<T>* y = load_values(b, step, n, buffers[1]);
  for (int64_t i = 0; i < n; ++i) products[i] = Compute<T>(convert<T>(x[i] * y[i]));
}

/// Returns n elements of x with stride `step`, n <= kBlock, as contiguous values: x itself if
/// possible, else `buffer`, into which they are converted.
template <typename Value, typename T>
const Value* load_as(const T* x, int64_t step, int64_t n, Value* buffer) {
  if constexpr (std::is_same_v<Value, Compute<T>>) {
    return load_values(x, step, n, buffer);
  } else {
    alignas(64) Compute<T> wide[kBlock];
    const Compute<T>* values = load_values(x, step, n, wide);
    for (int64_t i = 0; i < n; ++i) buffer[i] = Value(values[i]);
    return buffer;
  }
}

/// The elements of a tensor, or the products of the elements of two tensors of one layout, as
/// values of a reducer. One type for all element types that are converted to Value, so that each
/// reducer is compiled once for them.
template <typename Value>
class Elements {
 public:
  template <typename T>
  Elements(TypeTag<T>, const Tensor& x)
      : data_(x.data<T>()),
        element_bytes_(sizeof(T)),
        is_plain_(std::is_same_v<T, Value>),
        convert_(
            [](const void* data, const void*, int64_t at, int64_t step, int64_t n, Value* buffer) {
              return load_as(static_cast<const T*>(data) + at, step, n, buffer);
            }) {}
  /// Products, which are rounded to T.
  template <typename T>
  Elements(TypeTag<T>, const Tensor& a, const Tensor& b)
      : data_(a.data<T>()),
        factors_(b.data<T>()),
        element_bytes_(sizeof(T)),
        is_plain_(false),
        convert_([](const void* a, const void* b, int64_t at, int64_t step, int64_t n,
                    Value* buffer) -> const Value* {
          load_products(static_cast<const T*>(a) + at, static_cast<const T*>(b) + at, step, n,
                        buffer);
          return buffer;
        }) {}

  /// Returns load_values() of n elements from `at` on.
  const Value* load(int64_t at, int64_t step, int64_t n, Value* buffer) const {
    if (is_plain_ && step == 1) return static_cast<const Value*>(data_) + at;
    return convert_(data_, factors_, at, step, n, buffer);
  }
  /// Returns whether load() returns elements in place if their step is 1.
  bool is_plain() const { return is_plain_; }
  /// Prefetches n elements from `at` on, or more if they are smaller than a Value.
  void prefetch(int64_t at, int64_t n) const {
    for (const void* data : {data_, factors_})
      if (data != nullptr)
        fetch_run(static_cast<const std::byte*>(data) + at * element_bytes_,
                  n * int64_t(sizeof(Value)));
  }

 private:
  const void* data_;
  const void* factors_ = nullptr;  // null: data_ has the values
  int64_t element_bytes_;
  bool is_plain_;  // the elements have type Value
  const Value* (*convert_)(const void*, const void*, int64_t, int64_t, int64_t, Value*);
};

/// A reference to a function write(index in y, total), which several threads call.
template <typename Total>
class TotalWriter {
 public:
  template <typename Write>
  TotalWriter(const Write& write)
      : write_(&write),
        row_([](const void* function, int64_t first, int64_t step, const Total* totals, int64_t n) {
          const Write& write = *static_cast<const Write*>(function);
          if (step == 1)  // vectorises
            for (int64_t j = 0; j < n; ++j) write(first + j, totals[j]);
          else
            for (int64_t j = 0; j < n; ++j) write(first + j * step, totals[j]);
        }) {}

  /// Writes n totals to the outputs first, first + step, ...
  void operator()(int64_t first, int64_t step, const Total* totals, int64_t n) const {
    row_(write_, first, step, totals, n);
  }

 private:
  const void* write_;
  void (*row_)(const void*, int64_t, int64_t, const Total*, int64_t);
};

/// Returns the number of tasks, at most `most`, that share one output (or row of outputs) of `size`
/// elements: no task is smaller than kPiece, and all outputs together have about 64 tasks.
inline int64_t pieces_for(int64_t outputs, int64_t size, int64_t most) {
  const int64_t enough = (63 + outputs) / outputs;
  return std::clamp(size / kPiece, int64_t(1), std::min(most, enough));
}

/// Returns the number of outputs, of `size` elements each, that share a task.
inline int64_t outputs_together(int64_t size) { return std::max<int64_t>(1, kPiece / 8 / size); }

/// Reduces few contiguous rows, in the order of reduce_rows().
template <typename R>
void reduce_some_rows(const R& r, const Elements<typename R::Value>& x, int64_t rows, int64_t n,
                      const double* centres, const TotalWriter<typename R::Total>& write) {
  using Total = typename R::Total;
  constexpr int64_t kTogether = 64;
  alignas(64) typename R::Value buffer[kBlock];
  Total totals[kTogether];
  for (int64_t first = 0; first < rows; first += kTogether) {
    const int64_t together = std::min(kTogether, rows - first);
    for (int64_t j = 0; j < together; ++j) {
      const double centre = Centred<R> ? centres[first + j] : 0.0;
      Total total = Total(R::kFirst);
      for (int64_t i = 0; i < n; i += kBlock) {
        const int64_t count = std::min(kBlock, n - i);
        const auto* values = x.load((first + j) * n + i, 1, count, buffer);
        total = r.join(total, reduce_block(r, values, count, centre));
      }
      totals[j] = r.repeat(total, 1);
    }
    write(first, 1, totals, together);
  }
}

/// Reduction along rows: each output combines rows of memory. If there are few outputs, the rows of
/// an output are divided into pieces, one task each.
template <typename R>
void reduce_rows(const R& r, const Elements<typename R::Value>& x, const ReductionPlan& plan,
                 const double* centres, const TotalWriter<typename R::Total>& write) {
  using Total = typename R::Total;
  Nest rows = plan.reduced;
  const Axis row = rows.pop();
  const int64_t outputs = plan.kept.count();
  const int64_t blocks = (row.size + kBlock - 1) / kBlock;  // blocks per row
  const int64_t units = rows.count() * blocks;
  const int64_t pieces = pieces_for(outputs, rows.count() * row.size, units);
  std::vector<Total> parts(pieces > 1 ? outputs * pieces : 0);
  const auto total_of = [&](Nest::Offsets at, int64_t first, int64_t last) {
    const double centre = Centred<R> ? centres[at.out] : 0.0;
    alignas(64) typename R::Value buffer[kBlock];
    Total total = Total(R::kFirst);
    if (units == 1) {  // without divisions
      const auto* values = x.load(at.in, row.step, row.size, buffer);
      return r.repeat(r.join(total, reduce_block(r, values, row.size, centre)), plan.repeats);
    }
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t start = unit % blocks * kBlock;
      const int64_t n = std::min(kBlock, row.size - start);
      const int64_t from = at.in + rows.at(unit / blocks).in + start * row.step;
      total = r.join(total, reduce_block(r, x.load(from, row.step, n, buffer), n, centre));
    }
    return r.repeat(total, plan.repeats);
  };
  const int64_t size = units * std::min(row.size, kBlock);
  const int64_t together = pieces == 1 ? outputs_together(size) : 1;
  const auto run = [&](int64_t task) __attribute__((noinline)) {
    if (pieces > 1) {
      const int64_t piece = task % pieces;
      parts[task] = total_of(plan.kept.at(task / pieces), piece * units / pieces,
                             (piece + 1) * units / pieces);
      return;
    }
    // Totals of outputs with a constant step are written together.
    constexpr int64_t kMost = 64;
    const int64_t most = plan.kept.rank == 1 ? kMost : 1;
    const int64_t step = plan.kept.rank == 1 ? plan.kept.inner().out_step : 1;
    Total totals[kMost];
    Nest::Walk walk(plan.kept, task * together);
    int64_t left = std::min(together, outputs - task * together);
    while (left > 0) {
      const int64_t n = std::min(most, left), first = walk.at().out;
      for (int64_t j = 0; j < n; ++j, walk.next()) totals[j] = total_of(walk.at(), 0, units);
      write(first, step, totals, n);
      left -= n;
    }
  };
  share_tasks((outputs * pieces + together - 1) / together, outputs * size > kParallel, run);
  if (pieces == 1) return;
  for (int64_t output = 0; output < outputs; ++output) {
    Total total = Total(R::kFirst);
    for (int64_t i = 0; i < pieces; ++i) total = r.join(total, parts[output * pieces + i]);
    write(plan.kept.at(output).out, 1, &total, 1);
  }
}

/// Reduction along columns. The columns of a row of outputs are divided into strips of up to kBlock
/// columns. The rows of large strips are divided into pieces, one task each; at the end the totals
/// of the pieces are joined.
template <typename R>
class ColumnReduction {
  using Value = typename R::Value;
  using Part = typename R::Part;
  using Total = typename R::Total;

 public:
  ColumnReduction(const R& r, const Elements<Value>& x, const ReductionPlan& plan,
                  const double* centres, const TotalWriter<Total>& write)
      : r_(r), x_(x), plan_(plan), centres_(centres), write_(write), outer_(plan.kept) {
    columns_ = outer_.pop();
    rows_ = plan.reduced.count();
    row_step_ = plan.reduced.rank == 1 ? plan.reduced.inner().step : 0;
    is_dense_ = columns_.size < kFewColumns && columns_.step == 1 && row_step_ == columns_.size;
    blocks_ = (columns_.size + kBlock - 1) / kBlock;
    strips_ = outer_.count() * blocks_;
    width_ = std::min(columns_.size, kBlock);
    pieces_ = pieces_for(strips_, rows_ * width_, (rows_ + kRowsAtOnce - 1) / kRowsAtOnce);
    if (pieces_ > 1) piece_totals_.resize(strips_ * pieces_ * width_);
  }

  void run() {
    int64_t together = pieces_ == 1 && blocks_ == 1 ? outputs_together(rows_ * width_) : 1;
    if (in_lanes()) together = (together + kStripsTogether - 1) / kStripsTogether * kStripsTogether;
    const auto run_one = [&](int64_t task) __attribute__((noinline)) { run_task(task, together); };
    share_tasks((strips_ * pieces_ + together - 1) / together, strips_ * rows_ * width_ > kParallel,
                run_one);
    if (pieces_ > 1) join_pieces();
  }

 private:
  static constexpr int kTogether = kRowsTogether<Value>;

  /// A task is one piece of a strip, or `together` strips of whole rows.
  void run_task(int64_t task, int64_t together) {
    if (pieces_ > 1 || blocks_ > 1) {
      const int64_t piece = task % pieces_, strip = task / pieces_;
      return reduce_strip(outer_.at(strip / blocks_), strip % blocks_ * kBlock,
                          piece * rows_ / pieces_, (piece + 1) * rows_ / pieces_,
                          pieces_ > 1 ? piece_totals_.data() + task * width_ : nullptr);
    }
    const int64_t end = std::min(strips_, (task + 1) * together);
    Nest::Walk walk(outer_, task * together);
    if constexpr (CombinesDoubles<R>)
      if (in_lanes()) return reduce_in_lanes(walk, end - task * together);
    for (int64_t i = task * together; i < end; ++i, walk.next())
      reduce_strip(walk.at(), 0, 0, rows_, nullptr);
  }

  /// Returns whether several strips are reduced at once.
  bool in_lanes() const {
    return CombinesDoubles<R> && is_dense_ && pieces_ == 1 && strips_ >= kFewestStrips;
  }
  /// Reduces `count` strips from the place of the walk on.
  void reduce_in_lanes(Nest::Walk& walk, int64_t count) const {
    const int64_t n = columns_.size;
    for (int64_t done = 0; done < count; done += kStripsTogether) {
      const int64_t strips = std::min(kStripsTogether, count - done);
      int64_t starts[kStripsTogether], outputs[kStripsTogether];
      for (int64_t s = 0; s < strips; ++s, walk.next())
        starts[s] = walk.at().in, outputs[s] = walk.at().out;
      Total totals[kStripsTogether * kFewColumns];
      reduce_strips(r_, x_, starts, strips, rows_, n, kRowsAtOnce, totals);
      if (plan_.repeats != 1)
        for (int64_t i = 0; i < strips * n; ++i) totals[i] = r_.repeat(totals[i], plan_.repeats);
      for (int64_t s = 0; s < strips; ++s) write_(outputs[s], columns_.out_step, totals + s * n, n);
    }
  }

  /// Reduces the rows [begin, end) of the strip that begins with column `first`. Stores the totals
  /// in `piece`, or in the outputs if `piece` is null.
  void reduce_strip(Nest::Offsets at, int64_t first, int64_t begin, int64_t end,
                    Total* piece) const {
    const int64_t n = std::min(kBlock, columns_.size - first);
    alignas(64) Value buffer[kTogether][kBlock];
    Part parts[kBlock];
    Total totals[kBlock];
    double centre[Centred<R> ? kBlock : 1] = {};
    if constexpr (Centred<R>)
      for (int64_t j = 0; j < n; ++j)
        centre[j] = centres_[at.out + (first + j) * columns_.out_step];
    const bool once = end - begin <= kRowsAtOnce;  // then the Parts are the Totals
    if (!once) std::fill_n(totals, n, Total(R::kFirst));
    const int64_t base = at.in + first * columns_.step;
    for (int64_t start = begin, last; start < end; start = last) {
      const int64_t runs = runs_together(end - start, n);
      last = std::min(end, start + runs * kRowsAtOnce);
      if (runs > 1 || in_registers(n)) {
        if constexpr (CombinesDoubles<R>)
          reduce_runs(base, start, runs, (last - start) / runs, n, buffer[0], parts);
      } else {
        std::fill_n(parts, n, R::kFirst);
        add_all_rows(base, start, last, n, centre, buffer, parts);
      }
      if (!once)
        for (int64_t run = 0; run < runs; ++run)
          for (int64_t j = 0; j < n; ++j) totals[j] = r_.join(totals[j], Total(parts[run * n + j]));
    }
    if (once) std::copy_n(parts, n, totals);
    if (plan_.repeats != 1)
      for (int64_t j = 0; j < n; ++j) totals[j] = r_.repeat(totals[j], plan_.repeats);
    if (piece != nullptr)
      std::copy_n(totals, n, piece);
    else
      write_(at.out + first * columns_.out_step, columns_.out_step, totals, n);
  }

  /// Returns whether reduce_columns() reduces n columns: if the rows are short, and are read where
  /// they are.
  bool in_registers(int64_t n) const {
    return CombinesDoubles<R> && !is_dense_ && n >= kDoubles && n <= kStripe &&
           columns_.step == 1 && row_step_ != 0 && x_.is_plain();
  }
  /// Returns the number of runs of kRowsAtOnce rows that are reduced together, each to a Part of
  /// each column.
  int64_t runs_together(int64_t rows, int64_t n) const {
    const int64_t runs = rows / kRowsAtOnce;
    if (!CombinesDoubles<R>) return 1;
    if (is_dense_) return runs >= kFewestStrips ? std::min(runs, kStripsTogether) : 1;
    return runs >= kRunsTogether && n <= 2 * kDoubles && in_registers(n) ? kRunsTogether : 1;
  }
  /// Reduces runs_together() runs of rows, from row `start` on. parts: n for each run.
  void reduce_runs(int64_t base, int64_t start, int64_t runs, int64_t rows, int64_t n,
                   Value* buffer, Part* parts) const requires(CombinesDoubles<R>) {
    if (!is_dense_)
      return reduce_columns<R>(x_.load(row(base, start), 1, n, buffer), row_step_, runs, rows, n,
                               parts);
    int64_t starts[kStripsTogether];
    for (int64_t run = 0; run < runs; ++run) starts[run] = row(base, start + run * rows);
    reduce_strips(r_, x_, starts, runs, rows, n, rows, parts);
  }

  /// Returns the offset of row i of a strip whose first row is at `base`.
  int64_t row(int64_t base, int64_t i) const {
    return base + (row_step_ != 0 ? i * row_step_ : plan_.reduced.at(i).in);
  }

  /// Adds the rows [i, last) of n columns to the Parts of the columns.
  [[gnu::always_inline]] void add_all_rows(int64_t base, int64_t i, int64_t last, int64_t n,
                                           const double* centre, Value (&buffer)[kTogether][kBlock],
                                           Part* parts) const {
    if (is_dense_) return add_dense_rows(base, i, last, n, centre, buffer[0], parts);
    for (; i + kTogether <= last; i += kTogether)
      add_rows<kTogether>(base, i, n, centre, buffer, parts);
    if constexpr (kTogether > 1)
      for (; i < last; ++i) add_rows<1>(base, i, n, centre, buffer, parts);
  }

  /// Adds kRows rows of n columns, from row i on, to the Parts of the columns.
  template <int kRows>
  [[gnu::always_inline]] void add_rows(int64_t base, int64_t i, int64_t n, const double* centre,
                                       Value (&buffer)[kTogether][kBlock], Part* parts) const {
    const Value* values[kRows];
    int64_t next[kRows];  // rows to prefetch
    unrolled<kRows>([&](auto k) {
      values[k] = x_.load(row(base, i + k), columns_.step, n, buffer[k]);
      if (n >= kStripe) next[k] = row(base, std::min(i + kRows + k, rows_ - 1));
    });
    int64_t j = 0;
    for (; j + kStripe <= n; j += kStripe) {
      if (columns_.step == 1) unrolled<kRows>([&](auto k) { x_.prefetch(next[k] + j, kStripe); });
      add_columns(values, j, j + kStripe, centre, parts);
    }
    add_columns(values, j, n, centre, parts);
  }

  /// Adds the columns [from, to) of several rows to the Parts of the columns.
  template <int kRows>
  void add_columns(const Value* const (&values)[kRows], int64_t from, int64_t to,
                   const double* centre, Part* parts) const {
    if constexpr (requires { r_.add_rows(parts, values, from, to); })
      r_.add_rows(parts, values, from, to);
    else
      for (int64_t j = from; j < to; ++j)
        unrolled<kRows>([&](auto k) {
          parts[j] = add_value(r_, parts[j], values[k][j], centre[Centred<R> ? j : 0]);
        });
  }

  /// Adds the rows [i, last) of n columns, which follow each other in memory, to the Parts of the
  /// columns. Loads as many rows at once as `buffer` has room for.
  [[gnu::always_inline]] void add_dense_rows(int64_t base, int64_t i, int64_t last, int64_t n,
                                             const double* centre, Value* buffer,
                                             Part* parts) const {
    for (int64_t count; i < last; i += count) {
      count = std::min(last - i, kBlock / n);
      const Value* values = x_.load(row(base, i), 1, count * n, buffer);
      for (int64_t j = 0; j < n; ++j) {
        Part part = parts[j];
        for (int64_t k = 0; k < count; ++k)
          part = add_value(r_, part, values[k * n + j], centre[Centred<R> ? j : 0]);
        parts[j] = part;
      }
    }
  }

  void join_pieces() const {
    std::vector<Total> totals(width_);
    for (int64_t strip = 0; strip < strips_; ++strip) {
      const int64_t first = strip % blocks_ * kBlock;
      const int64_t n = std::min(kBlock, columns_.size - first);
      const Total* piece = piece_totals_.data() + strip * pieces_ * width_;
      std::fill_n(totals.begin(), n, Total(R::kFirst));
      for (int64_t i = 0; i < pieces_; ++i, piece += width_)
        for (int64_t j = 0; j < n; ++j) totals[size_t(j)] = r_.join(totals[size_t(j)], piece[j]);
      write_(outer_.at(strip / blocks_).out + first * columns_.out_step, columns_.out_step,
             totals.data(), n);
    }
  }

  const R& r_;
  const Elements<Value>& x_;
  const ReductionPlan& plan_;
  const double* centres_;
  const TotalWriter<Total>& write_;

  Nest outer_;  // the kept loops around the columns
  Axis columns_;
  int64_t rows_;
  int64_t row_step_;  // 0 if the step between rows is not constant
  bool is_dense_;     // few columns of rows that follow each other in memory
  int64_t blocks_;    // strips per row of outputs
  int64_t strips_;
  int64_t width_;                    // columns of the widest strip
  int64_t pieces_;                   // per strip
  std::vector<Total> piece_totals_;  // by strip, piece and column; empty if pieces_ is 1
};

/// reduce(), compiled once for all element types of x.
template <typename R>
void reduce_elements(const R& r, const Elements<typename R::Value>& values, const Tensor& x,
                     const Tensor& y, const TotalWriter<typename R::Total>& write,
                     const double* centres) {
  if (x.numel() == 0) {
    const typename R::Total none(R::kFirst);
    for (int64_t i = 0; i < y.numel(); ++i) write(i, 1, &none, 1);
    return;
  }
  if (const int64_t rows = x.numel() <= kParallel ? rows_reduced(x, y) : 0; rows > 0)
    return reduce_some_rows(r, values, rows, x.numel() / rows, centres, write);
  const ReductionPlan plan = plan_reduction(x, y);
  if (plan.by_columns)
    ColumnReduction<R>(r, values, plan, centres, write).run();
  else
    reduce_rows(r, values, plan, centres, write);
}

/// Calls write(index in y, total) for every output, from several threads. y provides the shape: x's
/// rank, with size 1 where x is reduced.
template <typename T, typename R>
void reduce(const R& r, const Tensor& x, const Tensor& y,
            const TotalWriter<typename R::Total>& write, const double* centres = nullptr) {
  reduce_elements(r, Elements<typename R::Value>(TypeTag<T>(), x), x, y, write, centres);
}

}  // namespace tapegrad::backends::cpu
