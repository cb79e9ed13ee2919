// In place of backends/cuda/library.cpp: the functions of cublas.cpp.
#include <cublas_v2.h>

#include <cstring>

#include "backends/cuda/library.h"
#include "state.h"

namespace tapegrad::backends::cuda {

void* find_in_cublas(const char* function) {
  using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                              const void*, const void*, cudaDataType, int, long long, const void*,
                              cudaDataType, int, long long, const void*, void*, cudaDataType, int,
                              long long, int, cublasComputeType_t, cublasGemmAlgo_t);
  const std::pair<const char*, void*> functions[] = {
      {"cublasCreate_v2", reinterpret_cast<void*>(&cublasCreate_v2)},
      {"cublasSetStream_v2", reinterpret_cast<void*>(&cublasSetStream_v2)},
      {"cublasSetWorkspace_v2", reinterpret_cast<void*>(&cublasSetWorkspace_v2)},
      {"cublasGetStatusString", reinterpret_cast<void*>(&cublasGetStatusString)},
      {"cublasGemmStridedBatchedEx",
       reinterpret_cast<void*>(static_cast<Gemm*>(&cublasGemmStridedBatchedEx))}};
  for (const auto& [name, address] : functions)
    if (std::strcmp(function, name) == 0) return address;
  coh::fail("cuBLAS: a function that cuda_on_host does not have");
}

}  // namespace tapegrad::backends::cuda
