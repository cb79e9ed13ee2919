#include "backends/cpu/fast/conv_small.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <omp.h>

#include "backends/cpu/fast/conv_lanes_weight.h"
#include "backends/cpu/fast/conv_rows.h"
#include "backends/cpu/fast/conv_small_weight.h"
#include "backends/cpu/tools/per_thread.h"
#include "backends/cpu/tools/transpose.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;
constexpr int64_t kMaxGradientTaps = 64;  // elements of a channel's kernel for own dw
constexpr int64_t kMostTaps = 16384;      // elements of a channel's kernel
constexpr int kMostChannels = kLanes<float> >= 16 ? 12 : 5;  // channels of two vectors in registers
constexpr int64_t kFewestForLanes = 100;  // positions that occupy a kernel of channels in lanes
constexpr int64_t kFewestSums = 6;        // that hide the latency of a multiply-add

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
  std::vector<float> weights;    // in the order of use: those of a group of channels, tap by tap
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

constexpr int kRowVectors = 2;  // of a row, whose sums are computed together
/// Start values, then sums, of the channels of a group.
struct alignas(64) ColumnSums {
  float values[kMostChannels][kRowVectors * kLanes<float>];
};

/// Adds to the sums of kCount channels, for the first n vectors of each, the sum over the taps of
/// the image's elements times factors.
template <int kCount, int n>
void add_taps(const float* from, const std::vector<int64_t>& offsets, const float* factors,
              ColumnSums& to) {
  B sums[kCount][n];
  unrolled<kCount>([&](auto k) {
    unrolled<n>([&](auto v) { sums[k][v] = B::load_aligned(to.values[k] + v * kLanes<float>); });
  });
  for (const int64_t offset : offsets) {
    B values[n];
    unrolled<n>([&](auto v) { values[v] = B::load_unaligned(from + offset + v * kLanes<float>); });
    unrolled<kCount>([&](auto k) {
      const B factor(factors[k]);
      unrolled<n>([&](auto v) { sums[k][v] = functions::fused(values[v], factor, sums[k][v]); });
    });
    factors += kCount;
  }
  unrolled<kCount>([&](auto k) {
    unrolled<n>([&](auto v) { sums[k][v].store_aligned(to.values[k] + v * kLanes<float>); });
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

/// Writes the sums of `count` channels, whose planes are `plane` elements apart. `left` columns
/// remain.
void write_sums(ColumnSums& sums, int64_t count, int64_t vectors, bool relu, int64_t left,
                int64_t plane, float* to) {
  for (int64_t k = 0; k < count; ++k)
    for (int64_t v = 0; v < vectors && v * kLanes<float> < left; ++v) {
      B sum = B::load_aligned(sums.values[k] + v * kLanes<float>);
      if (relu) sum = formulas::Relu()(sum);
      float* place = to + k * plane + v * kLanes<float>;
      if (left >= (v + 1) * kLanes<float>)
        sum.store_unaligned(place);
      else
        store_some<float>(place, left - v * kLanes<float>, sum);
    }
}

/// Returns the elements that vectors process for each row of the result, with those between joined
/// rows.
int64_t processed_row(const RowSizes& s) {
  return gains_by_joining(s) ? s.joined_row() : in_lanes(s.out_width);
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
  const auto functions = functions_of(count);
  ColumnSums start, sums;
  for (int64_t k = 0; k < count; ++k)
    std::ranges::fill(start.values[k], bias != nullptr ? bias[k] : 0.0f);
  for (int64_t i = 0; i < lines.count; ++i)
    for (int64_t next = 0; next < lines.length; next += kRowVectors * kLanes<float>) {
      const int64_t vectors = lines.length - next > kLanes<float> ? 2 : 1;
      // The last vectors of a line overlap the previous vectors, unless the line is shorter.
      const int64_t j =
          std::min(next, std::max<int64_t>(lines.length - vectors * kLanes<float>, 0));
      std::copy_n(start.values[0], count * kRowVectors * kLanes<float>, sums.values[0]);
      functions[size_t(vectors - 1)](part + i * lines.step + j, offsets, weights, sums);
      write_sums(sums, count, vectors, relu, lines.length - j, plane, to + i * line + j);
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

/// Sets the rows of the result that are computed from one padded part.
void set_band(RowSizes& s) {
  s.joins_rows = gains_by_joining(s);
  const int64_t share =
      (s.batch * s.out_height + omp_get_max_threads() - 1) / omp_get_max_threads();
  s.band = std::clamp<int64_t>(std::min(std::max<int64_t>(s.rows_within(kPaddedFloats), 8), share),
                               1, s.out_height);
}

/// Computes the sums of all phases from `images`, masked by `results` as in pad_image(), plus the
/// bias. `s` has the number of rows and columns of the first phase, the largest.
void convolve_small(const RowSizes& s, const float* images, const float* results,
                    const ResultPhases& all, const float* bias, bool relu, float* to) {
  const int64_t height = all.size.height, width = all.size.width;
  const bool copies = s.joins_rows || all.step != Size2d(1);
  // A line may be shorter than its vectors. Copied rows are computed beside the padded part.
  const int64_t padded_part = s.padded_part() + kRowVectors * kLanes<float>;
  const int64_t copied_plane = copies ? s.band * s.row() : 0;
  const int64_t copied_phase = kMostChannels * copied_plane;
  PerThread memory(padded_part + all.across() * copied_phase);
#pragma omp parallel for if (s.products() > kParallelSmall)
  for (int64_t task = 0; task < s.batch * s.bands(); ++task) {
    const int64_t n = task / s.bands(), begin = task % s.bands() * s.band;
    const int64_t image = n * s.in * s.height * s.width;
    float *part = memory.mine(), *copied = part + padded_part;
    pad_image(images + image, results != nullptr ? results + image : nullptr, s, begin, part);
    for_each_channel_group(s.out, [&](int64_t first, int64_t count) {
      const float* start = bias != nullptr ? bias + first : nullptr;
      for (const ResultPhase& phase : all.phases) {
        const int64_t columns = steps_within(width, phase.first.width, all.step.width);
        const int64_t rows =
            std::min(s.band, steps_within(height, phase.first.height, all.step.height) - begin);
        if (rows <= 0) continue;
        const float* group = phase.weights.data() + first * int64_t(phase.offsets.size());
        float* place = to + (n * s.out + first) * height * width +
                       (begin * all.step.height + phase.first.height) * width;
        const auto convolve = [&](const Lines& lines, float* at, int64_t plane, int64_t line) {
          convolve_lines(lines, part, phase.offsets, group, start, count, relu, at, plane, line);
        };
        if (!copies) {
          convolve({rows, columns, s.row()}, place, height * width, width);
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
                      place + (k * height + i * all.step.height) * width);
      }
    });
  }
}

/// Rows or columns of a kernel, and those of dy which they meet at the first result of a phase.
struct GradientTap {
  int64_t of_kernel, of_dy;
};
/// The taps of each phase of dx, by rows or by columns.
struct GradientTaps {
  std::vector<std::vector<GradientTap>> phases;
  int64_t first = 0, last = 0;  // of_dy

  GradientTaps(int64_t kernel, int64_t size, int64_t stride, int64_t padding, int64_t dilation)
      : phases(size_t(std::min(stride, size))) {
    for (int64_t i = 0; i < std::ssize(phases); ++i)
      for (int64_t u = kernel - 1; u >= 0; --u) {
        const int64_t at = i + padding - u * dilation;
        if (at % stride != 0) continue;
        phases[size_t(i)].push_back({u, at / stride});
        first = std::min(first, at / stride), last = std::max(last, at / stride);
      }
  }
  int64_t span() const { return last - first + 1; }
};

/// The sums of elements of dy that compute dx. Each element of dx of a phase needs those elements
/// of the kernel that meet an element of dy.
struct InputGradient {
  GradientTaps down, right;
  RowSizes sizes;  // of a convolution of dy by a kernel that spans the taps of all phases

  InputGradient(const Shape& dy, const Shape& w, const Shape& dx, const Conv2dOptions& o)
      : down(w[2], dx[2], o.stride.height, o.padding.height, o.dilation.height),
        right(w[3], dx[3], o.stride.width, o.padding.width, o.dilation.width),
        sizes(dy, Shape{w[1], w[0], down.span(), right.span()},
              Shape{dx[0], dx[1], steps_within(dx[2], 0, o.stride.height),
                    steps_within(dx[3], 0, o.stride.width)},
              Conv2dOptions{.padding = {-down.first, -right.first}}) {}

  ResultPhases phases(const Shape& w, const Shape& dx, Size2d stride, const float* weight) const {
    ResultPhases result{{dx[2], dx[3]}, stride, {}};
    for (size_t i = 0; i < down.phases.size(); ++i)
      for (size_t j = 0; j < right.phases.size(); ++j) {
        std::vector<int64_t> offsets, elements;  // of dy; of the weight
        for (int64_t o = 0; o < w[0]; ++o)
          for (const GradientTap& u : down.phases[i])
            for (const GradientTap& v : right.phases[j]) {
              offsets.push_back((o * sizes.rows() + u.of_dy - down.first) * sizes.row() + v.of_dy -
                                right.first);
              elements.push_back((o * w[1] * w[2] + u.of_kernel) * w[3] + v.of_kernel);
            }
        result.add({int64_t(i), int64_t(j)}, std::move(offsets), w[1],
                   [&](int64_t channel, size_t tap) {
                     return weight[elements[tap] + channel * w[2] * w[3]];
                   });
      }
    return result;
  }
};

void small_input_gradient(const Tensor& dy, const Epilogue& behind, const Tensor& weight,
                          const Conv2dOptions& options, Tensor& dx) {
  const Shape& w = weight.shape();
  InputGradient gradient(dy.shape(), w, dx.shape(), options);
  set_band(gradient.sizes);
  convolve_small(gradient.sizes, dy.data<float>(), behind ? behind.at.data<float>() : nullptr,
                 gradient.phases(w, dx.shape(), options.stride, weight.data<float>()), nullptr,
                 false, dx.data<float>());
}

bool has_few_outputs(const Shape& w) { return w[0] < 16 && w[0] % 8 != 0; }
/// Returns whether vectors along rows are faster than oneDNN's blocks of channels for few outputs.
/// Short rows leave lanes unused, unless rows are joined; unpacking an image pays off for few
/// channels.
bool prefers_rows_for_few(const RowSizes& s, const Tensor& x) {
  const int64_t pair = 2 * kLanes<float>;
  int64_t step = s.out_width > kLanes<float> ? pair : kLanes<float>;
  if (gains_by_joining(s)) step = s.joined_row();
  return (s.out_width >= pair || step * s.out <= kMostChannels * s.out_width) &&
         (s.out < 8 || !x || !x.storage().is_packed());
}
/// Returns whether vectors along rows are faster for any number of channels. oneDNN computes whole
/// blocks, of `from` and `to` channels; a product in a full block takes a tenth less time.
bool prefers_rows_for(const RowSizes& s, int64_t from, int64_t to, const Tensor& x) {
  return (!x || !x.storage().is_packed()) &&
         5 * from * to * s.out_width >= 6 * s.in * s.out * processed_row(s);
}
bool is_small(const Shape& w, int64_t width) {
  return has_few_outputs(w) && w[1] * w[2] * w[3] <= kMaxGradientTaps && width >= kLanes<float> / 2;
}
/// Returns the channels that oneDNN computes. It does not fill blocks of few channels of an image.
int64_t in_blocks(int64_t channels) {
  return channels <= kLanes<float> / 2 ? channels : in_lanes(channels);
}

enum class WeightGradient { kOther, kRows, kOutputLanes, kInputLanes };

/// Returns the fastest implementation of dw. The cost is the number of products for each position
/// and element of a kernel, with those of unused lanes, times the measured time of a product
/// relative to oneDNN's.
WeightGradient choose_dw(const Tensor& dy, const Tensor& x, const Shape& w,
                         const Conv2dOptions& o) {
  if (o.groups != 1) return WeightGradient::kOther;
  const bool has_short_kernel = is_small(w, x.shape()[3]) && o.stride == Size2d(1);
  if (has_short_kernel) return WeightGradient::kRows;
  RowSizes s(x.shape(), w, dy.shape(), o);
  if (w[2] * w[3] == 1 || s.taps() > kMostTaps || (w[0] >= 8 && x.storage().is_packed()))
    return WeightGradient::kOther;
  set_gradient_band(s);
  if (w[0] < 8) return prefers_rows_for_few(s, x) ? WeightGradient::kRows : WeightGradient::kOther;
  double least = double(in_blocks(s.in) * in_lanes(s.out));
  WeightGradient best = WeightGradient::kOther;
  const auto consider = [&](WeightGradient candidate, double cost) {
    if (cost <= least) least = cost, best = candidate;
  };
  if (has_long_gradient_sums(s)) {
    const int64_t row = s.joins_rows ? s.joined_row() : in_lanes(s.out_width);
    const double factor = s.out_width % kLanes<float> == 0 ? 1.25 : 1.45;
    consider(WeightGradient::kRows, factor * double(s.in * s.out * row) / double(s.out_width));
  }
  if (s.out_plane() >= kFewestForLanes)
    for (const WeightGradient lanes : {WeightGradient::kOutputLanes, WeightGradient::kInputLanes})
      consider(lanes, 1.14 * products_in_lanes(s, lanes == WeightGradient::kOutputLanes));
  return best;
}

bool computes_dx(const Tensor& dy, const Tensor& x, const Shape& w, const Conv2dOptions& o,
                 const Tensor& dx) {
  if (o.groups != 1 || w[2] * w[3] == 1 || w[0] * w[2] * w[3] > kMostTaps) return false;
  if (o.stride == Size2d(1) && has_few_outputs(w))
    return prefers_rows_for_few(RowSizes(dx.shape(), w, dx.shape(), o), x);
  const RowSizes s = InputGradient(dy.shape(), w, dx.shape(), o).sizes;
  const int64_t sums = s.out * (s.out_width > kLanes<float> ? kRowVectors : 1);
  return (o.stride == Size2d(1) || sums >= kFewestSums) &&
         prefers_rows_for(s, in_lanes(s.in), in_lanes(s.out), x);
}

}  // namespace

bool ConvSmall::accepts(const Tensor& x, const Tensor& weight, const Tensor&,
                        const Conv2dOptions& options, const Epilogue&, const Tensor& y) {
  const Shape& w = weight.shape();
  if (x.numel() == 0 || y.numel() == 0 || options.groups != 1) return false;
  const RowSizes s(x.shape(), w, y.shape(), options);
  if (options.stride != Size2d(1) && s.taps() < kFewestTaps) return false;
  if (is_small(w, s.width)) return true;
  if (w[2] * w[3] == 1 || s.taps() > kMostTaps) return false;
  if (has_few_outputs(w)) return prefers_rows_for_few(s, x);
  return prefers_rows_for(s, s.in < kLanes<float> ? s.in : in_lanes(s.in), in_lanes(s.out), x);
}

void ConvSmall::run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y) {
  const bool relu = epilogue.activation == Activation::kRelu;
  RowSizes s(x.shape(), weight.shape(), y.shape(), options);
  set_band(s);
  const float* w = weight.data<float>();
  ResultPhases all{{s.out_height, s.out_width}, 1, {}};
  all.add(0, tap_offsets(s), s.out,
          [&](int64_t channel, size_t tap) { return w[channel * s.taps() + int64_t(tap)]; });
  convolve_small(s, x.data<float>(), nullptr, all, bias ? bias.data<float>() : nullptr, relu,
                 y.data<float>());
  if (!relu) kernels::run_epilogue(epilogue, y, y);
}

bool ConvBackwardSmall::accepts(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                                const Tensor& weight, const Conv2dOptions& options,
                                const Tensor& dx, const Tensor& dw, const Tensor&) {
  if (behind.activation == Activation::kGelu || dy.numel() == 0 || (dx && dx.numel() == 0))
    return false;
  if (dw && dw.numel() > 0 && choose_dw(dy, x, dw.shape(), options) != WeightGradient::kOther)
    return true;
  return dx && computes_dx(dy, x, weight.shape(), options, dx);
}

void ConvBackwardSmall::run(TypeTag<float>, const Tensor& dy, const Epilogue& behind,
                            const Tensor& x, const Tensor& weight, const Conv2dOptions& options,
                            Tensor& dx, Tensor& dw, Tensor& db) {
  Tensor none;
  if (dx) {
    if (computes_dx(dy, x, weight.shape(), options, dx))
      small_input_gradient(dy, behind, weight, options, dx);
    else
      kernels::conv2d_backward(dy, behind, none, weight, options, dx, none, none);
  }
  const WeightGradient chosen = dw ? choose_dw(dy, x, dw.shape(), options) : WeightGradient::kOther;
  if (chosen == WeightGradient::kRows)
    small_weight_gradient(dy, behind, x, options, dw, db);
  else if (chosen != WeightGradient::kOther)
    weight_gradient_in_lanes(dy, behind, x, options, chosen == WeightGradient::kOutputLanes, dw,
                             db);
  else if (dw || db)
    kernels::conv2d_backward(dy, behind, x, weight, options, none, dw, db);
}

}  // namespace tapegrad::backends::cpu
