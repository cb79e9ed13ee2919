#include "backends/cuda/blas/blas.h"

#include <cublas_v2.h>

#include <limits>
#include <unordered_map>

#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/library.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/error.h"
#include "core/base/internal/mutex.h"
#include "core/cuda.h"
#include "ops/matmul.h"

namespace tapegrad {
namespace backends::cuda {
namespace {

/// The prototype selects between cuBLAS's two functions of this name.
using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType, int lda,
                            long long a_step, const void* b, cudaDataType, int ldb,
                            long long b_step, const void* beta, void* c, cudaDataType, int ldc,
                            long long c_step, int batch, cublasComputeType_t, cublasGemmAlgo_t);
static_assert(requires { static_cast<Gemm*>(&cublasGemmStridedBatchedEx); });

/// The cuBLAS functions in use, with the prototypes of its header.
struct Cublas {
  const Found<decltype(cublasCreate_v2)> create{find_in_cublas("cublasCreate_v2")};
  const Found<decltype(cublasSetStream_v2)> set_stream{find_in_cublas("cublasSetStream_v2")};
  const Found<decltype(cublasSetWorkspace_v2)> set_workspace{
      find_in_cublas("cublasSetWorkspace_v2")};
  const Found<decltype(cublasGetStatusString)> status_string{
      find_in_cublas("cublasGetStatusString")};
  const Found<Gemm> gemm{find_in_cublas("cublasGemmStridedBatchedEx")};
};
const Cublas& cublas() {
  static const Cublas opened;
  return opened;
}

/// The cuBLAS handle of a device, used by one thread at a time. Never destroyed.
struct Library {
  Mutex mutex;
  cublasHandle_t handle ABSL_GUARDED_BY(mutex) = nullptr;
  std::unordered_map<cudaStream_t, Tensor> workspaces ABSL_GUARDED_BY(mutex);

  const Tensor& workspace(tapegrad::Device device, cudaStream_t stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Tensor& workspace = workspaces[stream];
    if (!workspace) workspace = Tensor::empty({int64_t(kWorkspace)}, u8, device);
    return workspace;
  }
};

/// Sets the stream and our workspace, so that cuBLAS allocates nothing itself.
void prepare(Library& library, cudaStream_t stream, tapegrad::Device device)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(library.mutex) {
  if (library.handle == nullptr) check(cublas().create(&library.handle), "cublasCreate");
  check(cublas().set_stream(library.handle, stream), "cublasSetStream");
  check(cublas().set_workspace(library.handle, library.workspace(device, stream).data<uint8_t>(),
                               kWorkspace),
        "cublasSetWorkspace");
}

Library& library_of(tapegrad::Device device) {
  static auto* all = new Library[kMaxDevices];
  return all[device.index];
}

int checked_int(int64_t size) {
  if (size > std::numeric_limits<int>::max())
    fail<ShapeError>(current_op(), ": cuBLAS takes sizes below 2^31, not ", size);
  return int(size);
}

}  // namespace

void check(cublasStatus_t status, std::string_view call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail<tapegrad::cuda::CudaError>(current_op(), ": ", call, ": ", cublas().status_string(status));
}

void with_cublas(tapegrad::Device device, const std::function<void(cublasHandle_t)>& f) {
  const cudaStream_t stream = stream_of(device);
  Library& library = library_of(device);
  const MutexLock lock(library.mutex);
  prepare(library, stream, device);
  f(library.handle);
}

Tensor workspace_of(tapegrad::Device device, cudaStream_t stream) {
  Library& library = library_of(device);
  const MutexLock lock(library.mutex);
  return library.workspace(device, stream);
}

cublasComputeType_t compute_type(DType dtype) {
  if (dtype == f64) return CUBLAS_COMPUTE_64F;
  return dtype == f32 && matmul_precision() != MatmulPrecision::kHighest
             ? CUBLAS_COMPUTE_32F_FAST_TF32
             : CUBLAS_COMPUTE_32F;
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case f16:
      return CUDA_R_16F;
    case bf16:
      return CUDA_R_16BF;
    case f32:
      return CUDA_R_32F;
    default:
      return CUDA_R_64F;
  }
}

void gemm(const Product& p, const Matrices& a, const Matrices& b, void* c, int64_t ldc,
          int64_t c_step, const Tensor& where) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const cudaStream_t stream = stream_of(where);
  if (p.k == 0) {
    if (p.accumulate) return;
    for (int64_t q = 0; q < p.batch; ++q)  // rows of c are contiguous
      TG_CUDA(cudaMemsetAsync(static_cast<std::byte*>(c) + q * c_step * size_of(p.result), 0,
                              size_t(p.m * ldc * size_of(p.result)), stream));
    return;
  }
  const bool wide = p.dtype == f64;
  const double one = 1, keep = p.accumulate;
  const float one_float = 1, keep_float = p.accumulate;
  const auto operation = [](const Matrices& x) { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // cuBLAS is column-major: it computes c^T = b^T a^T.
  Library& library = library_of(where.device());
  const MutexLock lock(library.mutex);
  prepare(library, stream, where.device());
  check(
      cublas().gemm(library.handle, operation(b), operation(a), checked_int(p.n), checked_int(p.m),
                    checked_int(p.k), wide ? static_cast<const void*>(&one) : &one_float, b.data,
                    data_type(p.dtype), checked_int(b.ld), b.step, a.data, data_type(p.dtype),
                    checked_int(a.ld), a.step, wide ? static_cast<const void*>(&keep) : &keep_float,
                    c, data_type(p.result), checked_int(ldc), c_step, checked_int(p.batch),
                    compute_type(p.dtype), CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

}  // namespace backends::cuda

}  // namespace tapegrad
