// Sketches of results: one pass over the elements in tiles, so that the hash reads from the cache.
#include "ops/sketch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/register.h"
#include "ops/internal/sketch_signs.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kWords = 64;  // lanes of the hash
constexpr uint32_t kPrime = 0x9E3779B1;

struct Hash {
  uint32_t lanes[kWords];

  Hash() {
    for (int64_t i = 0; i < kWords; ++i) lanes[i] = uint32_t(mix_bits(uint64_t(i)));
  }
  /// Every step is a bijection of a lane, so one changed word always changes the hash.
  void add(const std::byte* bytes, int64_t rounds) {
    for (int64_t round = 0; round < rounds; ++round) {
      uint32_t words[kWords];
      std::memcpy(words, bytes + round * int64_t(sizeof words), sizeof words);
      for (int64_t i = 0; i < kWords; ++i) {
        const uint32_t mixed = (lanes[i] ^ words[i]) * kPrime;
        lanes[i] = mixed ^ (mixed >> 15);
      }
    }
  }
  uint64_t finish(const std::byte* rest, int64_t count, uint64_t total) {
    std::byte last[sizeof lanes] = {};
    std::memcpy(last, rest, size_t(count));
    add(last, 1);
    uint64_t hash = total;
    for (int64_t i = 0; i < kWords; i += 2)
      hash = mix_bits(hash ^ (uint64_t(lanes[i]) << 32 | lanes[i + 1]));
    return hash;
  }
};

struct Sums {
  double first[kSketchLanes] = {}, second[kSketchLanes] = {}, squares[kSketchLanes] = {};

  template <typename T>
  [[gnu::always_inline]] void add(const T* x, int64_t block, int64_t length) {
    const uint64_t bits = mix_bits(uint64_t(block) / 32) >> (block % 32 * 2);
    const double one = bits & 1 ? -1 : 1, two = bits & 2 ? -1 : 1;
    for (int64_t i = 0; i < length; ++i) {
      const auto value = double(Compute<T>(x[i]));
      first[i] += one * value;
      second[i] += two * value;
      squares[i] += value * value;
    }
  }
  void finish(ResultSketch& sketch) const {
    const uint64_t bits = mix_bits(kSketchLaneWord);
    double square = 0;
    for (int64_t i = 0; i < kSketchLanes; ++i) {
      sketch.sums[0] += bits >> (2 * i) & 1 ? -first[i] : first[i];
      sketch.sums[1] += bits >> (2 * i + 1) & 1 ? -second[i] : second[i];
      square += squares[i];
    }
    sketch.norm = std::sqrt(square);
  }
};

template <typename T>
void sketch(const Tensor& x, ResultSketch& result) {
  constexpr int64_t kTile = 4096;  // elements; whole blocks, and whole rounds of the hash
  const T* values = x.data<T>();
  const auto* bytes = reinterpret_cast<const std::byte*>(values);
  const int64_t count = x.numel(), size = int64_t(sizeof(T));
  Sums sums;
  Hash hash;
  int64_t hashed = 0;
  for (int64_t begin = 0; begin < count; begin += kTile) {
    const int64_t end = std::min(begin + kTile, count);
    int64_t at = begin;
    for (; at + kSketchLanes <= end; at += kSketchLanes)
      sums.add(values + at, at / kSketchLanes, kSketchLanes);
    if (at < end) sums.add(values + at, at / kSketchLanes, end - at);
    const int64_t rounds = (end * size - hashed) / int64_t(sizeof hash.lanes);
    hash.add(bytes + hashed, rounds);
    hashed += rounds * int64_t(sizeof hash.lanes);
  }
  result.hash = hash.finish(bytes + hashed, count * size - hashed, uint64_t(count));
  sums.finish(result);
}

}  // namespace

void register_sketch() {
  set<kernels::sketch>(kAllTypes, []<typename T>(Type<T>, auto&... a) { sketch<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
