// Products of float32 and bfloat16 matrices by oneDNN's matmul primitive.
//
// oneDNN's sgemm is slowest for the products of linear layers (x w^T) with one to two hundred rows:
// it does not split them between threads, and for a long k or few columns it is slow even on one
// thread. The primitive first converts the matrix to a blocked layout, and splits both rows and
// columns.
#pragma once

#include "backends/cpu/tools/gemm.h"
#include "core/base/dtype.h"

namespace tapegrad::backends::cpu {

/// Returns whether the processor has the instructions (AVX-512) for which the primitive's float32
/// layouts are made.
bool has_dnnl_blocks();
/// Returns whether a heuristic expects the primitive to be faster than sgemm for plain matrices
/// (is_plain() of gemm.h). Their elements are not read.
bool suits_dnnl(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b);

/// Returns whether the processor multiplies bfloat16 faster than float32, and the product is large
/// enough to profit.
bool suits_bfloat16(int64_t m, int64_t n, int64_t k);

/// Computes c = a b + bias, where a is m x k and b is k x n, both plain. The bias has n elements or
/// is null; c is contiguous; no size is 0. `rounded` rounds a and b to bfloat16 first; products and
/// sums are float32.
void multiply_dnnl(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b,
                   const float* bias, float* c, bool rounded);
/// Overload for bfloat16: products and sums are float32 and are rounded once.
void multiply_dnnl(int64_t m, int64_t n, int64_t k, Matrix<bfloat16> a, Matrix<bfloat16> b,
                   const bfloat16* bias, bfloat16* c);
/// Overload for `batch` products. Matrix i begins at i * a_matrix, i * b_matrix and i * m * n.
void multiply_dnnl(int64_t batch, int64_t m, int64_t n, int64_t k, Matrix<bfloat16> a,
                   int64_t a_matrix, Matrix<bfloat16> b, int64_t b_matrix, bfloat16* c);

/// Writes a factor b [k, n] to memory for `room` elements, in the layout that products of m rows
/// read fastest, or in row-major order if there is no room for the padding of that layout.
void pack_dnnl(int64_t m, int64_t n, int64_t k, Matrix<float> b, bool bias, float* packed,
               int64_t room);
/// Computes c = a b + bias for a contiguous a and a b that pack_dnnl() packed for the same sizes
/// and room. The bias may be null.
void multiply_packed(int64_t m, int64_t n, int64_t k, const float* a, const float* packed,
                     int64_t room, const float* bias, float* c);

}  // namespace tapegrad::backends::cpu
