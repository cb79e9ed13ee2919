// Kernels whose memory accesses can be counted by hand.
#pragma once

#include <cstdint>

namespace coh {

/// y[i] = x[i * step + shift] for i < n, by n threads.
void copy(float* y, const float* x, int n, int step = 1, int shift = 0);
/// y[i] = x[i] for i < n, a multiple of four, by n / 4 threads.
void copy_packs(float* y, const float* x, int n);
/// copy() by the lanes with even numbers only.
void copy_even(float* y, const float* x, int n);
/// y[i] = x[0].
void spread(float* y, const float* x, int n);

enum class Tile { kNone, kSquare, kPadded };
/// Transposes a side x side matrix, through a tile of 32 rows of 32 or 33 elements in shared
/// memory.
void transpose(float* y, const float* x, int side, Tile tile);
/// Reads back an element of `bytes` (4, 8 or 16) per thread from shared memory, for one block.
void read_shared(float* y, int bytes);

}  // namespace coh
