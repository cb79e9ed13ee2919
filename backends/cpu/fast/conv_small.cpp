#include "backends/cpu/fast/conv_small.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <omp.h>

#include "backends/cpu/fast/conv_rows.h"
#include "backends/cpu/tools/per_thread.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;
constexpr int64_t kMaxGradientTaps = 64;    // elements of a channel's kernel for own dw
constexpr int64_t kMostTaps = 16384;        // elements of a channel's kernel
constexpr int64_t kPaddedFloats = 1 << 16;  // of a padded band: 256 KiB of the second-level cache
constexpr int kMostChannels = kLanes<float> >= 16 ? 12 : 5;  // channels of two vectors in registers
constexpr int kChannelsTogether =
    kLanes<float> >= 16 ? 3 : 1;                          // channels whose sums fit in registers
constexpr int64_t kMostPieces = 64;                       // parts of dy, each with its own sums
constexpr int64_t kParallelSmall = int64_t(1) << 18;      // products that justify a second thread
constexpr int64_t kFewestPositions = 32 * kLanes<float>;  // whose sums are worth joining the lanes
constexpr int64_t kFewestTaps = 64;  // that pay for moving elements to phases or joined rows
constexpr int64_t kFewestParts = 4;  // of dw, which threads share

/// Calls run(first, count) for nearly equal groups of output channels.
template <typename Run>
void for_each_channel_group(int64_t out, const Run& run) {
  const int64_t groups = (out + kMostChannels - 1) / kMostChannels;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = g * out / groups;
    run(first, (g + 1) * out / groups - first);
  }
}

/// Returns weights in the order of use: those of a group of channels, tap by tap.
/// weight(channel, tap) is an element.
template <typename Weight>
std::vector<float> in_groups(const RowSizes& s, const Weight& weight) {
  std::vector<float> result;
  result.reserve(size_t(s.out * s.taps()));
  for_each_channel_group(s.out, [&](int64_t first, int64_t count) {
    for (int64_t tap = 0; tap < s.taps(); ++tap)
      for (int64_t k = 0; k < count; ++k) result.push_back(weight(first + k, tap));
  });
  return result;
}

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

/// Returns whether vectors across rows save a tenth or more, which pays for copying rows.
bool gains_by_joining(const RowSizes& s) {
  return s.taps() >= kFewestTaps && 10 * s.joined_row() <= 9 * in_lanes(s.out_width);
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

/// Computes the convolution of `images`, masked by `results` as in pad_image(), plus the bias.
void convolve_small(RowSizes s, const float* images, const float* results,
                    const std::vector<float>& weights, const float* bias, bool relu, float* to) {
  s.joins_rows = gains_by_joining(s);
  const int64_t share =
      (s.batch * s.out_height + omp_get_max_threads() - 1) / omp_get_max_threads();
  s.band = std::clamp<int64_t>(std::min(std::max<int64_t>(s.rows_within(kPaddedFloats), 8), share),
                               1, s.out_height);
  const auto offsets = tap_offsets(s);
  // A line may be shorter than its vectors. Joined rows are computed beside the padded part.
  const int64_t padded_part = s.padded_part() + kRowVectors * kLanes<float>;
  const int64_t joined_plane = s.joins_rows ? s.band * s.row() : 0;
  PerThread memory(padded_part + kMostChannels * joined_plane);
#pragma omp parallel for if (s.products() > kParallelSmall)
  for (int64_t task = 0; task < s.batch * s.bands(); ++task) {
    const int64_t n = task / s.bands(), begin = task % s.bands() * s.band;
    const int64_t rows = std::min(s.band, s.out_height - begin),
                  image = n * s.in * s.height * s.width;
    float *part = memory.mine(), *joined = part + padded_part;
    pad_image(images + image, results != nullptr ? results + image : nullptr, s, begin, part);
    for_each_channel_group(s.out, [&](int64_t first, int64_t count) {
      const float* group = weights.data() + first * s.taps();
      const float* start = bias != nullptr ? bias + first : nullptr;
      float* place = to + (n * s.out + first) * s.out_plane() + begin * s.out_width;
      if (!s.joins_rows)
        return convolve_lines({rows, s.out_width, s.row()}, part, offsets, group, start, count,
                              relu, place, s.out_plane(), s.out_width);
      convolve_lines({1, (rows - 1) * s.row() + s.out_width, 0}, part, offsets, group, start, count,
                     relu, joined, joined_plane, 0);
      for (int64_t k = 0; k < count; ++k)
        for (int64_t i = 0; i < rows; ++i)
          std::copy_n(joined + k * joined_plane + i * s.row(), s.out_width,
                      place + k * s.out_plane() + i * s.out_width);
    });
  }
}

/// Loads values into a register for all their uses: g++ would read the memory for each
/// use, and a Zen 4 reads only 64 bytes per cycle.
B load_once(const float* from) {
  B values = B::load_unaligned(from);
#if XSIMD_WITH_AVX512F
  asm("" : "+v"(values.data));
#endif
  return values;
}

/// The vectors of the first rows of a band of dz.
struct BandVectors {
  struct Begin {
    int64_t image, dz;  // elements from the beginnings of the padded part and of dz
  };
  std::vector<Begin> begins;
  std::vector<char> is_whole;   // whether all elements of the vector are elements of dz
  std::vector<float> is_in_dz;  // 1 for elements of dz, 0 for elements between rows

  /// Rows of dz are `dz_row` elements apart.
  BandVectors(const RowSizes& s, int64_t rows, int64_t dz_row)
      : is_in_dz(size_t(in_lanes(rows * s.row()))) {
    for (int64_t i = 0; i < rows; ++i)
      std::fill_n(is_in_dz.begin() + i * s.row(), s.out_width, 1.0f);
    const int64_t lines = s.joins_rows ? 1 : rows;
    const int64_t length = s.joins_rows ? rows * s.row() : s.out_width;
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t j = 0; j < length; j += kLanes<float>) {
        const auto first = is_in_dz.begin() + i * s.row() + j;
        begins.push_back({i * s.row() + j, i * dz_row + j});
        is_whole.push_back(std::find(first, first + kLanes<float>, 0.0f) == first + kLanes<float>);
      }
  }
  /// Calls add(is_whole, begin) for each vector; is_whole is true_type or false_type.
  template <typename Add>
  void for_each(const Add& add) const {
    for (size_t i = 0; i < begins.size(); ++i)
      is_whole[i] ? add(std::true_type(), begins[i]) : add(std::false_type(), begins[i]);
  }
};

/// Returns the sum of rows of a channel of dy, and copies them to rows that are `row()` elements
/// apart unless `to` is null. Elements where `results`, the result of a ReLU, is not positive count
/// as zero; `results` may be null. The order of the sum depends on the sizes alone: a ReLU that is
/// part of the convolution gives the same bits as a ReLU of its own.
double sum_rows(const float* dy, const float* results, const RowSizes& s, int64_t rows, float* to) {
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

/// The channels of dz that are multiplied together.
struct Planes {
  const float* first;
  int64_t distance;  // of two channels
  int64_t size;      // elements from `first` that may be read
};

/// For kPlanes channels of dz, adds the sum of dz times each of kCount taps of the image to
/// parts[channel * step].
template <int kCount, int kPlanes>
void add_plane_products(const BandVectors& vectors, const Planes& dz, const float* image,
                        const int64_t* offsets, double* parts, int64_t step) {
  const B zero(0.0f);
  B sums[kPlanes][kCount];
  unrolled<kPlanes>([&](auto p) { unrolled<kCount>([&](auto k) { sums[p][k] = zero; }); });
  vectors.for_each([&](auto whole, BandVectors::Begin at) {
    const auto is_in_dz = B::load_unaligned(vectors.is_in_dz.data() + at.image) > B(0.5f);
    B gradients[kPlanes];
    unrolled<kPlanes>([&](auto p) {
      const int64_t begin = p * dz.distance + at.dz;
      if (whole)
        gradients[p] = load_once(dz.first + begin);
      else  // excluded values may be infinite
        gradients[p] =
            select(is_in_dz,
                   begin + kLanes<float> <= dz.size ? B::load_unaligned(dz.first + begin)
                                                    : load_some(dz.first + begin, dz.size - begin),
                   zero);
    });
    unrolled<kCount>([&](auto k) {
      B values = load_once(image + at.image + offsets[k]);
      if (!whole) values = select(is_in_dz, values, zero);
      unrolled<kPlanes>(
          [&](auto p) { sums[p][k] = functions::fused(values, gradients[p], sums[p][k]); });
    });
  });
  unrolled<kPlanes>([&](auto p) {
    unrolled<kCount>([&](auto k) { parts[p * step + k] += double(xsimd::hadd(sums[p][k])); });
  });
}

void small_input_gradient(const Tensor& dy, const Epilogue& behind, const Tensor& weight,
                          const Conv2dOptions& options, Tensor& dx) {
  const RowSizes s = RowSizes::of_gradient(dy.shape(), weight.shape(), dx.shape(), options);
  const float* w = weight.data<float>();
  const int64_t plane = s.kernel_height * s.kernel_width;
  const auto weights = in_groups(s, [&](int64_t channel, int64_t tap) {
    return w[(tap / plane * s.out + channel + 1) * plane - 1 - tap % plane];
  });
  convolve_small(s, dy.data<float>(), behind ? behind.at.data<float>() : nullptr, weights, nullptr,
                 false, dx.data<float>());
}

/// Sets the rows of dy whose products are added before the lanes of the sums are joined. Their
/// number does not depend on the number of threads. The image stays in the second-level cache, if
/// enough rows fit.
void set_gradient_band(RowSizes& s) {
  s.joins_rows = kLanes<float> >= 16 && gains_by_joining(s);  // AVX2 masks vectors slowly
  const int64_t share = (s.batch * s.out_height + kFewestParts - 1) / kFewestParts;
  const int64_t fewest = (kFewestPositions + s.out_width - 1) / s.out_width;
  s.band = std::clamp<int64_t>(std::max(std::min(s.rows_within(2 * kPaddedFloats), share), fewest),
                               1, s.out_height);
}

void small_weight_gradient(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                           const Conv2dOptions& options, Tensor& dw, Tensor& db) {
  RowSizes s(x.shape(), dw.shape(), dy.shape(), options);
  set_gradient_band(s);
  const float *images = x.data<float>(), *gradients = dy.data<float>();
  const float* from_relu = behind ? behind.at.data<float>() : nullptr;
  const int64_t tasks = s.batch * s.bands(), pieces = std::min(tasks, kMostPieces);
  const int64_t results = s.out * (s.taps() + 1);
  std::vector<double> parts(size_t(pieces * results));  // per channel: the taps, then the bias
  const int64_t last_rows = s.out_height - (s.bands() - 1) * s.band;
  // A copy of dz pays off if it is read for several groups of taps.
  const bool copies = s.joins_rows || from_relu != nullptr || s.taps() > 9;
  const int64_t dz_row = copies ? s.row() : s.out_width;
  const BandVectors vectors(s, s.band, dz_row),
      last_vectors(s, last_rows < s.band ? last_rows : 0, dz_row);
  const int64_t part_floats = in_lanes(s.padded_part()) + kLanes<float>;
  const int64_t plane = int64_t(vectors.is_in_dz.size());
  PerThread memory(part_floats + kChannelsTogether * plane);
  const auto offsets = tap_offsets(s);
#pragma omp parallel for if (s.products() > kParallelSmall)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    float *image = memory.mine(), *dz = image + part_floats;
    std::fill_n(dz, kChannelsTogether * plane, 0.0f);  // copies of rows leave the gaps between them
    for (int64_t task = piece * tasks / pieces; task < (piece + 1) * tasks / pieces; ++task) {
      const int64_t n = task / s.bands(), begin = task % s.bands() * s.band;
      const bool is_last = begin + s.band > s.out_height;
      const BandVectors& band = is_last ? last_vectors : vectors;
      pad_image(images + n * s.in * s.height * s.width, nullptr, s, begin, image);
      if (is_last && last_rows < s.band) std::fill_n(dz, kChannelsTogether * plane, 0.0f);
      double* part = parts.data() + piece * results;
      for_each_group<kChannelsTogether, 1>(
          s.out, [&]<int kPlanes>(int64_t o, std::integral_constant<int, kPlanes>) {
            const int64_t step = s.taps() + 1;
            double* sums = part + o * step;
            const int64_t first_of_dy = (n * s.out + o) * s.out_plane() + begin * s.out_width;
            const int64_t rows = is_last ? last_rows : s.band;
            for (int p = 0; p < kPlanes; ++p) {
              const int64_t at = first_of_dy + p * s.out_plane();
              sums[p * step + s.taps()] +=
                  sum_rows(gradients + at, from_relu != nullptr ? from_relu + at : nullptr, s, rows,
                           copies ? dz + p * plane : nullptr);
            }
            const Planes planes =
                copies ? Planes{dz, plane, kPlanes * plane}
                       : Planes{gradients + first_of_dy, s.out_plane(), dy.numel() - first_of_dy};
            for_each_group<9, 3, 1>(
                s.taps(), [&]<int kCount>(int64_t first, std::integral_constant<int, kCount>) {
                  add_plane_products<kCount, kPlanes>(band, planes, image, offsets.data() + first,
                                                      sums + first, step);
                });
          });
    }
  }
  for (int64_t o = 0; o < s.out; ++o)
    for (int64_t tap = 0; tap <= s.taps(); ++tap) {
      double sum = 0;
      for (int64_t piece = 0; piece < pieces; ++piece)
        sum += parts[size_t(piece * results + o * (s.taps() + 1) + tap)];
      if (tap < s.taps())
        dw.data<float>()[o * s.taps() + tap] = float(sum);
      else if (db)
        db.data<float>()[o] = float(sum);
    }
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
/// Returns whether vectors along rows, which process `row` elements for each row, are faster for
/// any number of channels. oneDNN computes whole blocks, of `from` and `to` channels; a product in
/// a full block takes a tenth less time.
bool prefers_rows_for(const RowSizes& s, int64_t from, int64_t to, int64_t row, const Tensor& x) {
  return (!x || !x.storage().is_packed()) && 5 * from * to * s.out_width >= 6 * s.in * s.out * row;
}
/// Returns whether vectors along rows, which process `row` elements for each row, are faster.
bool prefers_rows(const RowSizes& s, const Shape& w, const Tensor& x, int64_t row) {
  if (w[2] * w[3] == 1 || s.taps() > kMostTaps) return false;
  if (has_few_outputs(w)) return prefers_rows_for_few(s, x);
  return prefers_rows_for(s, s.in < kLanes<float> ? s.in : in_lanes(s.in), in_lanes(s.out), row, x);
}
bool is_small(const Shape& w, int64_t width) {
  return has_few_outputs(w) && w[1] * w[2] * w[3] <= kMaxGradientTaps && width >= kLanes<float> / 2;
}
/// A large image leaves the cache between two channels of dy; the sums of each lane are joined for
/// each band.
bool computes_dw(const Tensor& dy, const Tensor& x, const Shape& w, const Conv2dOptions& o) {
  if (o.groups != 1 || o.stride != Size2d(1)) return false;
  if (is_small(w, x.shape()[3])) return true;
  if (w[0] >= 8 && has_few_outputs(w)) return false;
  RowSizes s(x.shape(), w, dy.shape(), o);
  set_gradient_band(s);
  return prefers_rows(s, w, x, s.joins_rows ? s.joined_row() : in_lanes(s.out_width)) &&
         (s.out < 8 || (s.out_plane() >= kFewestPositions && s.padded_part() <= 2 * kPaddedFloats));
}
bool computes_dx(const Tensor& dy, const Tensor& x, const Shape& w, const Conv2dOptions& o,
                 const Tensor& dx) {
  if (o.groups != 1 || o.stride != Size2d(1) || o.padding.height > o.dilation.height * (w[2] - 1) ||
      o.padding.width > o.dilation.width * (w[3] - 1))
    return false;
  if (w[2] * w[3] == 1 || w[0] * w[2] * w[3] > kMostTaps) return false;
  if (has_few_outputs(w)) return prefers_rows_for_few(RowSizes(dx.shape(), w, dx.shape(), o), x);
  const RowSizes s = RowSizes::of_gradient(dy.shape(), w, dx.shape(), o);
  return prefers_rows_for(s, in_lanes(s.in), in_lanes(s.out), processed_row(s), x);
}

}  // namespace

bool ConvSmall::accepts(const Tensor& x, const Tensor& weight, const Tensor&,
                        const Conv2dOptions& options, const Epilogue&, const Tensor& y) {
  const Shape& w = weight.shape();
  if (x.numel() == 0 || y.numel() == 0 || options.groups != 1) return false;
  const RowSizes s(x.shape(), w, y.shape(), options);
  if (options.stride != Size2d(1) && s.taps() < kFewestTaps) return false;
  return is_small(w, s.width) || prefers_rows(s, w, x, processed_row(s));
}

void ConvSmall::run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y) {
  const bool relu = epilogue.activation == Activation::kRelu;
  const RowSizes s(x.shape(), weight.shape(), y.shape(), options);
  const float* w = weight.data<float>();
  const auto weights =
      in_groups(s, [&](int64_t channel, int64_t tap) { return w[channel * s.taps() + tap]; });
  convolve_small(s, x.data<float>(), nullptr, weights, bias ? bias.data<float>() : nullptr, relu,
                 y.data<float>());
  if (!relu) kernels::run_epilogue(epilogue, y, y);
}

bool ConvBackwardSmall::accepts(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                                const Tensor& weight, const Conv2dOptions& options,
                                const Tensor& dx, const Tensor& dw, const Tensor&) {
  if (behind.activation == Activation::kGelu || dy.numel() == 0 || (dx && dx.numel() == 0))
    return false;
  if (dw && dw.numel() > 0 && computes_dw(dy, x, dw.shape(), options)) return true;
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
  if (dw && computes_dw(dy, x, dw.shape(), options))
    small_weight_gradient(dy, behind, x, options, dw, db);
  else if (dw || db)
    kernels::conv2d_backward(dy, behind, x, weight, options, none, dw, db);
}

}  // namespace tapegrad::backends::cpu
