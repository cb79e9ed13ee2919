// Matrix products by cuBLAS, and its handle. A product of any batch is one call.
#pragma once

#include <cublas_v2.h>

#include <functional>
#include <string_view>

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// A batch of row-major matrices. Element (i, j) of matrix q is at q * step + i * ld + j, or, if
/// transposed, at q * step + j * ld + i.
struct Matrices {
  const void* data;
  bool transposed;
  int64_t ld, step;
};

/// A product c = a b, or c += a b, for every matrix of a batch.
struct Product {
  int64_t m, n, k;
  int64_t batch = 1;
  DType dtype;   // float dtype of a and b
  DType result;  // dtype of c: `dtype`, or float32 for sixteen-bit types
  bool accumulate = false;
};

/// Runs on the device of `where`, in its current stream. c is row-major, and is 0 if k = 0. Sums
/// are float32, or float64 for float64 operands.
void gemm(const Product& p, const Matrices& a, const Matrices& b, void* c, int64_t ldc,
          int64_t c_step, const Tensor& where);

/// gemm() of matrices at any addresses: `addresses` holds, in device memory, the p.batch addresses
/// of a's matrices, then those of b's and of c's. `data` and `step` of a and b are ignored. p.k >
/// 0.
void gemm_at(const Product& p, const Matrices& a, const Matrices& b, int64_t ldc,
             const Tensor& addresses);
/// Returns the alignment in bytes that gemm_at() requires of each matrix: more than an element's
/// where cuBLAS uses tensor cores.
int64_t alignment_for_gemm_at(DType dtype);

/// Calls f with the device's cuBLAS handle, which enqueues in this thread's current stream and is
/// used by one thread at a time.
void with_cublas(tapegrad::Device device, const std::function<void(cublasHandle_t)>& f);
/// Throws CudaError unless the call succeeded.
void check(cublasStatus_t status, std::string_view call);

// Shared by cuBLAS and cuBLASLt (blas_lt.h).

inline constexpr size_t kWorkspace = size_t(32) << 20;  // NVIDIA's recommendation for Hopper
/// Returns a workspace of kWorkspace bytes for products in the stream.
Tensor workspace_of(tapegrad::Device device, cudaStream_t stream);
cudaDataType_t data_type(DType dtype);
/// Returns the type in which products are summed.
cublasComputeType_t compute_type(DType dtype);

}  // namespace tapegrad::backends::cuda
