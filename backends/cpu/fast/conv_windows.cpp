#include "backends/cpu/fast/conv_windows.h"

#include <algorithm>

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kBandFloats = int64_t(1)
                                << 15;  // of a band's workspace: half of a small L2 cache

}  // namespace

Windows Windows::forward(const Shape& weight, const Shape& y, const Conv2dOptions& o) {
  Windows windows(y, 1, o.stride);
  Phase phase{0, 0, {}};
  for (int64_t u = 0; u < weight[2]; ++u)
    for (int64_t v = 0; v < weight[3]; ++v)
      phase.taps.push_back({u * weight[3] + v, u * o.dilation.height - o.padding.height,
                            v * o.dilation.width - o.padding.width, 0});
  windows.phases.push_back(std::move(phase));
  windows.finish();
  return windows;
}

Windows Windows::backward(const Shape& weight, const Shape& dx, const Conv2dOptions& o) {
  Windows windows(dx, o.stride, 1);
  for (int64_t i = 0; i < std::min(o.stride.height, dx[2]); ++i)
    for (int64_t j = 0; j < std::min(o.stride.width, dx[3]); ++j) {
      Phase phase{i, j, {}};
      for (int64_t u = 0; u < weight[2]; ++u)
        for (int64_t v = 0; v < weight[3]; ++v) {
          const int64_t row = i + o.padding.height - u * o.dilation.height;
          const int64_t column = j + o.padding.width - v * o.dilation.width;
          if (row % o.stride.height != 0 || column % o.stride.width != 0) continue;
          phase.taps.push_back(
              {u * weight[3] + v, row / o.stride.height, column / o.stride.width, 0});
        }
      windows.phases.push_back(std::move(phase));
    }
  windows.finish();
  return windows;
}

void Windows::finish() {
  int64_t last_row = 0, last_column = 0;
  bool any = false;
  for (const Phase& phase : phases)
    for (const Tap& tap : phase.taps) {
      const int64_t end = tap.column + (count(phase) - 1) * from_stride.width;
      first_row = any ? std::min(first_row, tap.row) : tap.row;
      first_column = any ? std::min(first_column, tap.column) : tap.column;
      last_row = any ? std::max(last_row, tap.row) : tap.row;
      last_column = any ? std::max(last_column, end) : end;
      any = true;
    }
  columns = last_column - first_column + 1;
  row_count = last_row - first_row + 1;
  for (Phase& phase : phases) {
    for (Tap& tap : phase.taps)
      tap.offset = ((tap.row - first_row) * columns + tap.column - first_column) * kLane;
    if (is_of_runs(phase)) phase.run = kRun;
  }
  const int64_t fit = (kBandFloats / (columns * kLane) - row_count) / from_stride.height + 1;
  const int64_t steps = (size.height + to_stride.height - 1) / to_stride.height;
  const int64_t in_band = std::clamp<int64_t>(fit, 1, steps);
  band_rows = in_band * to_stride.height;
  band_reads = (in_band - 1) * from_stride.height + row_count;
  bands = (steps + in_band - 1) / in_band;
}

bool Windows::is_of_runs(const Phase& phase) const {
  if (from_stride.width != 1 || phase.taps.size() % kRun != 0) return false;
  const auto of = [&](int64_t step) {
    for (size_t i = 0; i < phase.taps.size(); ++i) {
      const Tap& first = phase.taps[i / kRun * kRun];
      if (phase.taps[i].row != first.row ||
          phase.taps[i].offset != first.offset + int64_t(i % kRun) * step)
        return false;
    }
    return true;
  };
  return of(kLane) || of(-kLane);
}

Windows::Rows Windows::rows_of(int64_t band) const {
  const int64_t begin = band * band_rows, end = std::min(begin + band_rows, size.height);
  const int64_t steps = (end - begin + to_stride.height - 1) / to_stride.height;
  return {begin, end, begin / to_stride.height * from_stride.height + first_row,
          (steps - 1) * from_stride.height + row_count};
}

Wiring::Wiring(int64_t block, int64_t channels, int64_t to_group, int64_t from_group) {
  const int64_t first = block * kLane, last = std::min(first + kLane, channels) - 1;
  const int64_t first_source = first / to_group * from_group / kLane;
  const int64_t last_source = ((last / to_group + 1) * from_group - 1) / kLane;
  straight = to_group == 1 && from_group == 1;
  for (int64_t source = first_source; source <= last_source; ++source) {
    const size_t before = terms.size();
    for (int64_t lane = 0; lane <= last - first; ++lane) {
      size_t next = before;
      for (int64_t k = 0; k < from_group; ++k) {
        const int64_t channel = (first + lane) / to_group * from_group + k;
        if (channel / kLane != source) continue;
        if (next == terms.size()) {
          terms.push_back({int64_t(sources.size()), {}, {}});
          terms.back().index.fill(-1);
        }
        terms[next].lanes[size_t(lane)] = int32_t(channel % kLane);
        terms[next++].index[size_t(lane)] = int32_t(k);
      }
    }
    sources.push_back(source);
  }
}

}  // namespace tapegrad::backends::cpu
