#include "backends/cpu/fast/conv_row_results.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <omp.h>

#include "backends/cpu/tools/per_thread.h"
#include "backends/cpu/tools/transpose.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;

/// Computes kCount channels of n vectors of a row, `distance` elements apart: the start value of
/// each channel plus the sum over the taps of the image's elements times factors. Channels of the
/// result are `plane` elements apart.
template <int kCount, int n>
void add_taps(const float* from, int64_t distance, const std::vector<int64_t>& offsets,
              const float* factors, const float* start, bool relu, float* to, int64_t plane) {
  B sums[kCount][n];
  unrolled<kCount>([&](auto k) { unrolled<n>([&](auto v) { sums[k][v] = B(start[k]); }); });
  for (const int64_t offset : offsets) {
    B values[n];
    unrolled<n>([&](auto v) { values[v] = B::load_unaligned(from + offset + v * distance); });
    unrolled<kCount>([&](auto k) {
      const B factor(factors[k]);
      unrolled<n>([&](auto v) { sums[k][v] = functions::fused(values[v], factor, sums[k][v]); });
    });
    factors += kCount;
  }
  const B least(relu ? 0.0f : -INFINITY);  // as formulas::Relu, or without an effect
  unrolled<kCount>([&](auto k) {
    unrolled<n>([&](auto v) {
      const B sum = sums[k][v];
      select(sum <= least, least, sum).store_unaligned(to + k * plane + v * distance);
    });
  });
}

using AddTaps = decltype(&add_taps<1, 1>);
/// Returns the functions for `count` channels, and one and two vectors.
std::array<AddTaps, kRowVectors> functions_of(int64_t count) {
  std::array<AddTaps, kRowVectors> result{};
  const auto select_one = [&]<int... i>(std::integer_sequence<int, i...>) {
    ((count == i + 1 ? void(result = {&add_taps<i + 1, 1>, &add_taps<i + 1, 2>}) : void()), ...);
  };
  select_one(std::make_integer_sequence<int, kMostChannels>());
  return result;
}

/// Rows of the result whose vectors are computed one after another.
struct Lines {
  int64_t count, length, step;  // `step` elements of the padded part are between two lines
};

/// Computes the lines of `count` channels from a padded part. `to` has planes of `plane` elements
/// and lines of `line`.
void convolve_lines(const Lines& lines, const float* part, const std::vector<int64_t>& offsets,
                    const float* weights, const float* bias, int64_t count, bool relu, float* to,
                    int64_t plane, int64_t line) {
  constexpr int64_t kLane = kLanes<float>;
  const auto functions = functions_of(count);
  float start[kMostChannels] = {};
  if (bias != nullptr) std::copy_n(bias, count, start);
  alignas(64) float short_lines[kMostChannels * kLane];  // of fewer elements than a vector
  const bool is_short = lines.length < kLane;
  for (int64_t i = 0; i < lines.count; ++i)
    for (int64_t next = 0; next < lines.length; next += kRowVectors * kLane) {
      const int64_t left = lines.length - next, vectors = left > kLane ? 2 : 1;
      // The last vector of a line overlaps the previous one.
      const int64_t distance = std::min(kLane, left - kLane);
      const int64_t j = std::min(next, std::max<int64_t>(lines.length - kLane, 0));
      float* place = to + i * line + j;
      functions[size_t(vectors - 1)](part + i * lines.step + j, distance, offsets, weights, start,
                                     relu, is_short ? short_lines : place,
                                     is_short ? kLane : plane);
      for (int64_t k = 0; is_short && k < count; ++k)
        std::copy_n(short_lines + k * kLane, lines.length, place + k * plane);
    }
}

/// Returns alternating lanes of a and b, from lane kFirst on. (xsimd 8.1 exchanges parts of 64-byte
/// registers in zip_lo() and zip_hi().)
template <int kFirst, int... I>
FloatVector alternate(FloatVector a, FloatVector b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (kFirst + I / 2 + I % 2 * int(kLanes<float>))...);
}

/// Writes a row of `width` results: result i is element i / step of phase i % step. Phases are
/// `distance` elements apart.
void write_row(const float* phases, int64_t distance, int64_t step, int64_t width, float* to) {
  if (step == 1) return copy_row(phases, width, to);
  int64_t done = 0;  // of each phase
  if (step == 2)
    for (; 2 * (done + kLanes<float>) <= width; done += kLanes<float>) {
      constexpr std::make_integer_sequence<int, int(kLanes<float>)> kIndices;
      const FloatVector even = B::load_unaligned(phases + done);
      const FloatVector odd = B::load_unaligned(phases + distance + done);
      float* place = to + 2 * done;
      B(alternate<0>(even, odd, kIndices)).store_unaligned(place);
      B(alternate<kLanes<float> / 2>(even, odd, kIndices)).store_unaligned(place + kLanes<float>);
    }
  for (int64_t b = 0; b < std::min(step, width); ++b)
    for (int64_t i = done, at = done * step + b; at < width; ++i, at += step)
      to[at] = phases[b * distance + i];
}

}  // namespace

void pad_image(const float* images, const float* results, const RowSizes& s, int64_t n,
               int64_t first, float* padded) {
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
        const int64_t index = s.from_plane(n, c);
        if (index < 0) continue;
        int64_t from = (index * s.height + down.first) * s.width + right.first;
        float* to = padded + ((c * s.phases_down() + a) * s.phases_right() + b) * plane +
                    down.begin * row + right.begin;
        for (int64_t i = down.begin; i < down.end;
             ++i, from += s.stride.height * s.width, to += row) {
          if (results != nullptr)
            mask_by_result(images + from, results + from, count, to);
          else if (step == 1)
            copy_row(images + from, count, to);
          else if (step == 2)
            for (int64_t j = 0; j < count; ++j) to[j] = images[from + j * 2];
          else
            for (int64_t j = 0; j < count; ++j) to[j] = images[from + j * step];
        }
      }
    }
}

void set_band(RowSizes& s) {
  s.joins_rows = gains_by_joining(s);
  const int64_t share =
      (s.batch * s.out_height + omp_get_max_threads() - 1) / omp_get_max_threads();
  s.band = std::clamp<int64_t>(std::min(std::max<int64_t>(s.rows_within(kPaddedFloats), 8), share),
                               1, s.out_height);
}

void convolve_rows(const RowSizes& s, const float* images, const float* results,
                   const ResultPhases& all, const float* bias, bool relu, float* to) {
  const int64_t height = all.size.height, width = all.size.width;
  const int64_t channel = s.to.depth * height * width;  // elements between channels of the result
  const bool copies = s.joins_rows || all.step != Size2d(1);
  // A line may be shorter than its vectors. Copied rows are computed beside the padded part.
  const int64_t padded_part = s.padded_part() + kRowVectors * kLanes<float>;
  const int64_t copied_plane = copies ? s.band * s.row() : 0;
  const int64_t copied_phase = kMostChannels * copied_plane;
  PerThread memory(padded_part + all.across() * copied_phase);
#pragma omp parallel for if (s.products() > kParallelSmall)
  for (int64_t task = 0; task < s.batch * s.bands(); ++task) {
    const int64_t n = task / s.bands(), begin = task % s.bands() * s.band;
    float *part = memory.mine(), *copied = part + padded_part;
    pad_image(images, results, s, n, begin, part);
    for_each_channel_group(s.out, [&](int64_t first, int64_t count) {
      const float* start = bias != nullptr ? bias + first : nullptr;
      for (const ResultPhase& phase : all.phases) {
        const int64_t columns = steps_within(width, phase.first.width, all.step.width);
        const int64_t rows =
            std::min(s.band, steps_within(height, phase.first.height, all.step.height) - begin);
        if (rows <= 0) continue;
        const float* group = phase.weights.data() + first * int64_t(phase.offsets.size());
        float* place =
            to +
            (s.to_plane(n, first) * height + begin * all.step.height + phase.first.height) * width;
        const auto convolve = [&](const Lines& lines, float* at, int64_t plane, int64_t line) {
          convolve_lines(lines, part, phase.offsets, group, start, count, relu, at, plane, line);
        };
        if (!copies) {
          convolve({rows, columns, s.row()}, place, channel, width);
          continue;
        }
        float* copy = copied + phase.first.width * copied_phase;
        if (s.joins_rows)
          convolve({1, (rows - 1) * s.row() + columns, 0}, copy, copied_plane, 0);
        else
          convolve({rows, columns, s.row()}, copy, copied_plane, s.row());
        if (phase.first.width < all.across() - 1) continue;
        for (int64_t k = 0; k < count; ++k)
          for (int64_t i = 0; i < rows; ++i)
            write_row(copied + k * copied_plane + i * s.row(), copied_phase, all.step.width, width,
                      place + k * channel + i * all.step.height * width);
      }
    });
  }
}

}  // namespace tapegrad::backends::cpu
