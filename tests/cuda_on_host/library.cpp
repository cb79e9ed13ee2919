// Replaces backends/cuda/runtime/library.cpp: returns the functions of the cuBLAS and cuBLASLt
// stand-ins; those of the other libraries return their functions themselves. Stores the recorded
// calls.
#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstring>

#include "backends/cuda/runtime/library.h"
#include "cublas_parts.h"
#include "library_calls.h"
#include "state.h"

namespace coh {

std::vector<std::string>* products = nullptr;

namespace {

std::vector<std::string>& calls() {
  static auto& all = *new std::vector<std::string>;
  return all;
}
bool is_refusing = false;

}  // namespace

std::vector<std::string> take_library_calls() {
  const std::lock_guard lock(device_lock);
  return std::exchange(calls(), {});
}
void note_library_call(const std::string& call) {
  const std::lock_guard lock(device_lock);
  calls().push_back(call);
}
void libraries_refuse(bool refuse) { is_refusing = refuse; }
bool do_libraries_refuse() { return is_refusing; }

}  // namespace coh

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
  if (void* found = coh::find_factorization(name)) return found;
  using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                              const void*, const void*, cudaDataType, int, long long, const void*,
                              cudaDataType, int, long long, const void*, void*, cudaDataType, int,
                              long long, int, cublasComputeType_t, cublasGemmAlgo_t);
  using GemmAt = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                const void*, const void* const[], cudaDataType, int,
                                const void* const[], cudaDataType, int, const void*, void* const[],
                                cudaDataType, int, int, cublasComputeType_t, cublasGemmAlgo_t);
  return find({function("cublasCreate_v2", &cublasCreate_v2),
               function("cublasSetStream_v2", &cublasSetStream_v2),
               function("cublasSetWorkspace_v2", &cublasSetWorkspace_v2),
               function("cublasGetStatusString", &cublasGetStatusString),
               function<Gemm>("cublasGemmStridedBatchedEx", &cublasGemmStridedBatchedEx),
               function<GemmAt>("cublasGemmBatchedEx", &cublasGemmBatchedEx)},
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
