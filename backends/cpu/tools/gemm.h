// Matrix products of raw memory, for matmul, linear and convolution.
#pragma once

#include <cstdint>

#include "ops/matmul.h"

namespace tapegrad::backends::cpu {

/// A strided matrix: element (i, j) is data[i * row + j * column]. The stride of a dimension of
/// size 1 may be invalid.
template <typename T>
struct Matrix {
  const T* data;
  int64_t row, column;
};

/// Whether gemm() accepts the layout: one stride is 1, and with the other stride nothing overlaps.
bool is_plain(int64_t rows, int64_t columns, int64_t row, int64_t column);

/// c = a b, or c += a b if `accumulate`. a is m x k and b is k x n, both plain; c is m x n with row
/// stride `ldc`. The product for k = 0 is 0.
///
/// float is computed by oneDNN, double by OpenBLAS; integers wrap around. Does not allocate. Uses
/// OpenMP threads, or only the calling thread inside a parallel region.
template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc,
          bool accumulate = false);

/// c = a b + bias for one large product. The bias has n elements or is null; c is contiguous.
/// Selects the implementation expected to be fastest for the layout, the sizes and, for float, the
/// precision. May allocate.
template <typename T>
void product(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, const T* bias, T* c,
             MatmulPrecision precision);
/// Overload for bfloat16, accumulated in float32 and rounded once, for processors with bfloat16
/// instructions (suits_bfloat16() of matmul_dnnl.h). No size is 0.
void product(int64_t m, int64_t n, int64_t k, Matrix<bfloat16> a, Matrix<bfloat16> b,
             const bfloat16* bias, bfloat16* c);

}  // namespace tapegrad::backends::cpu
