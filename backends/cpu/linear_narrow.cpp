#include "backends/cpu/linear_narrow.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "backends/cpu/fast_paths.h"
#include "backends/cpu/relu.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;
constexpr int64_t kLane = kLanes<float>;
constexpr int64_t kMaxVectors = 4;  // of a row
constexpr int64_t kMaxColumns = kMaxVectors * kLane;
constexpr int64_t kTile = 64;                    // rows done at once; they stay in the first cache
constexpr int64_t kMaxPieces = 64;               // of all rows, each with sums of its own
constexpr int64_t kParallel = int64_t(1) << 17;  // products that are worth a second thread

// Rows lie one behind the other, and vectors run over the end of a row into the next one: what is
// read there is not used, what is written there is written again. Only behind the last row of a
// piece there is none: its last tile is worked on in memory of its own, with whole vectors.
struct alignas(64) Tile {
  float rows[kTile * kMaxColumns + kMaxColumns];
};

int64_t vectors_of(int64_t columns) { return (columns + kLane - 1) / kLane; }

/// Calls run(std::integral_constant<int, n>) for n from 1 to kMaxVectors.
template <typename Run>
void with_count(int64_t n, const Run& run) {
  switch (n) {
    case 1:
      return run(std::integral_constant<int, 1>());
    case 2:
      return run(std::integral_constant<int, 2>());
    case 3:
      return run(std::integral_constant<int, 3>());
    default:
      return run(std::integral_constant<int, 4>());
  }
}

/// A small matrix [rows, columns] in whole vectors, and one row of start values.
class Factor {
 public:
  /// b[k, j] = from[k row + j column]; zeros behind the last column. No start is zeros.
  Factor(const float* from, int64_t rows, int64_t columns, int64_t row, int64_t column,
         const float* start)
      : rows_(rows), columns_(columns), step_(vectors_of(columns) * kLane) {
    std::fill_n(start_, step_, 0.0f);
    if (start != nullptr) std::copy_n(start, columns, start_);
    std::fill_n(values_, rows * step_, 0.0f);
    for (int64_t k = 0; k < rows; ++k)
      for (int64_t j = 0; j < columns; ++j) values_[k * step_ + j] = from[k * row + j * column];
  }

  /// y[i, :] = start + a[i, :] times the matrix, then max(y, 0) if kRelu.
  template <bool kRelu>
  void multiply(const float* a, int64_t rows, float* y, int64_t y_step) const {
    with_count(step_ / kLane, [&]<int kVectors>(std::integral_constant<int, kVectors>) {
      constexpr int kRows = kVectors == 1 ? 8 : 4;  // rows whose sums fit the registers
      int64_t i = 0;
      for (; i + kRows <= rows; i += kRows)
        multiply_rows<kRelu, kRows, kVectors>(a + i * rows_, y + i * y_step, y_step);
      for (; i < rows; ++i)
        multiply_rows<kRelu, 1, kVectors>(a + i * rows_, y + i * y_step, y_step);
    });
  }
  int64_t columns() const { return columns_; }
  int64_t step() const { return step_; }

 private:
  template <bool kRelu, int kRows, int kVectors>
  void multiply_rows(const float* a, float* y, int64_t y_step) const {
    B sums[kRows][kVectors];
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) sums[r][v] = B::load_aligned(start_ + v * kLane);
    for (int64_t k = 0; k < rows_; ++k)
      for (int r = 0; r < kRows; ++r) {
        const B factor(a[r * rows_ + k]);
        for (int v = 0; v < kVectors; ++v)
          sums[r][v] = functions::fused(
              factor, B::load_aligned(values_ + k * (kVectors * kLane) + v * kLane), sums[r][v]);
      }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) {
        const B sum = kRelu ? formulas::Relu()(sums[r][v]) : sums[r][v];
        sum.store_unaligned(y + r * y_step + v * kLane);
      }
  }

  int64_t rows_, columns_, step_;
  alignas(64) float start_[kMaxColumns];
  alignas(64) float values_[kMaxColumns * kMaxColumns];
};

/// Rows of floats, `step` apart.
struct Rows {
  const float* data;
  int64_t step;
};

/// The rows themselves, or their copy with zeros behind each one's last column.
Rows in_whole_vectors(const float* from, int64_t rows, int64_t columns, bool copied, Tile& copy) {
  if (!copied) return {from, columns};
  const int64_t step = vectors_of(columns) * kLane;
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(from + i * columns, columns, copy.rows + i * step);
    std::fill_n(copy.rows + i * step + columns, step - columns, 0.0f);
  }
  return {copy.rows, step};
}

/// sums[k, :] += the sum over i of a[i, k] b[i, :], in whole vectors of b.
template <int kGroup, int kVectors>
void add_group(int64_t rows, Rows a, Rows b, double* sums) {
  B group[kGroup][kVectors];
  for (auto& row : group) std::fill_n(row, kVectors, B(0.0f));
  for (int64_t i = 0; i < rows; ++i)
    for (int k = 0; k < kGroup; ++k) {
      const B factor(a.data[i * a.step + k]);
      for (int v = 0; v < kVectors; ++v)
        group[k][v] = functions::fused(factor, B::load_unaligned(b.data + i * b.step + v * kLane),
                                       group[k][v]);
    }
  alignas(64) float lanes[kLane];
  for (int k = 0; k < kGroup; ++k)
    for (int v = 0; v < kVectors; ++v, sums += kLane) {
      group[k][v].store_aligned(lanes);
      for (int64_t j = 0; j < kLane; ++j) sums[j] += double(lanes[j]);
    }
}
void add_products(int64_t rows, Rows a, int64_t a_columns, Rows b, int64_t b_vectors,
                  double* sums) {
  const int64_t groups = (a_columns + kMaxVectors - 1) / kMaxVectors;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = g * a_columns / groups, last = (g + 1) * a_columns / groups;
    with_count(last - first, [&]<int kGroup>(std::integral_constant<int, kGroup>) {
      with_count(b_vectors, [&]<int kVectors>(std::integral_constant<int, kVectors>) {
        add_group<kGroup, kVectors>(rows, {a.data + first, a.step}, b,
                                    sums + first * b_vectors * kLane);
      });
    });
  }
}

/// visit(piece, first row, rows, whether it is the piece's last tile), pieces on many threads.
int64_t pieces_of(int64_t rows) { return std::min((rows + kTile - 1) / kTile, kMaxPieces); }
template <typename Visit>
void for_each_tile(int64_t rows, int64_t products, const Visit& visit) {
  const int64_t pieces = pieces_of(rows);
#pragma omp parallel for if (rows * products > kParallel)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t end = (piece + 1) * rows / pieces;
    for (int64_t first = piece * rows / pieces; first < end; first += kTile)
      visit(piece, first, std::min(kTile, end - first), first + kTile >= end);
  }
}

/// Tiles of results: in their place, or by way of a copy where vectors would run over.
template <bool kRelu>
void multiply_tile(const Factor& factor, const float* a, int64_t first, int64_t rows, bool last,
                   float* y) {
  const int64_t columns = factor.columns();
  float* to = y + first * columns;
  if (!last || factor.step() == columns) return factor.multiply<kRelu>(a, rows, to, columns);
  Tile tile;
  factor.multiply<kRelu>(a, rows, tile.rows, factor.step());
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(tile.rows + i * factor.step(), columns, to + i * columns);
}

}  // namespace

bool is_narrow(int64_t rows, int64_t in, int64_t out) {
  return fast_paths() && rows >= kLane && in > 0 && in <= kMaxColumns && out > 0 &&
         out <= kMaxColumns;
}

void linear_narrow(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu,
                   Tensor& y) {
  const int64_t rows = x.shape()[0], in = weight.shape()[1], out = weight.shape()[0];
  const Factor factor(weight.data<float>(), in, out, 1, in, bias ? bias.data<float>() : nullptr);
  const float* from = x.data<float>();
  float* to = y.data<float>();
  for_each_tile(rows, in * out, [&](int64_t, int64_t first, int64_t count, bool last) {
    if (relu)
      multiply_tile<true>(factor, from + first * in, first, count, last, to);
    else
      multiply_tile<false>(factor, from + first * in, first, count, last, to);
  });
}

void linear_narrow_backward(const Tensor& dy, const Tensor& y, const Tensor& x,
                            const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db) {
  const int64_t rows = dy.shape()[0], out = dy.shape()[1];
  const int64_t in = dx ? dx.shape()[1] : dw ? dw.shape()[1] : 0;
  const float* gradients = dy.data<float>();
  const float* results = y ? y.data<float>() : nullptr;
  const float* inputs = dw ? x.data<float>() : nullptr;
  float* to = dx ? dx.data<float>() : nullptr;
  std::optional<Factor> factor;
  if (dx) factor.emplace(weight.data<float>(), out, in, in, 1, nullptr);

  // dw or its transpose, whichever fills the vectors better; then db.
  const int64_t in_vectors = vectors_of(in), out_vectors = vectors_of(out);
  const bool along_in = out * in_vectors <= in * out_vectors;
  const int64_t bias_at = !dw ? 0 : along_in ? out * in_vectors * kLane : in * out_vectors * kLane;
  const int64_t sums = bias_at + (db ? out_vectors * kLane : 0);
  std::vector<double> parts(size_t(pieces_of(rows) * sums));

  for_each_tile(rows, in * out, [&](int64_t piece, int64_t first, int64_t count, bool last) {
    Tile masked, copy_of_dz, copy_of_x;
    const float* dz = gradients + first * out;
    if (results != nullptr) {
      mask_by_result(dz, results + first * out, count * out, masked.rows);
      std::fill_n(masked.rows + count * out, kMaxColumns, 0.0f);
      dz = masked.rows;
    }
    if (to != nullptr) multiply_tile<false>(*factor, dz, first, count, last, to);
    if (sums == 0) return;
    const bool in_copy = last && results == nullptr;
    const Rows up = in_whole_vectors(dz, count, out, in_copy, copy_of_dz);
    double* part = parts.data() + piece * sums;
    if (inputs != nullptr) {
      const Rows down = in_whole_vectors(inputs + first * in, count, in, last, copy_of_x);
      if (along_in)
        add_products(count, up, out, down, in_vectors, part);
      else
        add_products(count, down, in, up, out_vectors, part);
    }
    static constexpr float kOne = 1.0f;
    if (db) add_products(count, Rows{&kOne, 0}, 1, up, out_vectors, part + bias_at);
  });

  const auto total = [&](int64_t at) {
    double sum = 0;
    for (int64_t piece = 0; piece < pieces_of(rows); ++piece)
      sum += parts[size_t(piece * sums + at)];
    return float(sum);
  };
  for (int64_t o = 0; o < out; ++o) {
    if (dw)
      for (int64_t k = 0; k < in; ++k)
        dw.data<float>()[o * in + k] =
            total(along_in ? o * in_vectors * kLane + k : k * out_vectors * kLane + o);
    if (db) db.data<float>()[o] = total(bias_at + o);
  }
}

}  // namespace tapegrad::backends::cpu
