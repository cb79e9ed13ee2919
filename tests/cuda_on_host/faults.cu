#include "faults.h"

#include <mma.h>

#include "backends/cuda/device/launch.cuh"

namespace faults {

using tapegrad::backends::cuda::launch;

namespace {

__global__ void reverse_kernel(float* x, bool forget_barrier) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  if (!forget_barrier) __syncthreads();
  x[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void write_kernel(float* x) { x[threadIdx.x] = float(threadIdx.x); }

__global__ void read_kernel(float* x, const float* from) { x[0] = *from; }

__global__ void diverge_kernel(float* x) {
  if (threadIdx.x < 7) __syncthreads();
  if (threadIdx.x >= 7) __syncwarp(0xffffffffu);
  x[0] = 1;
}

__global__ void shuffle_kernel(float* x) {
  if (threadIdx.x == 3) return;
  x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
}

/// A block-wide maximum, computed twice in one buffer.
__global__ void exchange_kernel(float* x, bool forget_barrier) {
  __shared__ float part[2];
  const unsigned warp = threadIdx.x / 32;
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x % 32 == 0) part[warp] = float(10 * round + int(warp));
    __syncthreads();
    x[round * 64 + threadIdx.x] = part[1 - warp];
    if (!forget_barrier) __syncthreads();
  }
}

/// x[0..256) = a b for two matrices of ones, with a mistake.
__global__ void product_kernel(float* x, Mistake mistake) {
  namespace wmma = nvcuda::wmma;
  __shared__ __align__(32) __half ones[16 * 24];
  for (unsigned i = threadIdx.x; i < 16 * 24; i += 32) ones[i] = __float2half(1);
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::load_matrix_sync(a, ones + (mistake == Mistake::kPlace ? 8 : 0),
                         mistake == Mistake::kStep ? 20 : 24);
  wmma::load_matrix_sync(b, ones + (mistake == Mistake::kLanesDiffer && threadIdx.x > 3 ? 16 : 0),
                         24);
  if (mistake != Mistake::kNotCleared) wmma::fill_fragment(sum, 0.0f);
  if (mistake == Mistake::kLaneLeaves && threadIdx.x == 5) return;
  wmma::mma_sync(sum, a, b, sum);
  __shared__ __align__(32) float to[256];
  wmma::store_matrix_sync(to, sum, 16, wmma::mem_row_major);
  if (mistake != Mistake::kNoBarrier) __syncwarp();
  for (unsigned i = threadIdx.x; i < 256; i += 32) x[i] = to[i];
}

}  // namespace

void reverse(float* x, bool forget_barrier, cudaStream_t stream) {
  launch({1, 64, stream}, &reverse_kernel, x, forget_barrier);
}
void write_numbers(float* x, int threads, cudaStream_t stream) {
  launch({1, unsigned(threads), stream}, &write_kernel, x);
}
void read_through(float* x, const float* from, cudaStream_t stream) {
  launch({1, 1, stream}, &read_kernel, x, from);
}
void diverge(float* x, cudaStream_t stream) { launch({1, 32, stream}, &diverge_kernel, x); }
void shuffle_with_the_gone(float* x, cudaStream_t stream) {
  launch({1, 32, stream}, &shuffle_kernel, x);
}
void exchange_between_warps(float* x, bool forget_barrier, cudaStream_t stream) {
  launch({1, 64, stream}, &exchange_kernel, x, forget_barrier);
}

void multiply_ones(float* x, Mistake mistake, cudaStream_t stream) {
  launch({1, 32, stream}, &product_kernel, x, mistake);
}

}  // namespace faults
