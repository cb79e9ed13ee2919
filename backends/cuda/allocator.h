// Pools of device memory. Pool 0 is everybody's; any other number is a pool that its first use
// makes.
#pragma once

#include <cuda_runtime_api.h>

#include "core/tensor.h"

namespace tapegrad::backends::cuda {

/// TAPEGRAD_CUDA_ALLOCATOR=direct: every block is a cudaMalloc, for tools that watch those, and
/// there are no pools.
bool is_direct();

/// What this thread allocates from now on comes from the pool. Returns the one before.
int64_t use_pool(int64_t pool);
bool is_from_pool(int64_t pool, const Tensor& x);
/// Its memory becomes pool 0's, used in the stream; the device must be done with it.
void release_pool(int64_t pool, tapegrad::Device device, cudaStream_t stream);

}  // namespace tapegrad::backends::cuda
