// Sketches of results: threads share the tensor in chunks of a fixed size, so a sketch does not
// depend on their number.
#include "ops/sketch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/lanes.h"
#include "ops/internal/sketch_signs.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kBlock = kSketchLanes;  // elements
constexpr int64_t kTile = 32 * kBlock;
constexpr int64_t kChunk = 16 * kTile;

// g++ warns that vectors of 64 bytes are passed differently with and without AVX-512. All functions
// that take them are local to this file.
#pragma GCC diagnostic ignored "-Wpsabi"

// Registers of AVX-512; the compiler splits them for processors without.
using Words [[gnu::vector_size(64)]] = uint32_t;
using Numbers [[gnu::vector_size(64)]] = double;
using HalfNumbers [[gnu::vector_size(32)]] = float;
constexpr int kWords = 4, kNumbers = 8;  // registers of the hash and of a sum
static_assert(kBlock == 8 * kNumbers);
constexpr int64_t kRound = kWords * int64_t(sizeof(Words));  // bytes of a round of the hash
static_assert(kRound == kBlock * int64_t(sizeof(float)));

template <typename Vector>
Vector load(const void* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

inline Numbers widen_eight(const float* from) {
#if XSIMD_WITH_AVX512F  // g++ 12 converts halves and joins them
  return std::bit_cast<Numbers>(_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(from)));
#else
  return __builtin_convertvector(load<HalfNumbers>(from), Numbers);
#endif
}

/// a * b + c. The library is compiled without contraction to fused operations.
inline Numbers multiply_add(Numbers a, Numbers b, Numbers c) {
#if XSIMD_WITH_AVX512F
  return std::bit_cast<Numbers>(_mm512_fmadd_pd(
      std::bit_cast<__m512d>(a), std::bit_cast<__m512d>(b), std::bit_cast<__m512d>(c)));
#else
  return a * b + c;
#endif
}

/// Returns a bijection of each lane for given words, and of each word for a given lane, so one
/// changed word always changes the hash.
inline Words mix(Words lanes, Words words) {
  const Words mixed = (lanes ^ words) * 0x9E3779B1;
  return mixed ^ (mixed >> 15);
}

constexpr auto kFirstLanes = [] {
  std::array<uint32_t, kRound / 4> lanes{};
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = uint32_t(mix_bits(i));
  return lanes;
}();
constexpr auto kLaneSigns = [] {
  std::array<std::array<double, kSketchLanes>, 2> signs{};
  for (int k = 0; k < 2; ++k)
    for (int64_t lane = 0; lane < kSketchLanes; ++lane)
      signs[size_t(k)][size_t(lane)] = sketch_lane_sign(k, lane);
  return signs;
}();

struct State {
  Words hash[kWords];
  Numbers sums[kNumbers] = {}, squares[kNumbers] = {};

  State() { std::memcpy(hash, kFirstLanes.data(), sizeof hash); }
  void hash_round(const std::byte* bytes) {
    unrolled<kWords>(
        [&](auto i) { hash[i] = mix(hash[i], load<Words>(bytes + i * int64_t(sizeof(Words)))); });
  }
  /// Adds a block to the sums; load_eight(i) returns the elements from i on.
  template <typename Load>
  [[gnu::always_inline]] void add_block(int64_t block, const Load& load_eight) {
    const Numbers sign = Numbers() + sketch_block_sign(block);
    unrolled<kNumbers>([&](auto i) {
      const Numbers values = load_eight(8 * i);
      sums[i] = multiply_add(values, sign, sums[i]);
      squares[i] = multiply_add(values, values, squares[i]);
    });
  }
};

/// Adds whole blocks of floats, each of which is a round of the hash.
State add_floats(State state, const float* x, int64_t first, int64_t count) {
  for (int64_t block = first; block < first + count; ++block, x += kBlock) {
    state.hash_round(reinterpret_cast<const std::byte*>(x));
    state.add_block(
        block, [&](int64_t i) __attribute__((always_inline)) { return widen_eight(x + i); });
  }
  return state;
}

/// Adds the sums of a tile. Elements behind the last one count as zeros.
template <typename T>
void add_sums(State& state, const T* x, int64_t first, int64_t count) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  alignas(64) double values[kTile];
  for (int64_t i = 0; i < count; ++i) values[i] = double(Compute<T>(x[i]));
  std::fill(values + count, values + blocks * kBlock, 0.0);
  for (int64_t block = 0; block < blocks; ++block)
    state.add_block(
        first + block, [&](int64_t i) __attribute__((always_inline)) {
          return load<Numbers>(values + block * kBlock + i);
        });
}

/// Sketch of a chunk.
struct Part {
  uint64_t hash = 0;
  double sums[2] = {0, 0}, squares = 0;
};

template <typename T>
Part sketch_chunk(const T* x, int64_t begin, int64_t end) {
  State state;
  int64_t at = begin;
  if constexpr (std::is_same_v<T, float>) {
    const int64_t blocks = (end - begin) / kBlock;
    state = add_floats(state, x + begin, begin / kBlock, blocks);
    at += blocks * kBlock;
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(x + at);
  int64_t left = (end - at) * int64_t(sizeof(T));
  for (; at < end; at += kTile) add_sums(state, x + at, at / kBlock, std::min(kTile, end - at));
  for (; left >= kRound; left -= kRound, bytes += kRound) state.hash_round(bytes);
  if (left > 0) {
    std::byte last[kRound] = {};
    std::memcpy(last, bytes, size_t(left));
    state.hash_round(last);
  }

  Part part;
  for (int i = 1; i < kWords; ++i) state.hash[0] = mix(state.hash[0], state.hash[i]);
  for (size_t i = 0; i < sizeof(Words) / 4; i += 2)
    part.hash = mix_bits(part.hash ^ (uint64_t(state.hash[0][i]) << 32 | state.hash[0][i + 1]));
  Numbers sums[2] = {}, squares{};
  for (int i = 0; i < kNumbers; ++i) {
    for (size_t k = 0; k < 2; ++k)
      sums[k] += state.sums[i] * load<Numbers>(&kLaneSigns[k][size_t(8 * i)]);
    squares += state.squares[i];
  }
  for (size_t lane = 0; lane < 8; ++lane) {
    for (size_t k = 0; k < 2; ++k) part.sums[k] += sums[k][lane];
    part.squares += squares[lane];
  }
  return part;
}

template <typename T>
void sketch(const Tensor& x, ResultSketch& result) {
  const T* values = x.data<T>();
  const int64_t count = x.numel(), chunks = (count + kChunk - 1) / kChunk;
  Part alone;
  std::vector<Part> several(size_t(chunks > 1 ? chunks : 0));
  Part* parts = chunks > 1 ? several.data() : &alone;
#pragma omp parallel for schedule(static) if (chunks > 1)
  for (int64_t i = 0; i < chunks; ++i)
    parts[i] = sketch_chunk(values, i * kChunk, std::min(count, (i + 1) * kChunk));
  result = {uint64_t(count), {0, 0}, 0};
  double squares = 0;
  for (const Part* part = parts; part != parts + chunks; ++part) {
    result.hash = mix_bits(result.hash ^ part->hash);
    for (int k = 0; k < 2; ++k) result.sums[k] += part->sums[k];
    squares += part->squares;
  }
  result.norm = std::sqrt(squares);
}

}  // namespace

void register_sketch() {
  set<kernels::sketch>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { sketch<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
