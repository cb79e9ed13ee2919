#include "backends/cpu/fast/tiny_products.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/tools/matrices.h"
#include "backends/cpu/tools/product.h"
#include "backends/cpu/tools/share.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kMostMultiplications = 4096;       // per product of few columns
constexpr int64_t kFewestVectorColumns = 8;          // of a product by whole registers
constexpr int64_t kMostOfFloats = int64_t(1) << 17;  // multiplications; oneDNN is faster for more
constexpr int64_t kFewestForTiles = 2;               // rows or columns
constexpr int kMostTileColumns = 16;                 // columns
constexpr int64_t kSerialBatch = int64_t(1) << 15;   // fewer multiplications need one thread only

/// Computes c = a b for the kColumns columns of b, whose elements of a row are neighbours.
template <typename T, int kColumns>
void multiply_columns(int64_t m, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    T row[kColumns] = {};
    for (int64_t l = 0; l < k; ++l) {
      const T factor = a.data[i * a.row + l * a.column];
      const T* from = b.data + l * b.row;
      for (int j = 0; j < kColumns; ++j) row[j] += factor * from[j];
    }
    std::copy_n(row, kColumns, c + i * ldc);
  }
}

/// multiply_columns<T, columns> for each number of columns up to kMostTileColumns.
template <typename T>
constexpr auto kMultiplyTile = []<int... kColumns>(std::integer_sequence<int, kColumns...>) {
  return std::array{multiply_columns<T, kColumns + 1>...};
}
(std::make_integer_sequence<int, kMostTileColumns>());

/// Returns the sum of products of two rows of neighbouring elements.
template <typename T>
T short_dot(int64_t k, const T* a, const T* b) {
  constexpr int kLane = 8;
  T sums[kLane] = {}, sum = 0;
  int64_t l = 0;
  for (; l + kLane <= k; l += kLane)
    for (int j = 0; j < kLane; ++j) sums[j] += a[l + j] * b[l + j];
  for (; l < k; ++l) sum += a[l] * b[l];
  if (k < kLane) return sum;
  for (int half = kLane / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0] + sum;
}

/// Computes c = a b, contiguous. The stride of a dimension of size 1 is not used.
template <typename T>
void multiply_tiny(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c) {
  const int64_t ldc = n;
  if (std::min(m, n) <= kFewestForTiles && k > 1 && a.column == 1 && b.row == 1) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        *c++ = short_dot(k, a.data + i * a.row, b.data + j * b.column);
    return;
  }
  if (n == 1) {  // c and its transpose have the same layout, and the transpose is one row
    std::swap(m, n);
    std::swap(a, b);
    a = transposed(a), b = transposed(b);
  }
  if (n >= kFewestVectorColumns && fits_into_cache<T>(m, n, k))
    return multiply_in_cache(m, n, k, a, b, c, ldc, Update::kStore);
  T rows[kMostMultiplications];
  if (b.column != 1 && n > 1) {
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j) rows[l * n + j] = b.data[l * b.row + j * b.column];
    b = {rows, n, 1};
  }
  for (; n > 0; n -= kMostTileColumns, b.data += kMostTileColumns, c += kMostTileColumns)
    kMultiplyTile<T>[size_t(std::min<int64_t>(n, kMostTileColumns) - 1)](m, k, a, b, c, ldc);
}

/// The matrices of a batch in their order.
template <typename T>
class MatricesOfBatch {
 public:
  MatricesOfBatch(const Tensor& x, int64_t first)
      : x_(x), matrix_(matrix<T>(x, batch_offset(x, first))) {
    for (int dim = x.rank() - 3; dim >= 0; first /= x.shape()[dim--])
      index_[size_t(dim)] = first % x.shape()[dim];
  }
  Matrix<T> next() {
    const Matrix<T> now = matrix_;
    for (int dim = x_.rank() - 3; dim >= 0; --dim) {
      const int64_t size = x_.shape()[dim], stride = x_.strides()[dim];
      matrix_.data += stride;
      if (++index_[size_t(dim)] < size) break;
      matrix_.data -= size * stride;
      index_[size_t(dim)] = 0;
    }
    return now;
  }

 private:
  const Tensor& x_;
  Matrix<T> matrix_;
  std::array<int64_t, kMaxRank> index_;
};

template <typename T>
void multiply_all(const Tensor& a, const Tensor& b, Tensor& y) {
  const int r = y.rank();
  const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
  const int64_t batch = y.numel() / (m * n), work = m * n * k;
  const int64_t piece = std::max<int64_t>(1, kSerialBatch / 2 / work);
  share_tasks((batch + piece - 1) / piece, batch * work >= kSerialBatch, [&](int64_t task) {
    const int64_t first = task * piece, last = std::min(first + piece, batch);
    MatricesOfBatch<T> from_a(a, first), from_b(b, first);
    for (int64_t i = first; i < last; ++i)
      multiply_tiny(m, n, k, from_a.next(), from_b.next(), y.data<T>() + i * m * n);
  });
}

}  // namespace

bool MatmulTiny::accepts(const Tensor&, const Tensor& b, const Tensor& y) {
  const int r = y.rank();
  const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = b.shape()[r - 2];
  if (k == 0 || y.numel() <= m * n) return false;
  if (m * n * k <= kMostMultiplications) return true;
  if (n < kFewestVectorColumns) return false;
  return y.dtype() == f64 ? fits_into_cache<double>(m, n, k)
                          : m * n * k <= kMostOfFloats && fits_into_cache<float>(m, n, k);
}
void MatmulTiny::run(TypeTag<float>, const Tensor& a, const Tensor& b, Tensor& y) {
  multiply_all<float>(a, b, y);
}
void MatmulTiny::run(TypeTag<double>, const Tensor& a, const Tensor& b, Tensor& y) {
  multiply_all<double>(a, b, y);
}

}  // namespace tapegrad::backends::cpu
