// Blockwise attention, for the kernels of attention.cu and attention_backward.cu.
//
// A thread block owns some rows of a head (queries; or keys, for the gradients of keys and values)
// and iterates over the other rows in tiles. One of two classes with the same members multiplies
// tiles:
//
//   ScalarTiles      attention_scalar.cuh   float and double, by multiply-adds
//   TensorCoreTiles  attention_wmma.cuh     sixteen-bit floats, by tensor cores
//
// Each thread has kRows x kColumns of a tile's scores; row(i) and column(j) are their positions.
// All threads of the block call the members that move or multiply matrices.
#pragma once

#include "backends/cuda/device/attention_scalar.cuh"
#include "backends/cuda/device/attention_wmma.cuh"

namespace tapegrad::backends::cuda::attention {

inline constexpr int kWidest = 128;  // maximum columns of an operand

template <typename T, int kWidth, bool kTwo = false>
using Tiles =
    std::conditional_t<sizeof(T) == 2, TensorCoreTiles<T, kWidth, kTwo>, ScalarTiles<T, kWidth>>;

/// Converts products to scores: applies scale and mask. The block's rows begin at `own`, those of
/// the tile at `other`.
template <bool kOwnsQueries, typename Tiles, typename T, typename V>
__device__ void finish_scores(const Problem<T>& p, const Tiles& tiles, int64_t head, int64_t own,
                              int64_t other, V (&scores)[Tiles::kRows][Tiles::kColumns]) {
  const V scale = V(p.scale);
#pragma unroll
  for (int i = 0; i < Tiles::kRows; ++i)
#pragma unroll
    for (int j = 0; j < Tiles::kColumns; ++j) scores[i][j] *= scale;
  const int64_t query = kOwnsQueries ? own : other, key = kOwnsQueries ? other : own;
  const int64_t end_of_queries = query + (kOwnsQueries ? Tiles::kOwn : Tiles::kOther);
  const int64_t end_of_keys = key + (kOwnsQueries ? Tiles::kOther : Tiles::kOwn);
  const bool whole = end_of_queries <= p.queries && end_of_keys <= p.keys;
  const bool all_seen =
      p.mask.sight == Sight::kAll || (p.mask.sight == Sight::kCausal && end_of_keys <= query + 1);
  if (whole && all_seen) return;
  const int64_t at = p.offset(p.mask.steps, head);
#pragma unroll
  for (int i = 0; i < Tiles::kRows; ++i)
#pragma unroll
    for (int j = 0; j < Tiles::kColumns; ++j) {
      const int row = tiles.row(i), column = tiles.column(j);
      scores[i][j] = p.seen(scores[i][j], query + (kOwnsQueries ? row : column),
                            key + (kOwnsQueries ? column : row), at);
    }
}

/// Elements that dropout keeps in a thread's part of a tile: a bit for each element.
template <typename Tiles>
struct Kept {
  static constexpr int kCount = Tiles::kRows * Tiles::kColumns;
  static_assert(kCount <= 64);
  using Bits = std::conditional_t<kCount <= 32, uint32_t, uint64_t>;
  Bits bits = ~Bits();

  template <typename V>
  __device__ V operator()(int row, int column, V value, V scale) const {
    return bits >> (row * Tiles::kColumns + column) & 1 ? value * scale : V(0);
  }
};

/// Draws the elements that dropout keeps; without dropout, keeps all.
template <bool kOwnsQueries, typename Tiles, typename T>
__device__ Kept<Tiles> draw_kept(const Problem<T>& p, const Tiles& tiles, int64_t head, int64_t own,
                                 int64_t other) {
  if (p.dropped.below == 0) return {};
  using Bits = typename Kept<Tiles>::Bits;
  const RandomState state = p.dropped.draw.now();
  Bits kept = 0;
  uint64_t counter = ~uint64_t(0);
  std::array<uint32_t, 4> words{};
#pragma unroll 1
  for (int n = 0; n < Kept<Tiles>::kCount; ++n) {  // not unrolled: registers do not suffice for all
                                                   // words at once
    const int64_t row = own + tiles.row(n / Tiles::kColumns);
    const int64_t column = other + tiles.column(n % Tiles::kColumns);
    const bool keeps = p.keeps(head, kOwnsQueries ? row : column, kOwnsQueries ? column : row,
                               state, counter, words);
    kept |= Bits(keeps) << n;
  }
  return {kept};
}

/// Applies dropout to attention weights.
template <bool kOwnsQueries, typename Tiles, typename T, typename V>
__device__ void drop(const Problem<T>& p, const Tiles& tiles, int64_t head, int64_t own,
                     int64_t other, V (&shares)[Tiles::kRows][Tiles::kColumns]) {
  if (p.dropped.below == 0) return;
  const Kept<Tiles> kept = draw_kept<kOwnsQueries>(p, tiles, head, own, other);
  const V scale = V(p.dropped.scale);
#pragma unroll
  for (int i = 0; i < Tiles::kRows; ++i)
#pragma unroll
    for (int j = 0; j < Tiles::kColumns; ++j) shares[i][j] = kept(i, j, shares[i][j], scale);
}

/// Number of blocks for `rows` rows of each head.
template <typename Tiles>
TG_HD int64_t parts_of(int64_t rows) {
  return (rows + Tiles::kOwn - 1) / Tiles::kOwn;
}
template <typename Tiles>
LaunchConfig blocks_for(int64_t heads, int64_t rows, const Tensor& y) {
  constexpr int64_t kMostBlocks = 0x7fffffff;
  return {unsigned(std::min(heads * parts_of<Tiles>(rows), kMostBlocks)), Tiles::kThreads,
          stream_of(y)};
}

/// Calls run(std::integral_constant<int, width>) with a width that is at least the number of
/// columns.
template <typename T, typename Run>
void with_width(const Problem<T>& p, const Run& run) {
  if (std::max(p.features, p.width) <= 64) return run(std::integral_constant<int, 64>{});
  run(std::integral_constant<int, kWidest>{});
}

}  // namespace tapegrad::backends::cuda::attention
