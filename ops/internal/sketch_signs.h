// Signs and hash constants of sketches (ops/sketch.h). docs/compare_runs.md repeats the signs in
// Python.
#pragma once

#include <cstdint>

namespace tapegrad {

/// A bijection of 64 bits in which every bit depends on every bit (splitmix64).
inline uint64_t mix_bits(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// The sign of element i in sum k is the product of a sign of its block of sketch lanes and a sign
/// of its lane. Bit 2 (block % 32) + k of mix_bits(block / 32) set makes the sign of the block -1;
/// bit 2 lane + k of mix_bits(kSketchLaneWord) that of the lane.
inline constexpr int64_t kSketchLanes = 16;
inline constexpr uint64_t kSketchLaneWord = uint64_t(1) << 40;

}  // namespace tapegrad
