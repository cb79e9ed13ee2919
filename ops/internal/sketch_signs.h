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

/// The sign of element i in sum k is the product of the signs of its block, i / kSketchLanes, and
/// of its lane, i % kSketchLanes.
inline constexpr int64_t kSketchLanes = 64;

constexpr double sketch_block_sign(int64_t block) {
  return mix_bits(uint64_t(block) / 64) >> (block % 64) & 1 ? -1 : 1;
}
constexpr double sketch_lane_sign(int k, int64_t lane) {
  return mix_bits((uint64_t(1) << 40) + uint64_t(k)) >> lane & 1 ? -1 : 1;
}

}  // namespace tapegrad
