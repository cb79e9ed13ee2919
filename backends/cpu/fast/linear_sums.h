// Order of the sums over rows in the gradient of a narrow linear layer (linear_narrow.h), which its
// forms by rows and by lanes have in common. Each tile of rows has sums of its own, in float; those
// of the tiles of a piece are added in double, and so are the pieces.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/tools/lanes.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu::narrow_layer {

inline constexpr int64_t kLane = kLanes<float>;
inline constexpr int64_t kMaxVectors = 4;  // vectors per row
inline constexpr int64_t kMaxColumns = kMaxVectors * kLane;
inline constexpr int64_t kTile = 64;       // rows per tile; a tile stays in the first-level cache
inline constexpr int64_t kMaxPieces = 64;  // parts of the rows, each with its own sums

inline int64_t vectors_of(int64_t columns) { return (columns + kLane - 1) / kLane; }

inline int64_t tiles_of(int64_t rows) { return (rows + kTile - 1) / kTile; }
inline int64_t pieces_of(int64_t rows) { return std::min(tiles_of(rows), kMaxPieces); }
inline int64_t start_of(int64_t piece, int64_t rows) {
  return std::min(piece * tiles_of(rows) / pieces_of(rows) * kTile, rows);
}
inline int64_t piece_of(int64_t tile, int64_t rows) {
  return ((tile + 1) * pieces_of(rows) - 1) / tiles_of(rows);
}

/// Returns the number of sums, of `vectors` vectors each, that registers hold.
constexpr int most_sums(int vectors) { return std::min(8, int(kLane) / vectors); }
/// Returns the number of chains of a sum. Row i of a tile is added to chain i % chains; the chains
/// are added in their order.
constexpr int chains_of(int sums, int vectors) { return std::max(1, 8 / (sums * vectors)); }

/// Calls visit(first, last, has_total) for groups of the columns of a. The products of the columns
/// [first, last) with b, of `vectors` vectors, are summed together. If `total`, the last group also
/// has the sum of b.
template <typename Visit>
void for_each_group_of_sums(int64_t columns, int64_t vectors, bool total, const Visit& visit) {
  const int64_t most = most_sums(int(vectors));
  const int64_t groups = std::max<int64_t>(1, (columns + most - 1) / most);
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t last = (g + 1) * columns / groups;
    visit(g * columns / groups, last, total && last == columns);
  }
}

/// The sums of a piece: dw or its transpose, whichever uses vectors better, followed by db.
struct Sums {
  Sums(const Tensor& dy, const Tensor& dx, const Tensor& dw, const Tensor& db)
      : in(dx   ? dx.shape()[1]
           : dw ? dw.shape()[1]
                : 0),
        out(dy.shape()[1]),
        in_vectors(vectors_of(in)),
        out_vectors(vectors_of(out)),
        along_in(out * in_vectors <= in * out_vectors),
        bias_at(!dw        ? 0
                : along_in ? out * in_vectors * kLane
                           : in * out_vectors * kLane),
        count(bias_at + (db ? out_vectors * kLane : 0)) {}

  const int64_t in, out, in_vectors, out_vectors;
  const bool along_in;
  const int64_t bias_at, count;

  /// Adds up the sums of all pieces.
  void write(const double* parts, int64_t rows, Tensor& dw, Tensor& db) const {
    const int64_t pieces = pieces_of(rows);
    const int64_t step = kLane * (along_in ? in_vectors : out_vectors);
    for (int64_t at = 0; at < count; at += kLane) {
      double sums[kLane] = {};
      for (int64_t piece = 0; piece < pieces; ++piece)
        for (int64_t j = 0; j < kLane; ++j) sums[j] += parts[piece * count + at + j];
      if (at >= bias_at) {
        const int64_t o = at - bias_at;
        for (int64_t j = 0; j < std::min(kLane, out - o); ++j)
          db.data<float>()[o + j] = float(sums[j]);
        continue;
      }
      const int64_t row = at / step, column = at % step;
      for (int64_t j = 0; j < std::min(kLane, (along_in ? in : out) - column); ++j)
        dw.data<float>()[along_in ? row * in + column + j : (column + j) * in + row] =
            float(sums[j]);
    }
  }
};

/// Calls run(std::integral_constant<int, n>) for n in [kLeast, kMost].
template <int kMost, int kLeast = 1, typename Run>
void with_count(int64_t n, const Run& run) {
  if constexpr (kMost > kLeast) {
    if (n < kMost) return with_count<kMost - 1, kLeast>(n, run);
  }
  run(std::integral_constant<int, kMost>());
}

}  // namespace tapegrad::backends::cpu::narrow_layer
