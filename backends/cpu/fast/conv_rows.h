// Padded parts of images for convolutions whose vectors lie along image rows. A stride divides the
// padded image into phases: phase (a, b) has the elements of rows a, a + stride, ... and of columns
// b, b + stride, ... In the phases, the elements that a kernel's tap needs for neighbouring results
// are neighbours.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/relu.h"
#include "ops/conv.h"

namespace tapegrad::backends::cpu {

inline constexpr int64_t kPaddedFloats = 1 << 16;  // 256 KiB of the second-level cache
inline constexpr int64_t kFewestTaps = 64;  // that pay for moving elements to phases or joined rows
inline constexpr int64_t kParallelSmall = 1 << 18;  // products that justify a second thread
inline constexpr int64_t kMostPieces = 64;          // parts of dy, each with its own sums
inline constexpr int64_t kFewestParts = 4;          // of dw, which threads share

inline int64_t in_lanes(int64_t n) {
  return (n + kLanes<float> - 1) / kLanes<float> * kLanes<float>;
}

/// Copies a short row in line: a call of memcpy() takes longer than the copy.
inline void copy_row(const float* from, int64_t count, float* to) {
  using B = Batch<float>;
  if (count < kLanes<float>) {
    std::copy_n(from, count, to);
    return;
  }
  for (int64_t i = 0; i < count; i += kLanes<float>) {
    const int64_t at = std::min(i, count - kLanes<float>);  // the last vector may overlap
    B::load_unaligned(from + at).store_unaligned(to + at);
  }
}

/// Returns the number of elements first, first + step, ... of `size` elements.
inline int64_t steps_within(int64_t size, int64_t first, int64_t step) {
  return (size - first + step - 1) / step;
}

/// The planes that a convolution of images reads or writes. The channels may be those of a group; a
/// volume counts as one image for each plane of the result, whose channels are the planes that the
/// result reads.
struct Planes {
  int64_t channels;   // of all groups
  int64_t first = 0;  // channel of the group
  int64_t depth = 1;  // planes of a channel
  int64_t taps = 1;   // of a channel, for one plane of the result
  // Tap t of plane z of the result is plane z * step + shift + t * tap_step of the volume.
  int64_t step = 1, shift = 0, tap_step = 1;
};

/// A convolution of the channels of one group.
struct RowSizes {
  int64_t batch, in, height, width, out, kernel_height, kernel_width, out_height, out_width;
  Size2d stride, padding, dilation;
  int64_t band = out_height;  // rows of the result that are computed from one padded part
  int64_t images = 1;         // whose padded parts are processed together
  bool joins_rows = false;    // a vector may cover the end of a row and the beginning of the next
  int64_t out_depth = 1;      // planes of a volume of the result
  Planes from, to;

  RowSizes(const Shape& x, const Shape& w, const Shape& y, const Conv2dOptions& options)
      : batch(x[0]),
        in(w[1]),
        height(x[2]),
        width(x[3]),
        out(w[0] / options.groups),
        kernel_height(w[2]),
        kernel_width(w[3]),
        out_height(y[2]),
        out_width(y[3]),
        stride(options.stride),
        padding(options.padding),
        dilation(options.dilation),
        from{x[1]},
        to{w[0]} {}
  /// Returns the index of plane c of image n in x; -1 if zeros stand for it.
  int64_t from_plane(int64_t n, int64_t c) const {
    const int64_t at = n % out_depth * from.step + from.shift + c % from.taps * from.tap_step;
    if (at < 0 || at >= from.depth) return -1;
    return (n / out_depth * from.channels + from.first + c / from.taps) * from.depth + at;
  }
  /// Returns the index of plane o of image n in y. Planes of successive channels are to.depth
  /// apart.
  int64_t to_plane(int64_t n, int64_t o) const {
    return (n / out_depth * to.channels + to.first + o) * to.depth + n % out_depth * to.step +
           to.shift;
  }
  int64_t taps() const { return in * kernel_height * kernel_width; }
  int64_t out_plane() const { return out_height * out_width; }
  int64_t products() const { return batch * out * taps() * out_plane(); }
  int64_t bands() const { return (out_height + band - 1) / band; }
  // Distances between the first and the last element of a kernel, in rows and columns.
  int64_t reach_down() const { return dilation.height * (kernel_height - 1); }
  int64_t reach_right() const { return dilation.width * (kernel_width - 1); }
  // Numbers of phases that kernels reach.
  int64_t phases_down() const { return std::min(stride.height, reach_down() + 1); }
  int64_t phases_right() const { return std::min(stride.width, reach_right() + 1); }
  // Sizes of a phase of the padded part. Unless rows are joined, rows are long enough for vectors
  // that exceed the width.
  int64_t joined_row() const { return out_width + reach_right() / stride.width; }
  int64_t row() const {
    return joins_rows ? joined_row() : in_lanes(out_width) + reach_right() / stride.width;
  }
  int64_t rows() const { return band + reach_down() / stride.height; }
  int64_t padded_part() const { return in * phases_down() * phases_right() * rows() * row(); }

  /// Returns the number of rows of the result whose padded part has at most `floats` elements, at
  /// least 0.
  int64_t rows_within(int64_t floats) const {
    return std::max<int64_t>(
        floats / (in * phases_down() * phases_right() * row()) - reach_down() / stride.height, 0);
  }
};

/// Returns whether vectors across rows save a tenth or more, which pays for copying rows.
inline bool gains_by_joining(const RowSizes& s) {
  return s.taps() >= kFewestTaps && 10 * s.joined_row() <= 9 * in_lanes(s.out_width);
}

/// Rows or columns [begin, end) of a phase that lie in the image; `first` of the image is that of
/// `begin`.
struct PhaseRange {
  int64_t begin, end, first;

  /// Element i of the phase is element i * step + offset of the image, which has `size`. The phase
  /// has `count` elements.
  PhaseRange(int64_t size, int64_t step, int64_t offset, int64_t count)
      : begin(offset < 0 ? (step - 1 - offset) / step : 0),
        end(size > offset ? std::min(count, (size - offset + step - 1) / step) : 0),
        first(begin * step + offset) {}
};

/// Copies the elements of image n that the results from row `first` on need, with zero padding, and
/// zeros where a row's last vector exceeds the width. Elements where `results`, the result of a
/// ReLU, is not positive are zero as well; it may be null, and is null unless the stride is 1.
void pad_image(const float* images, const float* results, const RowSizes& s, int64_t n,
               int64_t first, float* padded);

/// Returns the offsets in the padded part of the elements of a kernel.
inline std::vector<int64_t> tap_offsets(const RowSizes& s) {
  std::vector<int64_t> offsets;
  for (int64_t c = 0; c < s.in; ++c)
    for (int64_t u = 0; u < s.reach_down() + 1; u += s.dilation.height)
      for (int64_t v = 0; v < s.reach_right() + 1; v += s.dilation.width) {
        const int64_t phase =
            (c * s.phases_down() + u % s.stride.height) * s.phases_right() + v % s.stride.width;
        offsets.push_back((phase * s.rows() + u / s.stride.height) * s.row() + v / s.stride.width);
      }
  return offsets;
}

/// Loads values into a register for all their uses: g++ would read the memory for each
/// use, and a Zen 4 reads only 64 bytes per cycle.
inline Batch<float> in_register(Batch<float> values) {
#if XSIMD_WITH_AVX512F
  asm("" : "+v"(values.data));
#endif
  return values;
}

/// The rows of the images that are multiplied together.
struct BandRows {
  int64_t first_image, images, begin, rows;

  BandRows(const RowSizes& s, int64_t task)
      : first_image(task / s.bands() * s.images),
        images(std::min(s.images, s.batch - first_image)),
        begin(task % s.bands() * s.band),
        rows(std::min(s.band, s.out_height - begin)) {}
};

/// Returns the sum of rows of a channel of dy, and copies them to rows that are `row()` elements
/// apart unless `to` is null. Elements where `results`, the result of a ReLU, is not positive count
/// as zero; `results` may be null. The order of the sum depends on the sizes alone: a ReLU that is
/// part of the convolution gives the same bits as a ReLU of its own.
inline double sum_rows(const float* dy, const float* results, const RowSizes& s, int64_t rows,
                       float* to) {
  using B = Batch<float>;
  const int64_t rest = s.out_width % kLanes<float>, whole = s.out_width - rest;
  alignas(64) float lanes[kLanes<float>];  // 1 in the lanes that a row's last vector adds
  for (int64_t i = 0; i < kLanes<float>; ++i) lanes[i] = i >= kLanes<float> - rest ? 1.0f : 0.0f;
  const auto is_new = B::load_aligned(lanes) > B(0.5f);
  B total(0.0f);
  double of_short_rows = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t begin = i * s.out_width;
    float* row = to != nullptr ? to + i * s.row() : nullptr;
    const auto next = [&](int64_t at) {
      B values = B::load_unaligned(dy + begin + at);
      if (results != nullptr)
        values = formulas::ReluBackward()(values, B::load_unaligned(results + begin + at));
      if (row != nullptr) values.store_unaligned(row + at);
      return values;
    };
    for (int64_t j = 0; j < whole; j += kLanes<float>) total += next(j);
    if (whole > 0 && rest > 0)  // overlaps the previous vector
      total += select(is_new, next(s.out_width - kLanes<float>), B(0.0f));
    for (int64_t j = 0; whole == 0 && j < rest; ++j) {
      const bool counts = results == nullptr || !(results[begin + j] <= 0);
      const float value = counts ? dy[begin + j] : 0.0f;
      of_short_rows += double(value);
      if (row != nullptr) row[j] = value;
    }
  }
  return double(xsimd::hadd(total)) + of_short_rows;
}

}  // namespace tapegrad::backends::cpu
