// Sums, and sums of products, over all elements, over rows or of each row, for one block of rows
// after another (RowFunctions): the order of summation is that of reduce_rows() and ColumnReduction
// in tools/reduce_frame.h.
#include "backends/cpu/register.h"
#include "backends/cpu/tools/independent_rows.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/reducers.h"
#include "ops/internal/kernels/reduce.h"
#include "ops/reduce.h"

namespace tapegrad::backends::cpu {
namespace {

template <typename T>
using Values = Elements<Compute<T>>;

constexpr int64_t kMostColumns = 8192;     // of a sum over rows
constexpr size_t kMostBytes = 256 * 1024;  // of its sums, which should stay in the cache

/// The sum of all elements. Each block of kBlock elements has a sum of its own.
template <typename T>
struct SumOfAll {
  static RowDivision divide(const Tensor& x) {
    return {.rows = x.numel(),
            .unit = kBlock,
            .is_flat = true,
            .sum_bytes = size_t(blocks_of(x.numel())) * sizeof(double)};
  }
  static void run(const RowBlock& block, const Values<T>& x, double* sums) {
    alignas(64) Compute<T> buffer[kBlock];
    sums += block.first / kBlock;
    for (int64_t i = 0; i < block.count; i += kBlock) {
      const int64_t n = std::min(kBlock, block.count - i);
      *sums++ = reduce_block(WideSumOf<T>{}, x.load(i, 1, n, buffer), n);
    }
  }
  static void finish(const double* sums, int64_t count, double divisor, Tensor& y) {
    const int64_t blocks = blocks_of(count), pieces = pieces_for(1, count, blocks);
    double total = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      double part = 0;
      for (int64_t i = piece * blocks / pieces; i < (piece + 1) * blocks / pieces; ++i)
        part += sums[i];
      total += part;
    }
    *y.data<T>() = convert<T>(total / divisor);
  }

 private:
  static int64_t blocks_of(int64_t count) { return (count + kBlock - 1) / kBlock; }
};

/// The sum of the rows of x [rows, columns]. Each piece of the rows has sums of its own: those of
/// up to kRowsAtOnce rows, and those of the rows before.
template <typename T>
struct SumOfRows {
  static int64_t pieces_of(int64_t rows, int64_t columns) {
    const int64_t blocks = (columns + kBlock - 1) / kBlock;
    return pieces_for(blocks, rows * std::min(columns, kBlock),
                      (rows + kRowsAtOnce - 1) / kRowsAtOnce);
  }
  static RowDivision divide(int64_t rows, int64_t columns) {
    const int64_t pieces = pieces_of(rows, columns);
    RowDivision division{.rows = rows, .sum_bytes = size_t(pieces * 2 * columns) * sizeof(double)};
    for (int64_t piece = 0; piece < pieces; ++piece)
      division.starts.push_back(piece * rows / pieces);
    return division;
  }
  static void run(const RowBlock& block, const Values<T>& x, int64_t columns, double* sums) {
    alignas(64) Compute<T> buffer[kBlock];
    const int64_t pieces = pieces_of(block.all, columns), end = block.first + block.count;
    for (int64_t row = block.first; row < end;) {
      const int64_t piece = ((row + 1) * pieces - 1) / block.all;
      const int64_t start = piece * block.all / pieces, stop = (piece + 1) * block.all / pieces;
      const int64_t full = std::min(stop, start + ((row - start) / kRowsAtOnce + 1) * kRowsAtOnce);
      double *lanes = sums + piece * 2 * columns, *totals = lanes + columns;
      for (const int64_t last = std::min(full, end); row < last; ++row) {
        for (int64_t j = 0; j < columns; j += kBlock) {
          const int64_t n = std::min(kBlock, columns - j);
          const auto* values = x.load((row - block.first) * columns + j, 1, n, buffer);
          for (int64_t k = 0; k < n; ++k) lanes[j + k] += double(values[k]);
        }
      }
      if (row < full) continue;
      for (int64_t j = 0; j < columns; ++j) totals[j] += std::exchange(lanes[j], 0.0);
    }
  }
  static void finish(const double* sums, int64_t rows, double divisor, Tensor& y) {
    const int64_t columns = y.numel(), pieces = pieces_of(rows, columns);
    for (int64_t j = 0; j < columns; ++j) {
      double total = 0;
      for (int64_t piece = 0; piece < pieces; ++piece)
        total += sums[piece * 2 * columns + columns + j];
      y.data<T>()[j] = convert<T>(total / divisor);
    }
  }
};

/// Returns the number of rows that are reduced independently of each other and of their number.
/// Short rows of floats have a kernel of their own.
int64_t independent_rows(const Tensor& x, const Tensor& y) {
  if (const int64_t rows = x.dtype() == f32 ? contiguous_rows(x, y) : rows_reduced(x, y); rows > 0)
    return rows;
  return middle_rows(x, y);
}

/// Returns the division of x for its sums y.
template <typename T>
RowDivision divide(const Tensor& x, const Tensor& y) {
  if (x.numel() == 0 || !x.is_contiguous() || !y.is_contiguous()) return {};
  if (y.numel() == 1) return SumOfAll<T>::divide(x);
  if (const int64_t rows = independent_rows(x, y); rows > 1) return {.rows = rows};
  const ReductionPlan plan = plan_reduction(x, y);
  const Axis columns = plan.kept.inner(), rows = plan.reduced.inner();
  if (!plan.by_columns || plan.kept.rank != 1 || plan.reduced.rank != 1 || columns.step != 1 ||
      rows.step != columns.size || columns.size > kMostColumns)
    return {};
  const RowDivision division = SumOfRows<T>::divide(rows.size, columns.size);
  return division.sum_bytes <= kMostBytes ? division : RowDivision();
}

/// Adds the values of a block to the sums of a division that has sums.
template <typename T>
void add_block(const RowBlock& block, const Values<T>& values, const Tensor& y) {
  auto* sums = reinterpret_cast<double*>(block.sums);
  if (y.numel() == 1)
    SumOfAll<T>::run(block, values, sums);
  else
    SumOfRows<T>::run(block, values, y.numel(), sums);
}

template <typename T>
void finish(const std::byte* state, int64_t count, double divisor, Tensor& y) {
  const auto* sums = reinterpret_cast<const double*>(state);
  if (y.numel() == 1)
    SumOfAll<T>::finish(sums, count, divisor, y);
  else
    SumOfRows<T>::finish(sums, count / y.numel(), divisor, y);
}

template <typename T>
constinit const RowFunctions<const Tensor&, double, Tensor&> kSums{
    .divided = 1 << 0 | 1 << 2,
    .sums = 1 << 2,  // unless y has the sum of each row
    .divide = [](const Tensor& x, double, Tensor& y) { return divide<T>(x, y); },
    .run =
        [](const RowBlock& block, const Tensor& x, double divisor, Tensor& y) {
          if (block.sums == nullptr)
            kernels::sum.at(DeviceType::kCpu, kDTypeOf<T>)(x, divisor, y);
          else
            add_block<T>(block, Values<T>(TypeTag<T>(), x), y);
        },
    .finish = [](const std::byte* sums, const Tensor& x, double divisor,
                 Tensor& y) { finish<T>(sums, x.numel(), divisor, y); },
};

template <typename T>
constinit const RowFunctions<const Tensor&, const Tensor&, Tensor&> kSumsOfProducts{
    .divided = 1 << 0 | 1 << 1 | 1 << 2,
    .sums = 1 << 2,
    .divide = [](const Tensor& a, const Tensor& b,
                 Tensor& y) { return b.is_contiguous() ? divide<T>(a, y) : RowDivision(); },
    .run =
        [](const RowBlock& block, const Tensor& a, const Tensor& b, Tensor& y) {
          if (block.sums == nullptr)
            kernels::sum_of_products.at(DeviceType::kCpu, kDTypeOf<T>)(a, b, y);
          else
            add_block<T>(block, Values<T>(TypeTag<T>(), a, b), y);
        },
    .finish = [](const std::byte* sums, const Tensor& a, const Tensor&,
                 Tensor& y) { finish<T>(sums, a.numel(), 1.0, y); },
};

}  // namespace

void register_sum_rows() {
  kernels::sum.set_rows(DeviceType::kCpu, f32, kSums<float>);
  kernels::sum.set_rows(DeviceType::kCpu, f64, kSums<double>);
  kernels::sum_of_products.set_rows(DeviceType::kCpu, f32, kSumsOfProducts<float>);
  kernels::sum_of_products.set_rows(DeviceType::kCpu, f64, kSumsOfProducts<double>);
}

}  // namespace tapegrad::backends::cpu
