// Kernels with mistakes, and the same without.
#pragma once

#include <cuda_runtime_api.h>

namespace faults {

/// Reverses 64 numbers within a block, through shared memory.
void reverse(float* x, bool forget_barrier, cudaStream_t stream);
/// x[i] = i for `threads` threads.
void write_numbers(float* x, int threads, cudaStream_t stream);
/// x[0] = *from.
void read_through(float* x, const float* from, cudaStream_t stream);
/// Some threads of a warp wait where the others never come.
void diverge(float* x, cudaStream_t stream);
/// Sums a warp with lanes that have returned.
void shuffle_with_the_gone(float* x, cudaStream_t stream);
/// Each of two warps reads what the other writes between two barriers too few.
void exchange_between_warps(float* x, bool forget_barrier, cudaStream_t stream);

enum class Mistake { kNone, kPlace, kStep, kLanesDiffer, kLaneLeaves, kNotCleared, kNoBarrier };
/// 256 numbers 16, by a warp's product of matrices.
void multiply_ones(float* x, Mistake mistake, cudaStream_t stream);

}  // namespace faults
