// Matrix products of raw memory, for matmul, linear and convolution.
#pragma once

#include <cstdint>

namespace tapegrad::backends::cpu {

/// A strided matrix: element (i, j) is data[i * row + j * column]. The stride of a dimension of
/// size 1 may be invalid.
template <typename T>
struct Matrix {
  const T* data;
  int64_t row, column;
};

/// Returns whether gemm() accepts the layout: one stride is 1, and with the other stride nothing
/// overlaps.
bool is_plain(int64_t rows, int64_t columns, int64_t row, int64_t column);

/// Smallest length of sums that gemm() of floats may divide among threads.
inline constexpr int64_t kLongestSum = 128;

/// Computes c = a b, or c += a b if `accumulate`. a is m x k and b is k x n, both plain; c is m x n
/// with row stride `ldc`. The product for k = 0 is 0.
///
/// float is computed by product.h or, if small, by oneDNN; double by product.h; integers wrap
/// around. Uses OpenMP threads, or only the calling thread inside a parallel region.
template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc,
          bool accumulate = false);

/// Returns a plain matrix with valid strides for dimensions of size 1.
template <typename T>
Matrix<T> with_valid_strides(int64_t rows, int64_t columns, Matrix<T> x);

}  // namespace tapegrad::backends::cpu
