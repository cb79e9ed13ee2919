// Order of the sums over rows in the gradient of a narrow linear layer (linear_narrow.h), which its
// forms by rows and by lanes have in common. Each tile of rows has sums of its own, in float; those
// of the tiles of a piece are added in double, and so are the pieces.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
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
inline int64_t piece_of(int64_t tile, int64_t rows) {
  return ((tile + 1) * pieces_of(rows) - 1) / tiles_of(rows);
}
inline int64_t first_tile_of(int64_t piece, int64_t rows) {
  return piece * tiles_of(rows) / pieces_of(rows);
}
inline int64_t start_of(int64_t piece, int64_t rows) {
  return std::min(first_tile_of(piece, rows) * kTile, rows);
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
};

/// The sums of the pieces of one call, whose results are added in their order. A piece of the first
/// thread whose predecessors have all been added is added as soon as it is complete, so that the
/// sums of one thread stay in the cache. Other pieces are stored until write(). A thread computes
/// whole pieces in ascending order.
class PieceSums {
 public:
  /// Bytes that are zero at first.
  static size_t zero_bytes(const Sums& sums) {
    return sizeof(State) + 2 * size_t(sums.count) * sizeof(double);
  }
  /// Bytes of stored pieces, which may be uninitialised.
  static size_t stored_bytes(int64_t rows, const Sums& sums) {
    return size_t(pieces_of(rows) * sums.count) * sizeof(double);
  }

  /// Both parts of the memory should be aligned to 64 bytes, else vectors of the sums span two
  /// cache lines. `stored` may be null if one thread computes all pieces with begin() and end().
  PieceSums(std::byte* zeros, std::byte* stored, int64_t rows, const Sums& sums)
      : state_(reinterpret_cast<State*>(zeros)),
        total_(reinterpret_cast<double*>(zeros + sizeof(State))),
        open_(total_ + sums.count),
        stored_(reinterpret_cast<double*>(stored)),
        rows_(rows),
        sums_(sums) {}

  /// Returns the place to which the sums of the tile are to be added before end(tile, place).
  double* begin(int64_t tile) const {
    if (!is_first_thread()) return stored(tile);
    const int64_t piece = piece_of(tile, rows_);
    if (is_next(piece, tile)) {
      if (is_single(piece)) return total_;
      state_->open = piece + 1;
    }
    return state_->open == piece + 1 ? open_ : stored(tile);
  }
  void end(int64_t tile, const double* place) const {
    const int64_t piece = piece_of(tile, rows_);
    if (place == open_) {
      if (tile + 1 != first_tile_of(piece + 1, rows_)) return;
      for (int64_t i = 0; i < sums_.count; ++i) total_[i] += open_[i];
      std::fill_n(open_, sums_.count, 0.0);
    } else if (place != total_) {
      return;
    }
    state_->next = piece + 1;
  }

  /// As begin() and end(), for `count` tiles whose sums are added one after the other.
  void begin(int64_t tile, int64_t count, double** places) const {
    const bool is_added =
        tiles_of(rows_) <= kMaxPieces && is_first_thread() && is_next(piece_of(tile, rows_), tile);
    for (int64_t i = 0; i < count; ++i) places[i] = is_added ? total_ : stored(tile + i);
  }
  void end(int64_t tile, int64_t count, double* const* places) const {
    if (places[0] == total_) state_->next = piece_of(tile + count - 1, rows_) + 1;
  }

  /// Writes the sums of all pieces.
  void write(Tensor& dw, Tensor& db) const {
    const auto& [in, out, in_vectors, out_vectors, along_in, bias_at, count] = sums_;
    const int64_t pieces = pieces_of(rows_), next = state_->next;
    const int64_t step = kLane * (along_in ? in_vectors : out_vectors);
    for (int64_t at = 0; at < count; at += kLane) {
      double sums[kLane];
      std::copy_n(total_ + at, kLane, sums);
      for (int64_t piece = next; piece < pieces; ++piece)
        for (int64_t j = 0; j < kLane; ++j) sums[j] += stored_[piece * count + at + j];
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

 private:
  /// Used by the first thread only. Has a cache line, which keeps the sums aligned.
  struct alignas(8) State {
    int64_t next;  // the first piece that is not added
    int64_t open;  // 1 + the piece that is being added in open_, or 0
    int64_t unused[6];
  };

  static bool is_first_thread() { return omp_get_thread_num() == 0; }

  bool is_single(int64_t piece) const {
    return first_tile_of(piece, rows_) + 1 == first_tile_of(piece + 1, rows_);
  }
  /// Returns whether the tile begins the first piece that is not added.
  bool is_next(int64_t piece, int64_t tile) const {
    return tile == first_tile_of(piece, rows_) && state_->next == piece;
  }
  double* stored(int64_t tile) const {
    const int64_t piece = piece_of(tile, rows_);
    double* sums = stored_ + piece * sums_.count;
    if (tile == first_tile_of(piece, rows_)) std::fill_n(sums, sums_.count, 0.0);
    return sums;
  }

  State* state_;
  double *total_, *open_, *stored_;
  const int64_t rows_;
  const Sums& sums_;
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
