// Loads and stores elements of the matrices of the cuBLAS and cuBLASLt stand-ins as double.
#pragma once

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "state.h"

namespace coh {

inline double load(const void* p, cudaDataType type, std::int64_t i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(p)[i];
    case CUDA_R_32F:
      return static_cast<const float*>(p)[i];
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(p)[i]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
    default:
      fail("cuBLAS: data type");
  }
}
inline void store(void* p, cudaDataType type, std::int64_t i, double value) {
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(p)[i] = value;
      return;
    case CUDA_R_32F:
      static_cast<float*>(p)[i] = float(value);
      return;
    case CUDA_R_16F:
      static_cast<__half*>(p)[i] = __float2half(float(value));
      return;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(float(value));
      return;
    default:
      fail("cuBLAS: data type");
  }
}

/// Returns whether the libraries support a combination of types that the backend uses.
inline bool is_supported(cudaDataType a, cudaDataType b, cudaDataType c,
                         cublasComputeType_t compute) {
  if (a != b) return false;
  if (a == CUDA_R_64F) return c == CUDA_R_64F && compute == CUBLAS_COMPUTE_64F;
  return (c == a || c == CUDA_R_32F) &&
         (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32);
}

/// Position of element (row, column) of op(x) in column-major storage.
inline std::int64_t place(cublasOperation_t operation, std::int64_t row, std::int64_t column,
                          std::int64_t ld) {
  return operation == CUBLAS_OP_N ? row + column * ld : column + row * ld;
}

}  // namespace coh
