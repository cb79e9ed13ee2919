// Geometry of convolutions that compute blocks of channels (conv_grouped.cpp): which rows and
// columns a result reads, and which channels.
#pragma once

#include <array>
#include <vector>

#include "backends/cpu/tools/simd.h"
#include "ops/conv.h"

namespace tapegrad::backends::cpu {

/// The positions that each result reads. Results are processed in bands of rows; a band reads rows
/// of the source, which are copied to a workspace with zeros around the image.
///
/// Results of one phase read sources at the same distances. A convolution has one phase; its
/// gradient with respect to the image has one for each row and column modulo the stride.
struct Windows {
  struct Tap {
    int64_t weight;       // index of the kernel's element
    int64_t row, column;  // in the source, of the first result of the phase
    int64_t offset;       // in the workspace, in floats
  };
  struct Phase {
    int64_t row, column;  // of the first result
    std::vector<Tap> taps;
    int run =
        1;  // kRun if the taps are runs of kRun that read adjacent columns of a row, up or down
  };
  static constexpr int kRun = 3;
  /// A band: its rows of the result, and the rows of the source that it reads.
  struct Rows {
    int64_t begin, end, first_read, read;
  };

  /// Returns the windows of a convolution, which reads x and computes y.
  static Windows forward(const Shape& weight, const Shape& y, const Conv2dOptions& options);
  /// Returns the windows of the gradient of a convolution, which reads dy and computes dx.
  static Windows backward(const Shape& weight, const Shape& dx, const Conv2dOptions& options);

  Rows rows_of(int64_t band) const;
  int64_t band_floats() const { return band_reads * columns * kLane; }
  /// Returns the first position that row i of the result reads, in a workspace of its band.
  int64_t place(int64_t i, const Rows& rows) const {
    return (i / to_stride.height - rows.begin / to_stride.height) * row_step();
  }
  int64_t row_step() const { return from_stride.height * columns * kLane; }
  int64_t step() const { return from_stride.width * kLane; }
  /// Returns the results of a phase in each row.
  int64_t count(const Phase& phase) const {
    return (size.width - phase.column + to_stride.width - 1) / to_stride.width;
  }

  Size2d size, to_stride, from_stride;  // of the result; between results and reads of a phase
  std::vector<Phase> phases;
  int64_t first_column = 0, columns = 0;  // of the workspace, in the source
  int64_t first_row = 0, row_count = 0;   // read by the first results
  int64_t band_rows = 0, band_reads = 0, bands = 0;

 private:
  static constexpr int64_t kLane = kLanes<float>;

  Windows(const Shape& to, Size2d to_stride, Size2d from_stride)
      : size(to[2], to[3]), to_stride(to_stride), from_stride(from_stride) {}
  void finish();
  bool is_of_runs(const Phase& phase) const;
};

/// The channels that a block of the destination reads: each lane those of its group.
struct Wiring {
  static constexpr int64_t kLane = kLanes<float>;
  /// One channel of the group for each lane, all in one block of the source.
  struct Term {
    int64_t source;                    // index into sources
    std::array<int32_t, kLane> lanes;  // of the source
    std::array<int32_t, kLane> index;  // of the channel in the group; -1: none
  };

  Wiring() = default;
  /// to_group and from_group are the channels of a group on either side.
  Wiring(int64_t block, int64_t channels, int64_t to_group, int64_t from_group);

  std::vector<int64_t> sources;  // blocks
  std::vector<Term> terms;
  bool straight = false;  // whether each term keeps the lanes in order
};

}  // namespace tapegrad::backends::cpu
