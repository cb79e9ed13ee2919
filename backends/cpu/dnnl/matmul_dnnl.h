// Products of float32 and bfloat16 matrices by oneDNN's matmul primitive.
//
// A row or two hundred times a transposed matrix, as linear layers have them (x w^T), is what its
// sgemm does worst: it cuts nothing for a second thread, and with a long k or few columns it is
// slow with one. The primitive brings the matrix into blocks first, and cuts columns as well as
// rows.
#pragma once

#include "backends/cpu/tools/gemm.h"

namespace tapegrad::backends::cpu {

/// Whether the primitive is judged faster than sgemm. Strides as below.
bool suits_dnnl(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b);

/// Whether the processor multiplies bfloat16 faster than float32, and the product is worth it.
bool suits_bfloat16(int64_t m, int64_t n, int64_t k);

/// c = a b + bias: a is m x k, b is k x n, both plain with strides that can be relied on; the bias
/// has n elements or is null; rows of c lie behind each other. No size is 0. `rounded`: a and b are
/// rounded to bfloat16 before; products and sums stay float.
void multiply_dnnl(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b,
                   const float* bias, float* c, bool rounded);
/// The same of bfloat16: products and sums are float, and rounded once.
void multiply_dnnl(int64_t m, int64_t n, int64_t k, Matrix<bfloat16> a, Matrix<bfloat16> b,
                   const bfloat16* bias, bfloat16* c);

}  // namespace tapegrad::backends::cpu
