// Pools of device memory. Pool 0 is the default pool; any other pool is created at its first use.
#pragma once

#include <cuda_runtime_api.h>

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Returns whether TAPEGRAD_CUDA_ALLOCATOR=direct is set: every block is then a cudaMalloc, for
/// tools that observe those calls, and there are no pools.
bool is_direct();

/// Returns the pool from which this thread allocates.
int64_t pool_in_use();
/// Sets the pool of this thread and returns the previous one.
int64_t use_pool(int64_t pool);

/// The pool of a tensor's memory and the stream that it was allocated for.
struct Home {
  int64_t pool = 0;
  cudaStream_t stream = nullptr;
};
Home home_of(const TensorStorage& x);
bool is_from_pool(int64_t pool, const Tensor& x);
/// Moves the pool's memory to pool 0, for use in the stream. The device must have finished using
/// it.
void release_pool(int64_t pool, tapegrad::Device device, cudaStream_t stream);

}  // namespace tapegrad::backends::cuda
