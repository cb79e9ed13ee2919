// Kernel launches. All kernels are launched by launch() rather than by <<<>>>, so that a C++
// compiler can parse every .cu file; the tests run them on the CPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/stream.h"

namespace tapegrad::backends::cuda {

inline constexpr int kThreads = 256;  // default threads per block

struct LaunchConfig {
  dim3 grid, block;
  cudaStream_t stream;
  size_t shared = 0;  // bytes of dynamic_shared()
};

/// Arguments are converted to the kernel's parameter types and copied.
template <class... P>
void launch(const LaunchConfig& c, void (*kernel)(P...), std::type_identity_t<P>... args) {
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&args))...};
  check(cudaLaunchKernel<void(P...)>(kernel, c.grid, c.block, pointers, c.shared, c.stream),
        "cudaLaunchKernel");
}

/// Returns the number of threads, in whole warps, of a single block for `items` items.
inline unsigned whole_warps(int64_t items) {
  return unsigned(std::clamp<int64_t>((items + 31) / 32 * 32, 32, kThreads));
}

/// Launch configuration for kernels that process `count` items in grid-stride loops: blocks of
/// kThreads for `per_block` items each, limited to a small multiple of the device's capacity.
inline LaunchConfig grid_for(int64_t count, int64_t per_block, const Tensor& y) {
  const cudaStream_t stream = stream_of(y);
  const int64_t enough = int64_t(devices().multiprocessors[y.device().index]) * 32;
  const int64_t blocks = std::clamp<int64_t>((count + per_block - 1) / per_block, 1, enough);
  return {unsigned(blocks), kThreads, stream};
}

/// grid_for() with `per_thread` items per thread. A single block is made as small as possible.
inline LaunchConfig threads_for(int64_t count, const Tensor& y, int per_thread = 1) {
  LaunchConfig config = grid_for(count, int64_t(kThreads) * per_thread, y);
  if (config.grid.x == 1) config.block = whole_warps((count + per_thread - 1) / per_thread);
  return config;
}

/// Returns the first item of this thread, and the stride to the next, for one item per thread.
__device__ inline int64_t first_item() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t item_step() { return int64_t(gridDim.x) * blockDim.x; }

}  // namespace tapegrad::backends::cuda
