// Kernels with planted mistakes, and the same kernels without.
#pragma once

#include <cuda_runtime_api.h>

namespace faults {

/// Reverses 64 numbers within a block, through shared memory.
void reverse(float* x, bool forget_barrier, cudaStream_t stream);
/// Writes x[i] = i with `threads` threads.
void write_numbers(float* x, int threads, cudaStream_t stream);
/// Writes x[0] = *from.
void read_through(float* x, const float* from, cudaStream_t stream);
/// Some threads of a warp wait at a barrier that the others never reach.
void diverge(float* x, cudaStream_t stream);
/// Sums over a warp whose mask includes lanes that have returned.
void shuffle_with_the_gone(float* x, cudaStream_t stream);
/// Each of two warps reads what the other one writes, with two barriers missing.
void exchange_between_warps(float* x, bool forget_barrier, cudaStream_t stream);

enum class Mistake { kNone, kPlace, kStep, kLanesDiffer, kLaneLeaves, kNotCleared, kNoBarrier };
/// Writes 256 numbers 16, computed by a warp's matrix product.
void multiply_ones(float* x, Mistake mistake, cudaStream_t stream);

}  // namespace faults
