// Results of convolutions, and gradients of images, as sums whose vectors lie along image rows.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/cpu/fast/conv_rows.h"

namespace tapegrad::backends::cpu {

inline constexpr int kRowVectors = 2;  // vectors of a row that are summed at the same time
/// The largest number of channels whose sums of kRowVectors vectors fit in registers.
inline constexpr int kMostChannels = kLanes<float> >= 16 ? 12 : 5;

/// Calls run(first, count) for nearly equal groups of output channels.
template <typename Run>
void for_each_channel_group(int64_t out, const Run& run) {
  const int64_t groups = (out + kMostChannels - 1) / kMostChannels;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = g * out / groups;
    run(first, (g + 1) * out / groups - first);
  }
}

/// Results at rows first.height, first.height + step.height, ... and at columns alike, which are
/// sums over the same elements of a kernel.
struct ResultPhase {
  Size2d first;
  std::vector<int64_t> offsets;  // of the image's elements, in the padded part
  std::vector<float> weights;    // in the order of use: by group of channels, then by tap
};

/// All results of images of `size`. Phases of the same rows are neighbours, in order of columns.
struct ResultPhases {
  Size2d size, step;
  std::vector<ResultPhase> phases;

  int64_t across() const { return std::min(step.width, size.width); }

  /// Adds a phase. weight(channel, tap) is the factor of the element at offsets[tap].
  template <typename Weight>
  void add(Size2d first, std::vector<int64_t> offsets, int64_t channels, const Weight& weight) {
    std::vector<float> weights;
    weights.reserve(size_t(channels) * offsets.size());
    for_each_channel_group(channels, [&](int64_t begin, int64_t count) {
      for (size_t tap = 0; tap < offsets.size(); ++tap)
        for (int64_t k = 0; k < count; ++k) weights.push_back(weight(begin + k, tap));
    });
    phases.push_back({first, std::move(offsets), std::move(weights)});
  }
};

/// Returns the number of elements that vectors process for each row of the result. Elements between
/// joined rows are processed, too.
inline int64_t processed_row(const RowSizes& s) {
  return gains_by_joining(s) ? s.joined_row() : in_lanes(s.out_width);
}

/// Sets the rows of the result that are computed from one padded part.
void set_band(RowSizes& s);

/// Computes the sums of all phases from `images`, masked by `results` as in pad_image(), plus the
/// bias. `s` has the number of rows and columns of the first phase, the largest.
void convolve_rows(const RowSizes& s, const float* images, const float* results,
                   const ResultPhases& all, const float* bias, bool relu, float* to);

}  // namespace tapegrad::backends::cpu
