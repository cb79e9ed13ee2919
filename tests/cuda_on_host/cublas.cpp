// The cuBLAS calls of the backend: the toolkit's prototypes, implemented by plain loops.
// Column-major, sums in double.
#include <cublas_v2.h>

#include "blas_numbers.h"
#include "cublas_parts.h"
#include "factors.h"

namespace {

/// The arguments that the functions for products share.
struct Gemm {
  cublasOperation_t ta, tb;
  int m, n, k;
  cudaDataType a_type;
  int lda;
  cudaDataType b_type;
  int ldb;
  cudaDataType c_type;
  int ldc, batch;
  cublasComputeType_t compute;
  double times = 0, keep = 0;

  void set_factors(const void* alpha, const void* beta) {
    const auto number = [&](const void* x) {
      return compute == CUBLAS_COMPUTE_64F ? *static_cast<const double*>(x)
                                           : double(*static_cast<const float*>(x));
    };
    times = number(alpha), keep = number(beta);
  }

  cublasStatus_t status() const {
    const int a_rows = ta == CUBLAS_OP_N ? m : k, b_rows = tb == CUBLAS_OP_N ? k : n;
    if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < std::max(1, a_rows) ||
        ldb < std::max(1, b_rows) || ldc < std::max(1, m))
      return CUBLAS_STATUS_INVALID_VALUE;
    return coh::is_supported(a_type, b_type, c_type, compute) ? CUBLAS_STATUS_SUCCESS
                                                              : CUBLAS_STATUS_NOT_SUPPORTED;
  }

  /// Returns whether kernels for tensor cores may compute, which fault at operands that are not
  /// aligned.
  bool needs_alignment() const {
    return a_type == CUDA_R_16F || a_type == CUDA_R_16BF || compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  }

  /// One product of matrices that begin at offsets, counted in elements.
  void multiply(const void* a, std::int64_t a_at, const void* b, std::int64_t b_at, void* c,
                std::int64_t c_at) const {
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i) {
        double sum = 0;
        for (int l = 0; l < k; ++l)
          sum += coh::load(a, a_type, a_at + coh::place(ta, i, l, lda)) *
                 coh::load(b, b_type, b_at + coh::place(tb, l, j, ldb));
        const std::int64_t at = c_at + i + std::int64_t{j} * ldc;
        // c must not be read if beta is 0
        coh::store(c, c_type, at, times * sum + (keep == 0 ? 0 : keep * coh::load(c, c_type, at)));
      }
  }
};

void record(const Gemm& g, const char* name) {
  if (coh::products == nullptr) return;
  const auto letter = [](cublasOperation_t t) { return t == CUBLAS_OP_N ? "N" : "T"; };
  coh::products->push_back(coh::joined(name, "(", letter(g.ta), letter(g.tb), ", ", g.m, " x ", g.n,
                                       " x ", g.k, ", ld ", g.lda, " ", g.ldb, " ", g.ldc,
                                       ", batch ", g.batch, ")"));
}

cublasStatus_t submit(cublasHandle_t handle, std::function<void()> work) {
  const auto run = [work = std::move(work)] {
    if (!coh::skips_arithmetic) work();
  };
  return coh::enqueue(coh::stream_of(handle), run) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                  : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

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
  Gemm gemm{ta, tb, m, n, k, a_type, lda, b_type, ldb, c_type, ldc, batch, compute};
  if (gemm.status() != CUBLAS_STATUS_SUCCESS) return gemm.status();
  gemm.set_factors(alpha, beta);
  coh::require_device(a, b, c);
  record(gemm, "gemmStridedBatched");
  return submit(h, [=] {
    for (int q = 0; q < batch; ++q) gemm.multiply(a, q * a_step, b, q * b_step, c, q * c_step);
  });
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                   int m, int n, int k, const void* alpha, const void* const a[],
                                   cudaDataType a_type, int lda, const void* const b[],
                                   cudaDataType b_type, int ldb, const void* beta, void* const c[],
                                   cudaDataType c_type, int ldc, int batch,
                                   cublasComputeType_t compute, cublasGemmAlgo_t) {
  Gemm gemm{ta, tb, m, n, k, a_type, lda, b_type, ldb, c_type, ldc, batch, compute};
  if (gemm.status() != CUBLAS_STATUS_SUCCESS) return gemm.status();
  gemm.set_factors(alpha, beta);
  coh::require_device(a, b, c);
  record(gemm, "gemmBatched");
  return submit(h, [=, device = coh::device_of(a)] {
    for (int q = 0; q < batch; ++q) {
      for (const void* p : {a[q], b[q], static_cast<const void*>(c[q])}) {
        if (coh::device_of(p) != device)
          coh::fail("cublasGemmBatchedEx: an operand is not on the device");
        if (gemm.needs_alignment() && reinterpret_cast<std::uintptr_t>(p) % 16 != 0)
          coh::fail("cublasGemmBatchedEx: an operand is not aligned to 16 bytes");
      }
      gemm.multiply(a[q], 0, b[q], 0, c[q], 0);
    }
  });
}

}  // extern "C"
