// Matrix products, all through one call of cuBLAS.
#pragma once

#include <cublas_v2.h>

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// A batch of row-major matrices: element (i, j) of matrix q lies at q * step + i * ld + j, or, if
/// transposed, at q * step + j * ld + i.
struct Matrices {
  const void* data;
  bool transposed;
  int64_t ld, step;
};

/// What is multiplied: c = a b, or c += a b, for every matrix of the batch.
struct Product {
  int64_t m, n, k;
  int64_t batch = 1;
  DType dtype;   // of a and b: a float type
  DType result;  // of c: the same, or float32 for the sixteen-bit types
  bool accumulate = false;
};

/// On the device of `where`, in its current stream. c is row-major. An empty sum is 0. Sums are
/// made in float, of float64 in double.
void gemm(const Product& p, const Matrices& a, const Matrices& b, void* c, int64_t ldc,
          int64_t c_step, const Tensor& where);

// What cuBLAS and cuBLASLt (blas_lt.h) share.

inline constexpr size_t kWorkspace = size_t(32) << 20;  // what NVIDIA advises for Hopper
/// Of kWorkspace bytes, for products in the stream.
Tensor workspace_of(tapegrad::Device device, cudaStream_t stream);
cudaDataType_t data_type(DType dtype);
/// What sums of products are made in.
cublasComputeType_t compute_type(DType dtype);

}  // namespace tapegrad::backends::cuda
