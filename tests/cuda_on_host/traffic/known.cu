#include "known.h"

#include <cuda_runtime.h>

#include "backends/cuda/layout/pack.h"

namespace coh {
namespace {

using tapegrad::backends::cuda::Pack;
using Four = Pack<float, 4>;
constexpr int kSide = 32;

__device__ int item() { return int(blockIdx.x * blockDim.x + threadIdx.x); }

__global__ void copy_kernel(float* y, const float* x, int step, int shift) {
  y[item()] = x[item() * step + shift];
}
__global__ void copy_packs_kernel(Four* y, const Four* x) { y[item()] = x[item()]; }
__global__ void copy_even_kernel(float* y, const float* x) {
  if (threadIdx.x % 2 == 0) y[item()] = x[item()];
}
__global__ void spread_kernel(float* y, const float* x) { y[item()] = *x; }

__global__ void transpose_kernel(float* y, const float* x, int side) {
  const int row = int(blockIdx.y * kSide + threadIdx.y),
            column = int(blockIdx.x * kSide + threadIdx.x);
  y[column * side + row] = x[row * side + column];
}
template <int kLine>
__global__ void transpose_tiles(float* y, const float* x, int side) {
  __shared__ float tile[kSide * kLine];
  const int i = int(threadIdx.y), j = int(threadIdx.x);
  tile[i * kLine + j] = x[(int(blockIdx.y) * kSide + i) * side + int(blockIdx.x) * kSide + j];
  __syncthreads();
  y[(int(blockIdx.x) * kSide + i) * side + int(blockIdx.y) * kSide + j] = tile[j * kLine + i];
}

template <typename T>
__global__ void read_shared_kernel(T* y) {
  __shared__ T values[kSide];
  values[threadIdx.x] = T{};
  __syncthreads();
  y[threadIdx.x] = values[threadIdx.x];
}

template <typename... P>
void run(void (*kernel)(P...), dim3 grid, dim3 block, std::type_identity_t<P>... arguments) {
  void* pointers[] = {&arguments...};
  if (cudaLaunchKernel<void(P...)>(kernel, grid, block, pointers, 0, nullptr) != cudaSuccess)
    fail("a kernel is not launched");
}

constexpr unsigned kThreads = 64;

}  // namespace

void copy(float* y, const float* x, int n, int step, int shift) {
  run(&copy_kernel, unsigned(n) / kThreads, kThreads, y, x, step, shift);
}
void copy_packs(float* y, const float* x, int n) {
  run(&copy_packs_kernel, unsigned(n) / 4 / kThreads, kThreads, reinterpret_cast<Four*>(y),
      reinterpret_cast<const Four*>(x));
}
void copy_even(float* y, const float* x, int n) {
  run(&copy_even_kernel, unsigned(n) / kThreads, kThreads, y, x);
}
void spread(float* y, const float* x, int n) {
  run(&spread_kernel, unsigned(n) / kThreads, kThreads, y, x);
}

void transpose(float* y, const float* x, int side, Tile tile) {
  const dim3 grid(unsigned(side / kSide), unsigned(side / kSide)), block(kSide, kSide);
  const auto kernel = tile == Tile::kNone     ? &transpose_kernel
                      : tile == Tile::kSquare ? &transpose_tiles<kSide>
                                              : &transpose_tiles<kSide + 1>;
  run(kernel, grid, block, y, x, side);
}

void read_shared(float* y, int bytes) {
  if (bytes == 4) return run(&read_shared_kernel<float>, 1, kSide, y);
  if (bytes == 8) return run(&read_shared_kernel<double>, 1, kSide, reinterpret_cast<double*>(y));
  run(&read_shared_kernel<Four>, 1, kSide, reinterpret_cast<Four*>(y));
}

}  // namespace coh
