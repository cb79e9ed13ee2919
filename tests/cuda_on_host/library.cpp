// Replaces backends/cuda/runtime/library.cpp: returns the functions of cublas.cpp and cublaslt.cpp.
#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstring>

#include "backends/cuda/runtime/library.h"
#include "state.h"

namespace tapegrad::backends::cuda {

namespace {

struct Function {
  const char* name;
  void* address;
};
template <typename F>
Function function(const char* name, F* address) {
  return {name, reinterpret_cast<void*>(address)};
}

void* find(std::initializer_list<Function> functions, const char* name) {
  for (const Function& f : functions)
    if (std::strcmp(f.name, name) == 0) return f.address;
  coh::fail("a function of cuBLAS that cuda_on_host does not have");
}

}  // namespace

void* find_in_cublas(const char* name) {
  using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                              const void*, const void*, cudaDataType, int, long long, const void*,
                              cudaDataType, int, long long, const void*, void*, cudaDataType, int,
                              long long, int, cublasComputeType_t, cublasGemmAlgo_t);
  return find({function("cublasCreate_v2", &cublasCreate_v2),
               function("cublasSetStream_v2", &cublasSetStream_v2),
               function("cublasSetWorkspace_v2", &cublasSetWorkspace_v2),
               function("cublasGetStatusString", &cublasGetStatusString),
               function<Gemm>("cublasGemmStridedBatchedEx", &cublasGemmStridedBatchedEx)},
              name);
}

void* find_in_cublas_lt(const char* name) {
  return find(
      {function("cublasLtCreate", &cublasLtCreate), function("cublasLtMatmul", &cublasLtMatmul),
       function("cublasLtMatmulAlgoGetHeuristic", &cublasLtMatmulAlgoGetHeuristic),
       function("cublasLtMatmulDescCreate", &cublasLtMatmulDescCreate),
       function("cublasLtMatmulDescDestroy", &cublasLtMatmulDescDestroy),
       function("cublasLtMatmulDescSetAttribute", &cublasLtMatmulDescSetAttribute),
       function("cublasLtMatmulPreferenceCreate", &cublasLtMatmulPreferenceCreate),
       function("cublasLtMatmulPreferenceDestroy", &cublasLtMatmulPreferenceDestroy),
       function("cublasLtMatmulPreferenceSetAttribute", &cublasLtMatmulPreferenceSetAttribute),
       function("cublasLtMatrixLayoutCreate", &cublasLtMatrixLayoutCreate),
       function("cublasLtMatrixLayoutDestroy", &cublasLtMatrixLayoutDestroy)},
      name);
}

}  // namespace tapegrad::backends::cuda
