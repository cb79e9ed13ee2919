#include "backends/cpu/tools/gemm.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <type_traits>

#include <oneapi/dnnl/dnnl.h>

#include "backends/cpu/tools/cblas.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/per_thread.h"
#include "backends/cpu/tools/product.h"
#include "backends/cpu/tools/threads.h"
#include "backends/cpu/tools/transpose.h"
#include "core/base/error.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kMaxStride = std::numeric_limits<int>::max();  // OpenBLAS uses 32-bit integers

/// A plain matrix for BLAS: its rows, or its columns if transposed, have stride `ld`.
struct Blas {
  bool plain = false, transposed = false;
  int64_t ld = 1;
};

Blas blas(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  if (columns == 1 || column == 1) {
    const int64_t ld = rows == 1 ? columns : row;
    if (ld >= columns && ld <= kMaxStride) return {true, false, std::max<int64_t>(ld, 1)};
  }
  if (rows == 1 || row == 1) {
    const int64_t ld = columns == 1 ? rows : column;
    if (ld >= rows && ld <= kMaxStride) return {true, true, std::max<int64_t>(ld, 1)};
  }
  return {};
}

/// oneDNN divides every product among all threads. Starting them takes longer than a product of
/// fewer multiply-adds. Longer sums stay as they are, because the division changes their order.
constexpr double kFewestForOneDnn = 1 << 16;

/// oneDNN distributes products with a transposed second operand badly among threads, and is slow
/// for long sums. oneDNN is faster for other products, and if packing takes long relative to the
/// product.
bool suits_blocks(int64_t m, int64_t n, int64_t k, Blas a, Blas b) {
  return b.transposed && !a.transposed && std::min(m, n) >= 32 &&
         double(m) * double(n) * double(k) >= 1 << 20;
}

/// Calls dnnl_sgemm for row-major matrices without transposition. Returns its status.
dnnl_status_t multiply_rows(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
                            const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  return dnnl_sgemm('N', 'N', m, n, k, 1.0f, a, lda, b, ldb, accumulate ? 1.0f : 0.0f, c, ldc);
}

void require_success(dnnl_status_t status, int64_t m, int64_t n, int64_t k) {
  if (status != dnnl_success)
    fail<Error>("matmul: oneDNN's sgemm returned status ", int(status), " for ", m, " x ", k, " x ",
                n);
}

/// Returns whether multiply_tall() is preferred to multiply_blocks(), which takes long to pack a if
/// there are many rows.
bool is_tall(int64_t m) { return m >= 512; }

/// Multiplies many rows by a transposed copy of b, which oneDNN reads without packing a. The parts
/// of the result do not depend on the number of threads, and neither does the order of its sums.
void multiply_tall(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
                   int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  constexpr int64_t kMostColumns = 512;                 // of one copy of b for all threads
  constexpr int64_t kMostElements = int64_t(1) << 20;   // of this copy
  constexpr int64_t kStripElements = int64_t(1) << 17;  // of a copy in the second-level cache
  constexpr int64_t kTasks = 8, kMostRows = 256, kTransposed = 64;
  respect_thread_limit();
  std::atomic<dnnl_status_t> status = dnnl_success;
  const auto note = [&](dnnl_status_t done) {
    if (done != dnnl_success) status = done;
  };
  if (n <= kMostColumns && n * k <= kMostElements) {
    const int64_t rows = std::min((m + 16 * kTasks - 1) / (16 * kTasks) * 16, kMostRows);
    const auto copy = std::make_unique_for_overwrite<float[]>(size_t(k * n));
#pragma omp parallel for if (k * n > 1 << 15)
    for (int64_t i = 0; i < k; i += kTransposed)
      copy_transposed(n, std::min(kTransposed, k - i), b + i, ldb, copy.get() + i * n, n);
#pragma omp parallel for
    for (int64_t i = 0; i < m; i += rows)
      note(multiply_rows(std::min(rows, m - i), n, k, a + i * lda, lda, copy.get(), n, c + i * ldc,
                         ldc, accumulate));
  } else {
    const int64_t columns = 96 * k <= kStripElements ? 96 : 48;
    PerThread copies(columns * k);
#pragma omp parallel for schedule(dynamic)
    for (int64_t j = 0; j < n; j += columns) {
      const int64_t count = std::min(columns, n - j);
      copy_transposed(count, k, b + j * ldb, ldb, copies.mine(), count);
      note(multiply_rows(m, count, k, a, lda, copies.mine(), count, c + j, ldc, accumulate));
    }
  }
  require_success(status, m, n, k);
}

/// Returns whether product.h is preferred for a small product, because a call of oneDNN's sgemm
/// takes as long as the product. Columns that are not neighbours are packed, which does not pay off
/// for few rows.
bool suits_cache(int64_t m, int64_t n, int64_t k, Matrix<float> b) {
  constexpr int64_t kMostMultiplications = int64_t(1) << 17, kFewestRows = 8;
  return n >= 8 && n <= 64 && (b.column == 1 || m >= kFewestRows) &&
         m * n * k <= kMostMultiplications && fits_into_cache<float>(m, n, k);
}

void multiply_plain(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b, float* c,
                    int64_t ldc, bool accumulate) {
  if (suits_cache(m, n, k, b))
    return multiply_in_cache(m, n, k, a, b, c, ldc, accumulate ? Update::kAdd : Update::kStore);
  const Blas at = blas(m, k, a.row, a.column), bt = blas(k, n, b.row, b.column);
  if (suits_blocks(m, n, k, at, bt)) {
    if (is_tall(m)) return multiply_tall(m, n, k, a.data, at.ld, b.data, bt.ld, c, ldc, accumulate);
    return multiply_blocks(m, n, k, a, b, c, ldc, accumulate ? Update::kAdd : Update::kStore);
  }
  respect_thread_limit();
  const OneThread small(k <= kLongestSum && double(m) * double(n) * double(k) < kFewestForOneDnn);
  require_success(dnnl_sgemm(at.transposed ? 'T' : 'N', bt.transposed ? 'T' : 'N', m, n, k, 1.0f,
                             a.data, at.ld, b.data, bt.ld, accumulate ? 1.0f : 0.0f, c, ldc),
                  m, n, k);
}

void multiply_plain(int64_t m, int64_t n, int64_t k, Matrix<double> a, Matrix<double> b, double* c,
                    int64_t ldc, bool accumulate) {
  if (std::min(m, n) >= 4)
    return multiply_blocks(m, n, k, a, b, c, ldc, accumulate ? Update::kAdd : Update::kStore);
  if (std::max({m, n, k, ldc}) > kMaxStride)
    fail<ShapeError>("matmul: float64: a size past 2^31, OpenBLAS's limit: ", m, " x ", k, " x ",
                     n);
  const Blas at = blas(m, k, a.row, a.column), bt = blas(k, n, b.row, b.column);
  respect_thread_limit();
  cblas_dgemm(CblasRowMajor, at.transposed ? CblasTrans : CblasNoTrans,
              bt.transposed ? CblasTrans : CblasNoTrans, int(m), int(n), int(k), 1.0, a.data,
              int(at.ld), b.data, int(bt.ld), accumulate ? 1.0 : 0.0, c, int(ldc));
}

/// Returns the dot product of contiguous vectors: vectors of partial sums over kDotRun elements,
/// which are added in double. Runs belong to pieces whose number does not depend on the number of
/// threads.
template <typename T>
T dot(int64_t k, const T* a, const T* b) {
  using B = Batch<T>;
  constexpr int64_t kLane = kLanes<T>, kDotRun = 2048, kMostPieces = 64;
  const int64_t runs = (k + kDotRun - 1) / kDotRun, pieces = std::min(runs, kMostPieces);
  double sums[kMostPieces];
#pragma omp parallel for if (k > 65536)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    double sum = 0;
    for (int64_t run = piece * runs / pieces; run < (piece + 1) * runs / pieces; ++run) {
      const int64_t end = std::min((run + 1) * kDotRun, k);
      B lanes[4] = {B(T(0)), B(T(0)), B(T(0)), B(T(0))};
      int64_t i = run * kDotRun;
      for (; i + 4 * kLane <= end; i += 4 * kLane)
        for (int64_t l = 0; l < 4; ++l)
          lanes[l] = functions::fused(load_batch(a + i + l * kLane), load_batch(b + i + l * kLane),
                                      lanes[l]);
      sum += double(xsimd::hadd((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])));
      for (; i < end; ++i) sum += double(a[i]) * double(b[i]);
    }
    sums[piece] = sum;
  }
  double total = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) total += sums[piece];
  return T(total);
}

/// Computes c = a b for a column a and a row b.
template <typename T>
void multiply_outer(int64_t m, int64_t n, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc) {
  constexpr int64_t kColumns = 4096;
  const int64_t strips = (n + kColumns - 1) / kColumns;
#pragma omp parallel for if (m * n > 65536)
  for (int64_t task = 0; task < m * strips; ++task) {
    const int64_t i = task / strips, first = task % strips * kColumns;
    const T factor = a.data[i * a.row];
    const T* from = b.data + first * b.column;
    T* to = c + i * ldc + first;
    const int64_t count = std::min(kColumns, n - first);
    if (b.column == 1)
      for (int64_t j = 0; j < count; ++j) to[j] = factor * from[j];
    else
      for (int64_t j = 0; j < count; ++j) to[j] = factor * from[j * b.column];
  }
}

template <typename T>
void multiply_integers(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc,
                       bool accumulate) {
  using U = std::make_unsigned_t<T>;  // unsigned wraps around where T would overflow
#pragma omp parallel for if (m * n * k > 32768)
  for (int64_t i = 0; i < m; ++i) {
    T* row = c + i * ldc;
    if (!accumulate) std::fill_n(row, n, T(0));
    const T* factors = a.data + i * a.row;
    int64_t j = 0;
    // The sums of a block of columns stay in registers.
    const auto blocks_of = [&](auto columns) {
      for (; b.column == 1 && j + columns() <= n; j += columns()) {
        U sums[columns()];
        for (int64_t s = 0; s < columns(); ++s) sums[s] = U(row[j + s]);
        for (int64_t l = 0; l < k; ++l) {
          const U factor = U(factors[l * a.column]);
          const T* from = b.data + l * b.row + j;
          for (int64_t s = 0; s < columns(); ++s) sums[s] = U(sums[s] + factor * U(from[s]));
        }
        for (int64_t s = 0; s < columns(); ++s) row[j + s] = T(sums[s]);
      }
    };
    blocks_of(std::integral_constant<int64_t, 256 / int64_t(sizeof(T))>());
    blocks_of(std::integral_constant<int64_t, 64 / int64_t(sizeof(T))>());
    blocks_of(std::integral_constant<int64_t, 16 / int64_t(sizeof(T))>());
    for (; j < n; ++j) {
      U sum = U(row[j]);
      for (int64_t l = 0; l < k; ++l)
        sum = U(sum + U(factors[l * a.column]) * U(b.data[l * b.row + j * b.column]));
      row[j] = T(sum);
    }
  }
}

}  // namespace

bool is_plain(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  return blas(rows, columns, row, column).plain;
}

template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc,
          bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate)
      for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * ldc, n, T(0));
    return;
  }
  if constexpr (std::is_integral_v<T>)
    multiply_integers(m, n, k, a, b, c, ldc, accumulate);
  else if (m == 1 && n == 1 && (k == 1 || (a.column == 1 && b.row == 1)))
    *c = accumulate ? *c + dot(k, a.data, b.data) : dot(k, a.data, b.data);
  else if (k == 1 && !accumulate && n > 1)
    multiply_outer(m, n, a, b, c, ldc);
  else if (k == 1 && !accumulate && ldc == 1)  // a column, written as a row
    multiply_outer<T>(1, m, b, {a.data, a.row, a.row}, c, m);
  else
    multiply_plain(m, n, k, a, b, c, ldc, accumulate);
}

template <typename T>
Matrix<T> with_valid_strides(int64_t rows, int64_t columns, Matrix<T> x) {
  const Blas valid = blas(rows, columns, x.row, x.column);
  return valid.transposed ? Matrix<T>{x.data, 1, valid.ld} : Matrix<T>{x.data, valid.ld, 1};
}

template Matrix<float> with_valid_strides(int64_t, int64_t, Matrix<float>);
template Matrix<bfloat16> with_valid_strides(int64_t, int64_t, Matrix<bfloat16>);

#define INSTANTIATE(T) \
  template void gemm(int64_t, int64_t, int64_t, Matrix<T>, Matrix<T>, T*, int64_t, bool);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(uint8_t)
INSTANTIATE(int32_t)
INSTANTIATE(int64_t)
#undef INSTANTIATE

}  // namespace tapegrad::backends::cpu
