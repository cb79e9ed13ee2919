// Matrix products of raw memory: what matmul, linear and convolution are made of.
#pragma once

#include <cstdint>

#include "ops/matmul.h"

namespace tapegrad::backends::cpu {

/// Element (i, j) lies at data[i * row + j * column]. The stride of a dimension of size 1 means
/// nothing.
template <typename T>
struct Matrix {
  const T* data;
  int64_t row, column;
};

/// Whether gemm() takes the layout: one stride is 1 and the other does not overlap.
bool is_plain(int64_t rows, int64_t columns, int64_t row, int64_t column);

/// c = a b, or c += a b: a is m x k and b is k x n, both plain; c is m x n, its rows `ldc` apart.
/// An empty sum is 0.
///
/// float is oneDNN's, double OpenBLAS's; integers wrap around. Allocates nothing. Uses the OpenMP
/// threads, but only its own inside a parallel region.
template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc,
          bool accumulate = false);

/// c = a b + bias for one large product: the bias has n elements or is null, and rows of c lie
/// behind each other. May allocate; takes the way that is judged fastest for the layout and sizes,
/// and for float that precision.
template <typename T>
void product(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, const T* bias, T* c,
             MatmulPrecision precision);
/// The same for bfloat16, summed in float and rounded once, where the processor has instructions
/// for it (suits_bfloat16() of matmul_dnnl.h); no size is 0.
void product(int64_t m, int64_t n, int64_t k, Matrix<bfloat16> a, Matrix<bfloat16> b,
             const bfloat16* bias, bfloat16* c);

}  // namespace tapegrad::backends::cpu
