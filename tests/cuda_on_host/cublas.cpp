// The cuBLAS calls of the backend: the toolkit's prototypes, implemented by plain loops.
// Column-major, sums in double.
#include <cublas_v2.h>

#include "blas_numbers.h"
#include "cublas_parts.h"

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* h) {
  *h = reinterpret_cast<cublasHandle_t>(new coh::CublasHandle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t stream) {
  reinterpret_cast<coh::CublasHandle*>(h)->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t) { return "status of cuda_on_host"; }
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType a_type, int lda, long long a_step, const void* b,
    cudaDataType b_type, int ldb, long long b_step, const void* beta, void* c, cudaDataType c_type,
    int ldc, long long c_step, int batch, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const int a_rows = ta == CUBLAS_OP_N ? m : k, b_rows = tb == CUBLAS_OP_N ? k : n;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < std::max(1, a_rows) ||
      ldb < std::max(1, b_rows) || ldc < std::max(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!coh::is_supported(a_type, b_type, c_type, compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool wide = compute == CUBLAS_COMPUTE_64F;
  const double times =
      wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  const double keep = wide ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  for (const void* p : {a, b, static_cast<const void*>(c)})
    coh::check_argument(&p, sizeof(p), "an operand of cuBLAS");
  const cudaError_t queued = coh::enqueue(coh::stream_of(h), [=] {
    if (coh::skips_arithmetic) return;
    for (int q = 0; q < batch; ++q)
      for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
          double sum = 0;
          for (int l = 0; l < k; ++l)
            sum += coh::load(a, a_type, q * a_step + coh::place(ta, i, l, lda)) *
                   coh::load(b, b_type, q * b_step + coh::place(tb, l, j, ldb));
          const std::int64_t at = q * c_step + i + std::int64_t{j} * ldc;
          // c must not be read if beta is 0
          coh::store(c, c_type, at,
                     times * sum + (keep == 0 ? 0 : keep * coh::load(c, c_type, at)));
        }
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
