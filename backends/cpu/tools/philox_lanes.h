// Vectorised random words: philox() (core/base/generator.h) in each lane of a vector.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/cpu/tools/simd.h"
#include "core/base/generator.h"

namespace tapegrad::backends::cpu {

inline constexpr int kWords = 256;  // words drawn at a time
using Words = uint32_t[kWords];

using Row [[gnu::vector_size(4 * kLanes<float>)]] = uint32_t;
using WideRow [[gnu::vector_size(4 * kLanes<float>)]] = uint64_t;
inline constexpr int kRow = int(kLanes<float>);

/// Returns the products of the lower halves of the lanes. For a plain product, the compiler does
/// not see that the upper halves are zero.
inline WideRow multiply_lower(WideRow a, WideRow b) {
#if XSIMD_WITH_AVX512F
  return std::bit_cast<WideRow>(
      _mm512_maskz_mul_epu32(0xff, std::bit_cast<__m512i>(a), std::bit_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return std::bit_cast<WideRow>(
      _mm256_mul_epu32(std::bit_cast<__m256i>(a), std::bit_cast<__m256i>(b)));
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

struct RowProduct {
  Row high, low;
};
inline RowProduct multiply(Row x, uint32_t factor) {
  const WideRow wide = std::bit_cast<WideRow>(x), factors = WideRow{} + factor;
  const WideRow even = multiply_lower(wide, factors), odd = multiply_lower(wide >> 32, factors);
  constexpr uint64_t kLower = 0xffffffffu;
  return {std::bit_cast<Row>((even >> 32) | (odd & ~kLower)),
          std::bit_cast<Row>((even & kLower) | (odd << 32))};
}

/// Interleaves within groups of four lanes: a0 b0 a1 b1 (lower), or a2 b2 a3 b3 (upper).
template <bool upper, int... i>
Row zip_words(Row a, Row b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (i / 4 * 4 + 2 * upper + i % 4 / 2 + i % 2 * kRow)...);
}
/// Interleaves pairs within groups of four lanes: a0 a1 b0 b1 (lower), or a2 a3 b2 b3 (upper).
template <bool upper, int... i>
Row zip_pairs(Row a, Row b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (i / 4 * 4 + 2 * upper + i % 2 + i % 4 / 2 * kRow)...);
}

/// Returns the order of counters in lanes for which the zips yield the words in the order of the
/// counters.
template <int... i>
Row order_of_counters(std::integer_sequence<int, i...>) {
  return Row{uint32_t(i % 4 * (kRow / 4) + i / 4)...};
}

/// Computes words `first`, first + 1, ... of a draw, in order; first is a multiple of 4.
inline void draw_words(RandomState state, int64_t first, Words& words) {
  constexpr auto kIndices = std::make_integer_sequence<int, kRow>();
  for (int at = 0; at < kWords; at += 4 * kRow) {
    const uint64_t counter = state.offset + uint64_t(first + at) / 4;
    Row c0 = order_of_counters(kIndices) + uint32_t(counter);
    Row c1 = Row{} + uint32_t(counter >> 32) - std::bit_cast<Row>(c0 < uint32_t(counter));
    Row c2 = {}, c3 = {};
    uint32_t k0 = uint32_t(state.seed), k1 = uint32_t(state.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto [high0, low0] = multiply(c0, 0xD2511F53u);
      const auto [high1, low1] = multiply(c2, 0xCD9E8D57u);
      c0 = high1 ^ c1 ^ k0;
      c1 = low1;
      c2 = high0 ^ c3 ^ k1;
      c3 = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const Row a = zip_words<false>(c0, c1, kIndices), b = zip_words<false>(c2, c3, kIndices);
    const Row c = zip_words<true>(c0, c1, kIndices), d = zip_words<true>(c2, c3, kIndices);
    const Row rows[4] = {zip_pairs<false>(a, b, kIndices), zip_pairs<true>(a, b, kIndices),
                         zip_pairs<false>(c, d, kIndices), zip_pairs<true>(c, d, kIndices)};
    std::memcpy(words + at, rows, sizeof(rows));
  }
}

}  // namespace tapegrad::backends::cpu
