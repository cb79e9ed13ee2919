// Pools of device memory. Pool 0 is everybody's; any other number is a pool that its first use
// makes.
#pragma once

#include <cuda_runtime_api.h>

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// TAPEGRAD_CUDA_ALLOCATOR=direct: every block is a cudaMalloc, for tools that watch those, and
/// there are no pools.
bool is_direct();

/// What this thread allocates comes from this pool.
int64_t pool_in_use();
/// From now on from another. Returns the one before.
int64_t use_pool(int64_t pool);

/// Where a tensor's memory is from, and the stream it was made for.
struct Home {
  int64_t pool = 0;
  cudaStream_t stream = nullptr;
};
Home home_of(const Storage& x);
bool is_from_pool(int64_t pool, const Tensor& x);
/// Its memory becomes pool 0's, used in the stream; the device must be done with it.
void release_pool(int64_t pool, tapegrad::Device device, cudaStream_t stream);

}  // namespace tapegrad::backends::cuda
