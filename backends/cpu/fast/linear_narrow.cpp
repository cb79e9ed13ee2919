#include "backends/cpu/fast/linear_narrow.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <vector>

#include <omp.h>

#include "backends/cpu/fast/linear_lanes.h"
#include "backends/cpu/fast/linear_sums.h"
#include "backends/cpu/tools/optional.h"
#include "backends/cpu/tools/relu.h"
#include "backends/cpu/tools/transpose.h"
#include "core/dispatch/implementations.h"
#include "ops/linear.h"

namespace tapegrad::backends::cpu {
namespace {

using namespace narrow_layer;

using B = Batch<float>;
constexpr int64_t kFloatsAhead = kFetchAhead / int64_t(sizeof(float));
constexpr int64_t kParallelNarrow = int64_t(1) << 17;  // products that justify a second thread

// Rows are contiguous, and vectors extend beyond the end of a row into the next: values read there
// are unused, and values written there are overwritten. The last rows of a piece, which lack this
// space, are computed in a buffer; the last rows of all are read from a padded copy.
struct alignas(64) Tile {
  float rows[kTile * kMaxColumns + kMaxColumns];
};

/// A small matrix [rows, columns] padded to whole vectors, and one row of start values.
class Factor {
 public:
  /// Makes the matrix b[k, j] = from[k row + j column], with zeros beyond the last column. A null
  /// start means zeros.
  Factor(const float* from, int64_t rows, int64_t columns, int64_t row, int64_t column,
         const float* start)
      : rows_(rows), columns_(columns), step_(vectors_of(columns) * kLane) {
    std::fill_n(start_, step_, 0.0f);
    if (start != nullptr) std::copy_n(start, columns, start_);
    std::fill_n(values_, rows * step_, 0.0f);
    for (int64_t k = 0; k < rows; ++k)
      for (int64_t j = 0; j < columns; ++j) values_[k * step_ + j] = from[k * row + j * column];
  }

  /// Computes y[i, :] = start + a[i, :] times the matrix, followed by max(y, 0) if kRelu, for
  /// `rows` rows. There is space for rows up to `end`, which are written later.
  template <bool kRelu>
  void multiply(const float* a, int64_t rows, int64_t end, float* y) const {
    with_count<kMaxVectors>(step_ / kLane, [&]<int n>(std::integral_constant<int, n>) {
      constexpr int kRows = int(std::bit_floor(unsigned(most_sums(n))));
      int64_t i = columns_ == 1 ? multiply_column<kRelu>(a, rows, y) : 0;
      for (; i + kRows <= rows; i += kRows) {
        fetch_run(a + i * rows_ + kFloatsAhead, kRows * rows_);
        fetch_run_to_write(y + i * columns_ + kFloatsAhead, kRows * columns_);
        multiply_rows<kRelu, kRows, n>(a + i * rows_, end - i, y + i * columns_);
      }
      for (; i < rows; ++i) multiply_rows<kRelu, 1, n>(a + i * rows_, end - i, y + i * columns_);
    });
  }

 private:
  /// As multiply_rows() for one column, to the bit: the lanes of a vector are rows. Returns how
  /// many rows are done, which is a multiple of the number of lanes.
  template <bool kRelu>
  int64_t multiply_column(const float* a, int64_t rows, float* y) const {
    int64_t i = 0;
    for (; i + kLane <= rows; i += kLane, a += kLane * rows_) {
      fetch_run(a + kFloatsAhead, kLane * rows_);
      B sum(start_[0]);
      for (int64_t k = 0; k < rows_; k += kLane) {
        const int64_t count = std::min(kLane, rows_ - k);
        FloatVector block[kLane];
        unrolled<kLane>([&](auto l) {
          const float* from = a + l() * rows_ + k;
          block[l()] = count == kLane ? load_batch(from).data : load_some(from, count).data;
        });
        transpose(block);
        const float* values = values_ + k * step_;
        unrolled<kLane>([&](auto l) {
          if (l() < count) sum = functions::fused(B(block[l()]), B(values[l() * step_]), sum);
        });
      }
      (kRelu ? formulas::Relu()(sum) : sum).store_unaligned(y + i);
    }
    return i;
  }
  template <bool kRelu, int kRows, int kVectors>
  void multiply_rows(const float* a, int64_t end, float* y) const {
    B sums[kRows][kVectors];
    unrolled<kRows>([&](auto r) {
      unrolled<kVectors>([&](auto v) { sums[r][v] = B::load_aligned(start_ + v * kLane); });
    });
    const float* values = values_;
    for (int64_t k = 0; k < rows_; ++k, values += kVectors * kLane)
      unrolled<kRows>([&](auto r) {
        const B factor(a[r * rows_ + k]);
        unrolled<kVectors>([&](auto v) {
          sums[r][v] = functions::fused(factor, B::load_aligned(values + v * kLane), sums[r][v]);
        });
      });
    const bool in_place = (kRows - 1) * columns_ + step_ <= end * columns_;
    alignas(64) float copy[kRows * kVectors * kLane];
    float* to = in_place ? y : copy;
    const int64_t to_step = in_place ? columns_ : step_;
    unrolled<kRows>([&](auto r) {
      unrolled<kVectors>([&](auto v) {
        const B sum = kRelu ? formulas::Relu()(sums[r][v]) : sums[r][v];
        sum.store_unaligned(to + r * to_step + v * kLane);
      });
    });
    if (in_place) return;
    for (int64_t r = 0; r < kRows; ++r) std::copy_n(copy + r * step_, columns_, y + r * columns_);
  }

  int64_t rows_, columns_, step_;
  alignas(64) float start_[kMaxColumns];
  alignas(64) float values_[kMaxColumns * kMaxColumns];
};

/// A factor that all blocks of a run share, in memory that begins with kZeroBytes zeros. It is made
/// by the first block; blocks that run meanwhile make their own.
class SharedFactor {
 public:
  static constexpr size_t kZeroBytes = 2 * alignof(Factor), kWorkBytes = sizeof(Factor);

  explicit SharedFactor(std::byte* memory) {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const size_t behind = (alignof(Factor) - address % alignof(Factor)) % alignof(Factor);
    state_ = reinterpret_cast<std::atomic<int>*>(memory + behind);
    place_ = memory + behind + alignof(Factor);
  }
  template <typename... Arguments>
  const Factor& get(const Arguments&... arguments) {
    constexpr int kEmpty = 0, kMaking = 1, kReady = 2;
    if (state_->load(std::memory_order_acquire) != kReady) {
      int state = kEmpty;
      if (!state_->compare_exchange_strong(state, kMaking, std::memory_order_acq_rel)) {
        if (state != kReady) return own_.emplace(arguments...);
      } else {
        new (place_) Factor(arguments...);
        state_->store(kReady, std::memory_order_release);
      }
    }
    return *std::launder(reinterpret_cast<const Factor*>(place_));
  }

 private:
  std::atomic<int>* state_;
  std::byte* place_;
  std::optional<Factor> own_;
};

/// Memory of each thread for its sums of rows in lanes.
struct LaneMemory {
  static constexpr size_t kAlign = 64;

  LaneMemory(const Sums& sums, const Tensor& dw, const Tensor& db)
      : bytes((bytes_for_lanes(sums, bool(dw), bool(db)) + kAlign - 1) / kAlign * kAlign) {}
  /// Bytes for all threads, before they start.
  size_t all() const { return kAlign + bytes * size_t(omp_get_max_threads()); }
  float* mine(std::byte* memory) const {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    memory += (kAlign - address % kAlign) % kAlign + bytes * size_t(omp_get_thread_num());
    return reinterpret_cast<float*>(memory);
  }

  const size_t bytes;  // of a thread
};

/// Places in RowBlock::sums of a gradient: sums and a shared factor, which are zero at first, then
/// the factor's elements and the stored pieces, then the memory of the lanes.
struct RowMemory {
  RowMemory(int64_t rows, const Sums& sums)
      : rows(rows),
        sums(sums),
        factor_at(PieceSums::zero_bytes(sums)),
        stored_at(factor_at + SharedFactor::kZeroBytes + SharedFactor::kWorkBytes),
        lanes_at(stored_at + PieceSums::stored_bytes(rows, sums)) {}
  PieceSums pieces(std::byte* memory) const {
    return PieceSums(memory, memory + stored_at, rows, sums);
  }

  const int64_t rows;
  const Sums& sums;
  const size_t factor_at, stored_at, lanes_at;
};

/// Rows of floats with stride `step`.
struct StridedRows {
  const float* data;
  int64_t step;
};

/// Returns the rows, or a copy with zeros beyond each row's last column.
StridedRows in_whole_vectors(const float* from, int64_t rows, int64_t columns, bool copied,
                             Tile& copy) {
  if (!copied) return {from, columns};
  const int64_t step = vectors_of(columns) * kLane;
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(from + i * columns, columns, copy.rows + i * step);
    std::fill_n(copy.rows + i * step + columns, step - columns, 0.0f);
  }
  return {copy.rows, step};
}

/// Computes sums[k, :] += the sum over i of a[i, k] b[i, :], in whole vectors of b. If kTotal, a
/// further row receives the sum of b[i, :].
template <int kGroup, bool kTotal, int kVectors>
void add_group(int64_t rows, StridedRows a, StridedRows b, double* sums) {
  constexpr int kSums = kGroup + int(kTotal);
  constexpr int kChains = chains_of(kSums, kVectors);
  B group[kChains][kSums][kVectors];
  unrolled<kChains>([&](auto c) {
    unrolled<kSums>([&](auto k) { unrolled<kVectors>([&](auto v) { group[c][k][v] = B(0.0f); }); });
  });
  const auto add_row = [&](auto c, const float* factors, const float* row) {
    B values[kVectors];
    unrolled<kVectors>([&](auto v) { values[v] = B::load_unaligned(row + v * kLane); });
    unrolled<kGroup>([&](auto k) {
      const B factor(factors[k]);
      unrolled<kVectors>(
          [&](auto v) { group[c][k][v] = functions::fused(factor, values[v], group[c][k][v]); });
    });
    if constexpr (kTotal) unrolled<kVectors>([&](auto v) { group[c][kGroup][v] += values[v]; });
  };
  int64_t i = 0;
  for (; i + kChains <= rows; i += kChains)
    unrolled<kChains>(
        [&](auto c) { add_row(c, a.data + (i + c) * a.step, b.data + (i + c) * b.step); });
  for (; i < rows; ++i)
    add_row(std::integral_constant<int, 0>(), a.data + i * a.step, b.data + i * b.step);
  unrolled<kSums>([&](auto k) {
    unrolled<kVectors>([&](auto v) {
      B sum = group[0][k][v];
      for (int c = 1; c < kChains; ++c) sum += group[c][k][v];
      alignas(64) float lanes[kLane];
      sum.store_aligned(lanes);
      double* to = sums + (k * kVectors + v) * kLane;
      for (int64_t j = 0; j < kLane; ++j) to[j] += double(lanes[j]);
    });
  });
}
void add_products(int64_t rows, StridedRows a, int64_t a_columns, StridedRows b, int64_t b_vectors,
                  bool total, double* sums) {
  with_count<kMaxVectors>(b_vectors, [&]<int kVectors>(std::integral_constant<int, kVectors>) {
    for_each_group_of_sums(
        a_columns, kVectors, total, [&](int64_t first, int64_t last, bool has_total) {
          const StridedRows part{a.data + first, a.step};
          double* to = sums + first * kVectors * kLane;
          with_count<most_sums(kVectors), 0>(
              last - first, [&]<int kGroup>(std::integral_constant<int, kGroup>) {
                if constexpr (kGroup > 0) {
                  if (!has_total) return add_group<kGroup, false, kVectors>(rows, part, b, to);
                }
                add_group<kGroup, true, kVectors>(rows, part, b, to);
              });
        });
  });
}

/// Calls visit(first row, rows, rows up to the piece's end); pieces run on many threads, each of
/// which has pieces in ascending order.
template <typename Visit>
void for_each_tile(int64_t rows, int64_t products, const Visit& visit) {
  const int64_t pieces = pieces_of(rows);
#pragma omp parallel for schedule(static) if (rows * products > kParallelNarrow)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t end = start_of(piece + 1, rows);
    for (int64_t first = start_of(piece, rows); first < end; first += kTile)
      visit(first, std::min(kTile, end - first), end - first);
  }
}

bool is_narrow(int64_t rows, int64_t in, int64_t out) {
  return rows >= kLane && in > 0 && in <= kMaxColumns && out > 0 && out <= kMaxColumns;
}

bool is_contiguous(const Tensor& x) { return !x || x.is_contiguous(); }

/// Computes the gradients of some rows.
class GradientOfRows {
 public:
  /// The tensors are contiguous.
  GradientOfRows(const Sums& sums, const Factor* factor, const Tensor& dy, const Tensor& y,
                 const Tensor& x, Tensor& dx, const Tensor& dw, const Tensor& db)
      : sums_(sums),
        factor_(factor),
        gradients_(dy.data<float>()),
        results_(y ? y.data<float>() : nullptr),
        inputs_(dw ? x.data<float>() : nullptr),
        to_(dx ? dx.data<float>() : nullptr),
        adds_rows_(bool(db)) {}

  /// Adds the sums of a tile, of at most kTile rows, to *part. There is space for rows of dx up to
  /// `end` rows behind the first one, and `behind` rows of the operands follow the tile.
  void add_tile(int64_t first, int64_t count, int64_t end, int64_t behind, double* part) const {
    const auto& [in, out, in_vectors, out_vectors, along_in, bias_at, all] = sums_;
    Tile masked, copy_of_dz, copy_of_x;
    const float* dz = gradients_ + first * out;
    if (results_ != nullptr) {
      mask_by_result(dz, results_ + first * out, count * out, masked.rows);
      std::fill_n(masked.rows + count * out, kMaxColumns, 0.0f);
      dz = masked.rows;
    }
    if (to_ != nullptr) factor_->multiply<false>(dz, count, end, to_ + first * in);
    if (all == 0) return;
    const auto runs_over = [&](int64_t columns) {  // whether vectors exceed the end of all rows
      return (behind + 1) * columns < vectors_of(columns) * kLane;
    };
    const StridedRows up =
        in_whole_vectors(dz, count, out, results_ == nullptr && runs_over(out), copy_of_dz);
    if (inputs_ != nullptr) {
      const StridedRows down =
          in_whole_vectors(inputs_ + first * in, count, in, runs_over(in), copy_of_x);
      if (along_in)
        add_products(count, up, out, down, in_vectors, false, part);
      else
        add_products(count, down, in, up, out_vectors, adds_rows_, part);
    }
    if (adds_rows_ && (along_in || inputs_ == nullptr))
      add_products(count, up, 0, up, out_vectors, true, part + bias_at);
  }

 private:
  const Sums& sums_;
  const Factor* factor_;  // for dx
  const float *gradients_, *results_, *inputs_;
  float* to_;
  bool adds_rows_;
};

}  // namespace

bool LinearNarrow::accepts(const Tensor& x, const Tensor&, const Tensor&, const Epilogue& epilogue,
                           const Tensor& y) {
  return epilogue.activation != Activation::kGelu &&
         is_narrow(y.shape()[0], x.shape()[1], y.shape()[1]);
}

void LinearNarrow::run(TypeTag<float>, const Tensor& x0, const Tensor& weight0, const Tensor& bias0,
                       const Epilogue& epilogue, Tensor& y) {
  const Tensor x = x0.contiguous(), weight = weight0.contiguous(), bias = contiguous(bias0);
  const int64_t rows = x.shape()[0], in = weight.shape()[1], out = weight.shape()[0];
  const Factor factor(weight.data<float>(), in, out, 1, in, bias ? bias.data<float>() : nullptr);
  const float* from = x.data<float>();
  float* to = y.data<float>();
  for_each_tile(rows, in * out, [&](int64_t first, int64_t count, int64_t end) {
    if (epilogue.activation == Activation::kRelu)
      factor.multiply<true>(from + first * in, count, end, to + first * out);
    else
      factor.multiply<false>(from + first * in, count, end, to + first * out);
  });
}

constinit const LinearNarrow::Rows LinearNarrow::kRows{
    .divided = 1 << 0 | 1 << 3 | 1 << 4,
    .sums = 0,
    .divide = [](const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Epilogue& epilogue, Tensor& y) -> RowDivision {
      if (!tapegrad::detail::is_tried(kernels::linear, kName) ||
          !accepts(x, weight, bias, epilogue, y))
        return {};
      if (!weight.is_contiguous() || !is_contiguous(bias)) return {};
      return {.rows = y.shape()[0],
              .sum_bytes = SharedFactor::kZeroBytes,
              .work_bytes = SharedFactor::kWorkBytes};
    },
    .run =
        [](const RowBlock& block, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Epilogue& epilogue, Tensor& y) {
          if (is_in_lanes(y)) return multiply_lanes(x, weight, bias, epilogue, y);
          const int64_t in = weight.shape()[1], out = weight.shape()[0];
          SharedFactor shared(block.sums);
          const Factor& factor = shared.get(weight.data<float>(), in, out, int64_t(1), in,
                                            bias ? bias.data<float>() : nullptr);
          if (epilogue.activation == Activation::kRelu)
            factor.multiply<true>(x.data<float>(), block.count, block.count, y.data<float>());
          else
            factor.multiply<false>(x.data<float>(), block.count, block.count, y.data<float>());
        },
    .finish = [](const std::byte*, const Tensor&, const Tensor&, const Tensor&, const Epilogue&,
                 Tensor&) {},
};

bool LinearBackwardNarrow::accepts(const Tensor& dy, const Epilogue& behind, const Tensor&,
                                   const Tensor&, const Epilogue&, const Tensor& dx,
                                   const Tensor& dw, const Tensor&) {
  return behind.activation != Activation::kGelu && (dx || dw) &&
         is_narrow(dy.shape()[0], dx ? dx.shape()[1] : dw.shape()[1], dy.shape()[1]);
}

void LinearBackwardNarrow::run(TypeTag<float>, const Tensor& dy0, const Epilogue& behind,
                               const Tensor& x0, const Tensor& weight0, const Epilogue& front,
                               Tensor& dx, Tensor& dw, Tensor& db) {
  const Tensor dy = dy0.contiguous(), y = contiguous(behind.at), x = contiguous(x0),
               weight = contiguous(weight0);
  const int64_t rows = dy.shape()[0];
  const Sums sums(dy, dx, dw, db);
  std::optional<Factor> factor;
  if (dx) factor.emplace(weight.data<float>(), sums.out, sums.in, sums.in, 1, nullptr);
  const GradientOfRows gradient(sums, factor ? &*factor : nullptr, dy, y, x, dx, dw, db);
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  std::vector<CacheLine> zeros(PieceSums::zero_bytes(sums) / sizeof(CacheLine));
  const bool has_threads = rows * sums.in * sums.out > kParallelNarrow && omp_get_max_threads() > 1;
  const size_t stored_bytes = has_threads ? PieceSums::stored_bytes(rows, sums) : 0;
  const auto stored = std::make_unique_for_overwrite<CacheLine[]>(stored_bytes / sizeof(CacheLine));
  const PieceSums pieces(zeros.data()->bytes, stored.get()->bytes, rows, sums);
  for_each_tile(rows, sums.in * sums.out, [&](int64_t first, int64_t count, int64_t end) {
    double* to = pieces.begin(first / kTile);
    gradient.add_tile(first, count, end, rows - first - count, to);
    pieces.end(first / kTile, to);
  });
  pieces.write(dw, db);
  if (dx) kernels::run_epilogue_backward(front, dx, dx);
}

constinit const LinearBackwardNarrow::Rows LinearBackwardNarrow::kRows{
    .divided = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5,
    .sums = 1 << 6 | 1 << 7,
    .divide = [](const Tensor& dy, const Epilogue& behind, const Tensor& x, const Tensor& weight,
                 const Epilogue& front, Tensor& dx, Tensor& dw, Tensor& db) -> RowDivision {
      if (!tapegrad::detail::is_tried(kernels::linear_backward, kName) ||
          !accepts(dy, behind, x, weight, front, dx, dw, db))
        return {};
      if (!is_contiguous(weight) || !is_contiguous(dw) || !is_contiguous(db)) return {};
      const int64_t rows = dy.shape()[0];
      RowDivision division{.rows = rows, .unit = kTile};
      const Sums sums(dy, dx, dw, db);
      const RowMemory memory(rows, sums);
      division.sum_bytes = memory.factor_at + SharedFactor::kZeroBytes;
      division.work_bytes = memory.lanes_at - division.sum_bytes;
      division.lane_bytes = LaneMemory(sums, dw, db).all();
      for (int64_t piece = 0; piece < pieces_of(rows); ++piece)
        division.starts.push_back(start_of(piece, rows));
      return division;
    },
    .run =
        [](const RowBlock& block, const Tensor& dy, const Epilogue& behind, const Tensor& x,
           const Tensor& weight, const Epilogue& front, Tensor& dx, Tensor& dw, Tensor& db) {
          const Sums sums(dy, dx, dw, db);
          const RowMemory memory(block.all, sums);
          const PieceSums pieces = memory.pieces(block.sums);
          if (is_in_lanes(dy)) {
            float* lanes = LaneMemory(sums, dw, db).mine(block.sums + memory.lanes_at);
            return differentiate_lanes(block, pieces, lanes, dy, behind, x, weight, front, dx, dw,
                                       db);
          }
          SharedFactor shared(block.sums + memory.factor_at);
          const Factor* factor = dx ? &shared.get(weight.data<float>(), sums.out, sums.in, sums.in,
                                                  int64_t(1), static_cast<const float*>(nullptr))
                                    : nullptr;
          const GradientOfRows gradient(sums, factor, dy, behind.at, x, dx, dw, db);
          for (int64_t first = 0; first < block.count; first += kTile) {
            const int64_t count = std::min(kTile, block.count - first);
            const int64_t tile = (block.first + first) / kTile;
            double* to = pieces.begin(tile);
            gradient.add_tile(first, count, block.count - first,
                              block.all - block.first - first - count, to);
            pieces.end(tile, to);
          }
          if (dx) kernels::run_epilogue_backward(front, dx, dx);
        },
    .finish =
        [](const std::byte* parts, const Tensor& dy, const Epilogue&, const Tensor&, const Tensor&,
           const Epilogue&, Tensor& dx, Tensor& dw, Tensor& db) {
          const Sums sums(dy, dx, dw, db);
          RowMemory(dy.shape()[0], sums).pieces(const_cast<std::byte*>(parts)).write(dw, db);
        },
};

}  // namespace tapegrad::backends::cpu
