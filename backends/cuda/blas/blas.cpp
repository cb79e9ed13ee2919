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

/// The prototypes select between cuBLAS's two functions of each name.
using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType, int lda,
                            long long a_step, const void* b, cudaDataType, int ldb,
                            long long b_step, const void* beta, void* c, cudaDataType, int ldc,
                            long long c_step, int batch, cublasComputeType_t, cublasGemmAlgo_t);
static_assert(requires { static_cast<Gemm*>(&cublasGemmStridedBatchedEx); });
using GemmAt = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                              int k, const void* alpha, const void* const a[], cudaDataType,
                              int lda, const void* const b[], cudaDataType, int ldb,
                              const void* beta, void* const c[], cudaDataType, int ldc, int batch,
                              cublasComputeType_t, cublasGemmAlgo_t);
static_assert(requires { static_cast<GemmAt*>(&cublasGemmBatchedEx); });

/// The cuBLAS functions in use, with the prototypes of its header.
struct Cublas {
  const Found<decltype(cublasCreate_v2)> create{find_in_cublas("cublasCreate_v2")};
  const Found<decltype(cublasSetStream_v2)> set_stream{find_in_cublas("cublasSetStream_v2")};
  const Found<decltype(cublasSetWorkspace_v2)> set_workspace{
      find_in_cublas("cublasSetWorkspace_v2")};
  const Found<decltype(cublasGetStatusString)> status_string{
      find_in_cublas("cublasGetStatusString")};
  const Found<Gemm> gemm{find_in_cublas("cublasGemmStridedBatchedEx")};
  const Found<GemmAt> gemm_at{find_in_cublas("cublasGemmBatchedEx")};
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

cublasOperation_t operation(const Matrices& x) { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

/// alpha and beta in the type in which the product is summed.
class Factors {
 public:
  explicit Factors(const Product& p) : wide_(p.dtype == f64), keep_(p.accumulate) {}
  const void* alpha() const { return wide_ ? static_cast<const void*>(&one_) : &one_float_; }
  const void* beta() const { return wide_ ? static_cast<const void*>(&keep_) : &keep_float_; }

 private:
  bool wide_;
  double one_ = 1, keep_;
  float one_float_ = 1, keep_float_ = float(keep_);
};

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
  const Factors factors(p);
  Library& library = library_of(where.device());
  const MutexLock lock(library.mutex);
  prepare(library, stream, where.device());
  // cuBLAS is column-major: it computes c^T = b^T a^T.
  check(
      cublas().gemm(library.handle, operation(b), operation(a), checked_int(p.n), checked_int(p.m),
                    checked_int(p.k), factors.alpha(), b.data, data_type(p.dtype),
                    checked_int(b.ld), b.step, a.data, data_type(p.dtype), checked_int(a.ld),
                    a.step, factors.beta(), c, data_type(p.result), checked_int(ldc), c_step,
                    checked_int(p.batch), compute_type(p.dtype), CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

void gemm_at(const Product& p, const Matrices& a, const Matrices& b, int64_t ldc,
             const Tensor& addresses) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const Factors factors(p);
  void** all = reinterpret_cast<void**>(addresses.data<int64_t>());
  Library& library = library_of(addresses.device());
  const MutexLock lock(library.mutex);
  prepare(library, stream_of(addresses), addresses.device());
  check(cublas().gemm_at(library.handle, operation(b), operation(a), checked_int(p.n),
                         checked_int(p.m), checked_int(p.k), factors.alpha(), all + p.batch,
                         data_type(p.dtype), checked_int(b.ld), all, data_type(p.dtype),
                         checked_int(a.ld), factors.beta(), all + 2 * p.batch, data_type(p.result),
                         checked_int(ldc), checked_int(p.batch), compute_type(p.dtype),
                         CUBLAS_GEMM_DEFAULT),
        "cublasGemmBatchedEx");
}

int64_t alignment_for_gemm_at(DType dtype) {
  const cublasComputeType_t type = compute_type(dtype);
  const bool exact = size_of(dtype) >= 4 && type != CUBLAS_COMPUTE_32F_FAST_TF32;
  return exact ? size_of(dtype) : 16;
}

}  // namespace backends::cuda

}  // namespace tapegrad
