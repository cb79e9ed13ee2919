#include "backends/cpu/fast/conv_small.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <omp.h>

#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/per_thread.h"
#include "backends/cpu/tools/relu.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;
constexpr int64_t kMaxGradientTaps = 64;    // elements of a channel's kernel for own dw
constexpr int64_t kMostTaps = 16384;        // elements of a channel's kernel
constexpr int64_t kPaddedFloats = 1 << 16;  // of a padded band: 256 KiB of the second-level cache
constexpr int kMostChannels = kLanes<float> >= 16 ? 12 : 5;  // channels of two vectors in registers
constexpr int kChannelsTogether =
    kLanes<float> >= 16 ? 3 : 1;                      // channels whose sums fit in registers
constexpr int64_t kMaxBatchPieces = 64;               // parts of the batch, each with its own sums
constexpr int64_t kParallelSmall = int64_t(1) << 18;  // products that justify a second thread
// For own dw of 8 or more channels.
constexpr int64_t kFewestImages = 4, kFewestPositions = 32 * kLanes<float>;

int64_t in_lanes(int64_t n) { return (n + kLanes<float> - 1) / kLanes<float> * kLanes<float>; }

/// A convolution of stride 1.
struct SmallSizes {
  int64_t batch, in, height, width, out, kernel_height, kernel_width, out_height, out_width;
  Size2d padding, dilation;
  int64_t band = out_height;  // rows of the result that are computed from one padded part

  SmallSizes(const Shape& x, const Shape& w, const Shape& y, const Conv2dOptions& options)
      : batch(x[0]),
        in(x[1]),
        height(x[2]),
        width(x[3]),
        out(w[0]),
        kernel_height(w[2]),
        kernel_width(w[3]),
        out_height(y[2]),
        out_width(y[3]),
        padding(options.padding),
        dilation(options.dilation) {}
  /// Returns the convolution of dy that computes dx.
  static SmallSizes of_gradient(const Shape& dy, const Shape& w, const Shape& dx,
                                const Conv2dOptions& options) {
    SmallSizes s(dy, {w[1], w[0], w[2], w[3]}, dx, options);
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
  // Sizes of the padded part, whose rows are long enough for vectors that exceed the width.
  int64_t row() const { return in_lanes(out_width) + reach_right(); }
  int64_t rows() const { return band + reach_down(); }
  int64_t padded_part() const { return in * rows() * row(); }
};

/// Copies the rows of the image that the results from row `first` on need, with zero padding, and
/// zeros where a row's last vector exceeds the width. Elements where `results`, the result of a
/// ReLU, is not positive are zero as well; it may be null.
void pad_image(const float* image, const float* results, const SmallSizes& s, int64_t first,
               float* padded) {
  std::fill_n(padded, s.padded_part(), 0.0f);
  const int64_t begin = std::max<int64_t>(0, first - s.padding.height);
  const int64_t end = std::min(s.height, first - s.padding.height + s.rows());
  for (int64_t c = 0; c < s.in; ++c)
    for (int64_t i = begin; i < end; ++i) {
      const int64_t from = (c * s.height + i) * s.width;
      float* to =
          padded + (c * s.rows() + s.padding.height - first + i) * s.row() + s.padding.width;
      if (results == nullptr)
        std::copy_n(image + from, s.width, to);
      else
        mask_by_result(image + from, results + from, s.width, to);
    }
}

/// Returns the offsets in the padded part of the elements of a kernel.
std::vector<int64_t> tap_offsets(const SmallSizes& s) {
  std::vector<int64_t> offsets;
  for (int64_t c = 0; c < s.in; ++c)
    for (int64_t u = 0; u < s.kernel_height; ++u)
      for (int64_t v = 0; v < s.kernel_width; ++v)
        offsets.push_back((c * s.rows() + u * s.dilation.height) * s.row() + v * s.dilation.width);
  return offsets;
}

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
std::vector<float> in_groups(const SmallSizes& s, const Weight& weight) {
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

/// Writes the sums of a row of `count` channels. `left` columns remain.
void write_sums(const SmallSizes& s, ColumnSums& sums, int64_t count, int64_t vectors, bool relu,
                int64_t left, float* to) {
  for (int64_t k = 0; k < count; ++k)
    for (int64_t v = 0; v < vectors && v * kLanes<float> < left; ++v) {
      B sum = B::load_aligned(sums.values[k] + v * kLanes<float>);
      if (relu) sum = formulas::Relu()(sum);
      float* place = to + k * s.out_plane() + v * kLanes<float>;
      if (left >= (v + 1) * kLanes<float>)
        sum.store_unaligned(place);
      else
        store_some<float>(place, left - v * kLanes<float>, sum);
    }
}

/// Computes the convolution of `images`, masked by `results` as in pad_image(), plus the bias.
void convolve_small(SmallSizes s, const float* images, const float* results,
                    const std::vector<float>& weights, const float* bias, bool relu, float* to) {
  const int64_t fit = kPaddedFloats / (s.in * s.row()) - s.reach_down();
  const int64_t share =
      (s.batch * s.out_height + omp_get_max_threads() - 1) / omp_get_max_threads();
  s.band = std::clamp<int64_t>(std::min(std::max<int64_t>(fit, 8), share), 1, s.out_height);
  const auto offsets = tap_offsets(s);
  PerThread padded(s.padded_part());
#pragma omp parallel for if (s.products() > kParallelSmall)
  for (int64_t task = 0; task < s.batch * s.bands(); ++task) {
    const int64_t n = task / s.bands(), begin = task % s.bands() * s.band;
    const int64_t rows = std::min(s.band, s.out_height - begin),
                  image = n * s.in * s.height * s.width;
    float* part = padded.mine();
    pad_image(images + image, results != nullptr ? results + image : nullptr, s, begin, part);
    for_each_channel_group(s.out, [&](int64_t first, int64_t count) {
      const auto functions = functions_of(count);
      ColumnSums start, sums;
      for (int64_t k = 0; k < count; ++k)
        std::ranges::fill(start.values[k], bias != nullptr ? bias[first + k] : 0.0f);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t next = 0; next < s.out_width; next += kRowVectors * kLanes<float>) {
          const int64_t vectors = s.out_width - next > kLanes<float> ? 2 : 1;
          // The last vectors of a row overlap the previous ones, unless the row is shorter.
          const int64_t j =
              std::min(next, std::max<int64_t>(s.out_width - vectors * kLanes<float>, 0));
          std::copy_n(start.values[0], count * kRowVectors * kLanes<float>, sums.values[0]);
          functions[size_t(vectors - 1)](part + i * s.row() + j, offsets,
                                         weights.data() + first * s.taps(), sums);
          write_sums(s, sums, count, vectors, relu, s.out_width - j,
                     to + (n * s.out + first) * s.out_plane() + (begin + i) * s.out_width + j);
        }
    });
  }
}

/// Returns a mask of the lanes [first, last).
xsimd::batch_bool<float> lanes_between(int64_t first, int64_t last) {
  alignas(64) float lanes[kLanes<float>];
  for (int64_t i = 0; i < kLanes<float>; ++i) lanes[i] = i >= first && i < last ? 1.0f : 0.0f;
  return B::load_aligned(lanes) > B(0.5f);
}

/// One channel of dy, and of the ReLU's result if there is one.
struct Plane {
  const float *dy, *y;
  int64_t size;  // elements up to the end of the tensor

  /// `count` values of dz, 0 < count <= kLanes<float>, starting at element `at`; other lanes are
  /// arbitrary.
  B load(int64_t at, int64_t count) const {
    const auto values = [&](const float* from) {
      return at + kLanes<float> <= size ? B::load_unaligned(from + at)
                                        : load_some(from + at, count);
    };
    return y == nullptr ? values(dy) : formulas::ReluBackward()(values(dy), values(y));
  }
};

/// Returns values in a register, from which each use reads them: g++ would read the memory for each
/// use, and a Zen 4 reads only 64 bytes per cycle.
B load_once(const float* from) {
  B values = B::load_unaligned(from);
#if XSIMD_WITH_AVX512F
  asm("" : "+v"(values.data));
#endif
  return values;
}

/// Calls add(is_whole, row, column) for each vector of the rows of a plane; is_whole is true_type
/// unless the vector exceeds the row.
template <typename Add>
void for_each_vector(const SmallSizes& s, const Add& add) {
  const int64_t whole = s.out_width - s.out_width % kLanes<float>;
  for (int64_t i = 0; i < s.out_height; ++i) {
    for (int64_t j = 0; j < whole; j += kLanes<float>) add(std::true_type(), i, j);
    if (whole < s.out_width) add(std::false_type(), i, whole);
  }
}

/// Returns the sum of dz.
double sum_of_plane(const SmallSizes& s, const Plane& plane) {
  const int64_t rest = s.out_width % kLanes<float>;
  const auto counts = lanes_between(0, rest);
  B total(0.0f);
  for_each_vector(s, [&](auto whole, int64_t i, int64_t j) {
    const B dz = plane.load(i * s.out_width + j, whole ? kLanes<float> : rest);
    total += whole ? dz : select(counts, dz, B(0.0f));
  });
  return double(xsimd::hadd(total));
}

/// For kPlanes channels of dz, adds the sum of dz times each of kCount taps of the image to
/// parts[plane * step].
template <int kCount, int kPlanes>
void add_plane_products(const SmallSizes& s, const Plane* planes, const float* image,
                        const int64_t* offsets, double* parts, int64_t step) {
  const B zero(0.0f);
  B sums[kPlanes][kCount];
  unrolled<kPlanes>([&](auto p) { unrolled<kCount>([&](auto k) { sums[p][k] = zero; }); });
  const int64_t rest = s.out_width % kLanes<float>;
  const auto counts = lanes_between(0, rest);
  for_each_vector(s, [&](auto whole, int64_t i, int64_t j) {
    B dz[kPlanes];
    unrolled<kPlanes>([&](auto p) {
      dz[p] = planes[p].load(i * s.out_width + j, whole ? kLanes<float> : rest);
      if (!whole) dz[p] = select(counts, dz[p], zero);
    });
    const float* from = image + i * s.row() + j;
    unrolled<kCount>([&](auto k) {
      B values = load_once(from + offsets[k]);
      if (!whole) values = select(counts, values, zero);  // excluded values may be infinite
      unrolled<kPlanes>([&](auto p) { sums[p][k] = functions::fused(values, dz[p], sums[p][k]); });
    });
  });
  unrolled<kPlanes>([&](auto p) {
    unrolled<kCount>([&](auto k) { parts[p * step + k] += double(xsimd::hadd(sums[p][k])); });
  });
}

void small_input_gradient(const Tensor& dy, const Epilogue& behind, const Tensor& weight,
                          const Conv2dOptions& options, Tensor& dx) {
  const SmallSizes s = SmallSizes::of_gradient(dy.shape(), weight.shape(), dx.shape(), options);
  const float* w = weight.data<float>();
  const int64_t plane = s.kernel_height * s.kernel_width;
  const auto weights = in_groups(s, [&](int64_t channel, int64_t tap) {
    return w[(tap / plane * s.out + channel + 1) * plane - 1 - tap % plane];
  });
  convolve_small(s, dy.data<float>(), behind ? behind.at.data<float>() : nullptr, weights, nullptr,
                 false, dx.data<float>());
}

void small_weight_gradient(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                           const Conv2dOptions& options, Tensor& dw, Tensor& db) {
  const SmallSizes s(x.shape(), dw.shape(), dy.shape(), options);
  const float *images = x.data<float>(), *gradients = dy.data<float>();
  const float* from_relu = behind ? behind.at.data<float>() : nullptr;
  const int64_t pieces = std::min(s.batch, kMaxBatchPieces), results = s.out * (s.taps() + 1);
  std::vector<double> parts(size_t(pieces * results));  // per channel: the taps, then the bias
  PerThread padded(s.padded_part());
  const auto offsets = tap_offsets(s);
#pragma omp parallel for if (s.products() > kParallelSmall)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    float* image = padded.mine();
    for (int64_t n = piece * s.batch / pieces; n < (piece + 1) * s.batch / pieces; ++n) {
      pad_image(images + n * s.in * s.height * s.width, nullptr, s, 0, image);
      double* part = parts.data() + piece * results;
      for_each_group<kChannelsTogether, 1>(
          s.out, [&]<int kPlanes>(int64_t o, std::integral_constant<int, kPlanes>) {
            Plane planes[kPlanes];
            for (int p = 0; p < kPlanes; ++p) {
              const int64_t at = (n * s.out + o + p) * s.out_plane();
              planes[p] = {gradients + at, from_relu != nullptr ? from_relu + at : nullptr,
                           dy.numel() - at};
            }
            const int64_t step = s.taps() + 1;
            double* sums = part + o * step;
            for (int p = 0; p < kPlanes; ++p)
              sums[p * step + s.taps()] += sum_of_plane(s, planes[p]);
            for_each_group<9, 3, 1>(
                s.taps(), [&]<int kCount>(int64_t first, std::integral_constant<int, kCount>) {
                  add_plane_products<kCount, kPlanes>(s, planes, image, offsets.data() + first,
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

bool has_one_step(const Conv2dOptions& o) { return o.groups == 1 && o.stride == Size2d(1); }
bool has_few_outputs(const Shape& w) { return w[0] < 16 && w[0] % 8 != 0; }
/// Returns whether vectors along rows are faster than oneDNN's blocks of channels for few outputs.
/// Short rows leave lanes unused; unpacking an image pays off for few channels.
bool prefers_rows_for_few(const Shape& w, int64_t width, const Tensor& x) {
  const int64_t step = width > kLanes<float> ? 2 * kLanes<float> : kLanes<float>;
  return (width >= 2 * kLanes<float> || step * w[0] <= kMostChannels * width) &&
         (w[0] < 8 || !x || !x.storage().is_packed());
}
/// Returns whether vectors along rows are faster for any number of channels. oneDNN computes whole
/// blocks, of `from` and `to` channels; a product in a full block takes a tenth less time.
bool prefers_rows_for(const Shape& w, int64_t from, int64_t to, int64_t width, const Tensor& x) {
  return (!x || !x.storage().is_packed()) &&
         5 * from * to * width >= 6 * w[0] * w[1] * in_lanes(width);
}
bool prefers_rows(const Tensor& x, const Shape& w, int64_t width) {
  if (w[2] * w[3] == 1 || w[1] * w[2] * w[3] > kMostTaps) return false;
  if (has_few_outputs(w)) return prefers_rows_for_few(w, width, x);
  return prefers_rows_for(w, w[1] < kLanes<float> ? w[1] : in_lanes(w[1]), in_lanes(w[0]), width,
                          x);
}
bool is_small(const Shape& w, int64_t width) {
  return has_few_outputs(w) && w[1] * w[2] * w[3] <= kMaxGradientTaps && width >= kLanes<float> / 2;
}
/// A large image leaves the cache between two channels of dy; the sums of each lane are joined for
/// each image.
bool computes_dw(const Tensor& dy, const Tensor& x, const Shape& w, const Conv2dOptions& o) {
  if (!has_one_step(o)) return false;
  if (is_small(w, x.shape()[3])) return true;
  if (w[0] >= 8 && has_few_outputs(w)) return false;
  const SmallSizes s(x.shape(), w, dy.shape(), o);
  return prefers_rows(x, w, s.out_width) &&
         (w[0] < 8 || (s.batch >= kFewestImages && s.out_plane() >= kFewestPositions &&
                       s.padded_part() <= 2 * kPaddedFloats));
}
bool computes_dx(const Tensor& x, const Shape& w, const Conv2dOptions& o, const Tensor& dx) {
  if (!has_one_step(o) || o.padding.height > o.dilation.height * (w[2] - 1) ||
      o.padding.width > o.dilation.width * (w[3] - 1))
    return false;
  if (w[2] * w[3] == 1 || w[0] * w[2] * w[3] > kMostTaps) return false;
  const int64_t width = dx.shape()[3];
  if (has_few_outputs(w)) return prefers_rows_for_few(w, width, x);
  return prefers_rows_for(w, in_lanes(w[1]), in_lanes(w[0]), width, x);
}

}  // namespace

bool ConvSmall::accepts(const Tensor& x, const Tensor& weight, const Tensor&,
                        const Conv2dOptions& options, const Epilogue&, const Tensor& y) {
  const Shape& w = weight.shape();
  return x.numel() > 0 && y.numel() > 0 && has_one_step(options) &&
         (is_small(w, x.shape()[3]) || prefers_rows(x, w, y.shape()[3]));
}

void ConvSmall::run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y) {
  const bool relu = epilogue.activation == Activation::kRelu;
  const SmallSizes s(x.shape(), weight.shape(), y.shape(), options);
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
  return dx && computes_dx(x, weight.shape(), options, dx);
}

void ConvBackwardSmall::run(TypeTag<float>, const Tensor& dy, const Epilogue& behind,
                            const Tensor& x, const Tensor& weight, const Conv2dOptions& options,
                            Tensor& dx, Tensor& dw, Tensor& db) {
  Tensor none;
  if (dx) {
    if (computes_dx(x, weight.shape(), options, dx))
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
