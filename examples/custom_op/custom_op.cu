// GPU kernel of log_cosh, for float32 and float64.
#include <cuda_runtime.h>

#include <tapegrad/core/cuda.h>
#include <tapegrad/core/error.h>

#include "log_cosh.h"

namespace {

template <typename T>
__global__ void log_cosh_of(const T* x, T* y, int64_t n) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const T a = fabs(x[i]);
    y[i] = a + log1p(exp(T(-2) * a)) - T(0.693147180559945309);
  }
}

}  // namespace

void register_log_cosh_cuda() {
  tg::set_kernel(log_cosh_kernel, tg::DeviceType::kCuda, tg::TypeList<float, double>{},
                 []<typename T>(tg::TypeTag<T>, const tg::Tensor& x, tg::Tensor& y) {
                   // The stream of the calling thread orders this kernel after the producer of x
                   // and before the readers of y.
                   const auto stream =
                       static_cast<cudaStream_t>(tg::cuda::current_stream(x.device()).native());
                   const T* in = x.data<T>();
                   T* out = y.data<T>();
                   int64_t n = x.numel();
                   if (n == 0) return;
                   constexpr unsigned kThreads = 256, kMostBlocks = 4096;
                   const unsigned blocks = n < kThreads * kMostBlocks
                                               ? unsigned(n + kThreads - 1) / kThreads
                                               : kMostBlocks;
                   // Like log_cosh_of<T><<<blocks, kThreads, 0, stream>>>(in, out, n), but returns
                   // a status.
                   void* arguments[] = {&in, &out, &n};
                   const cudaError_t status = cudaLaunchKernel<void(const T*, T*, int64_t)>(
                       log_cosh_of<T>, dim3(blocks), dim3(kThreads), arguments, 0, stream);
                   if (status != cudaSuccess)
                     tg::fail<tg::cuda::CudaError>("log_cosh: ", cudaGetErrorString(status));
                 });
}
