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

/// A convolution of one group.
struct RowSizes {
  int64_t batch, in, height, width, out, kernel_height, kernel_width, out_height, out_width;
  Size2d stride, padding, dilation;
  int64_t band = out_height;  // rows of the result that are computed from one padded part
  bool joins_rows = false;    // a vector may cover the end of a row and the beginning of the next

  RowSizes(const Shape& x, const Shape& w, const Shape& y, const Conv2dOptions& options)
      : batch(x[0]),
        in(x[1]),
        height(x[2]),
        width(x[3]),
        out(w[0]),
        kernel_height(w[2]),
        kernel_width(w[3]),
        out_height(y[2]),
        out_width(y[3]),
        stride(options.stride),
        padding(options.padding),
        dilation(options.dilation) {}
  /// Returns the convolution of dy that computes dx, for a stride of 1.
  static RowSizes of_gradient(const Shape& dy, const Shape& w, const Shape& dx,
                              const Conv2dOptions& options) {
    RowSizes s(dy, {w[1], w[0], w[2], w[3]}, dx, options);
    s.padding =
        Size2d(s.reach_down() - options.padding.height, s.reach_right() - options.padding.width);
    return s;
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

/// Copies the elements of the image that the results from row `first` on need, with zero padding,
/// and zeros where a row's last vector exceeds the width. Elements where `results`, the result of a
/// ReLU, is not positive are zero as well; it may be null, and is null unless the stride is 1.
inline void pad_image(const float* image, const float* results, const RowSizes& s, int64_t first,
                      float* padded) {
  std::fill_n(padded, s.padded_part(), 0.0f);
  const int64_t row = s.row(), plane = s.rows() * row;
  for (int64_t a = 0; a < s.phases_down(); ++a)
    for (int64_t b = 0; b < s.phases_right(); ++b) {
      const PhaseRange down(s.height, s.stride.height,
                            first * s.stride.height + a - s.padding.height, s.rows());
      const PhaseRange right(s.width, s.stride.width, b - s.padding.width, row);
      const int64_t count = right.end - right.begin, step = s.stride.width;
      if (count <= 0) continue;
      for (int64_t c = 0; c < s.in; ++c) {
        int64_t from = (c * s.height + down.first) * s.width + right.first;
        float* to = padded + ((c * s.phases_down() + a) * s.phases_right() + b) * plane +
                    down.begin * row + right.begin;
        for (int64_t i = down.begin; i < down.end;
             ++i, from += s.stride.height * s.width, to += row) {
          if (results != nullptr)
            mask_by_result(image + from, results + from, count, to);
          else if (step == 1)
            copy_row(image + from, count, to);
          else
            for (int64_t j = 0; j < count; ++j) to[j] = image[from + j * step];
        }
      }
    }
}

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

}  // namespace tapegrad::backends::cpu
