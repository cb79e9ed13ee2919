// Shared by the parts of the cuBLAS stand-in.
#pragma once

#include <cublas_v2.h>

#include "state.h"

namespace coh {

struct CublasHandle {
  cudaStream_t stream = nullptr;
};
inline cudaStream_t stream_of(cublasHandle_t handle) {
  return reinterpret_cast<CublasHandle*>(handle)->stream;
}

/// The address of a function of cublas_factors.cpp; null if there is none.
void* find_factorization(const char* function);

}  // namespace coh
