// Signs of sketches (ops/sketch.h). tools/torch_ledger.py has a Python copy of these functions.
#pragma once

#include <cstdint>

namespace tapegrad {

/// Returns a bijection of 64 bits in which every bit depends on every bit (splitmix64).
constexpr uint64_t mix_bits(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// Odd factor of a hash of several words: the sum of each word times a power of the factor.
inline constexpr uint64_t kHashFactor = 0x9E3779B97F4A7C15;

/// A tensor in row-major order consists of tiles of kSketchRows rows of kSketchLanes elements. The
/// sign of an element in sum k is the product of the signs of its tile, row and lane.
inline constexpr int64_t kSketchLanes = 64, kSketchRows = 32;

/// The first n signs sum to about the square root of n, so that the sums of a constant have the
/// size of its norm.
constexpr int sketch_row_sign(int64_t row) { return 0x68B18CA8u >> row & 1 ? -1 : 1; }
constexpr int sketch_tile_sign(int64_t tile) {
  const int of_32 = mix_bits(uint64_t(tile) / 32) & 1 ? -1 : 1;
  return of_32 * sketch_row_sign(tile % 32);
}
/// The signs of all lanes sum to 8 or -8, so that the sums of a constant have the size of its norm.
constexpr int sketch_lane_sign(int k, int64_t lane) {
  return mix_bits((uint64_t(1) << 40) + (k == 0 ? 156 : 152)) >> lane & 1 ? -1 : 1;
}

}  // namespace tapegrad
