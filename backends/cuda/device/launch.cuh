// The only way to launch a kernel. (Not <<<>>>, so that a plain C++ compiler can parse every .cu
// file: the tests run them on the CPU.)
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/stream.h"

namespace tapegrad::backends::cuda {

inline constexpr int kThreads = 256;  // of a block, unless there is a reason

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

/// Threads for so many items, if they fit into one block.
inline unsigned whole_warps(int64_t items) {
  return unsigned(std::clamp<int64_t>((items + 31) / 32 * 32, 32, kThreads));
}

/// For kernels that go through `count` items in steps of the grid: blocks of kThreads for
/// `per_block` items each, but not more than fill the device a few times over.
inline LaunchConfig grid_for(int64_t count, int64_t per_block, const Tensor& y) {
  const cudaStream_t stream = stream_of(y);
  const int64_t enough = int64_t(devices().multiprocessors[y.device().index]) * 32;
  const int64_t blocks = std::clamp<int64_t>((count + per_block - 1) / per_block, 1, enough);
  return {unsigned(blocks), kThreads, stream};
}

/// The same where a thread takes `per_thread` items; a single block is as small as it can be.
inline LaunchConfig threads_for(int64_t count, const Tensor& y, int per_thread = 1) {
  LaunchConfig config = grid_for(count, int64_t(kThreads) * per_thread, y);
  if (config.grid.x == 1) config.block = whole_warps((count + per_thread - 1) / per_thread);
  return config;
}

/// The first item of this thread, and the step to the next, where a thread takes one item.
__device__ inline int64_t first_item() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t item_step() { return int64_t(gridDim.x) * blockDim.x; }

}  // namespace tapegrad::backends::cuda
