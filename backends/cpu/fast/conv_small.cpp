#include "backends/cpu/fast/conv_small.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/dnnl/conv_dnnl.h"
#include "backends/cpu/fast/conv_lanes_weight.h"
#include "backends/cpu/fast/conv_row_results.h"
#include "backends/cpu/fast/conv_rows.h"
#include "backends/cpu/fast/conv_small_weight.h"

namespace tapegrad::backends::cpu {
namespace {

// The largest numbers of elements of a channel's kernel: for is_small(), and for all kernels.
constexpr int64_t kMaxGradientTaps = 64, kMostTaps = 16384;
// The smallest number of positions for which channels in lanes are considered.
constexpr int64_t kFewestForLanes = 100;
// The smallest number of independent sums that hides the latency of a multiply-add.
constexpr int64_t kFewestSums = 6;
// The largest number of channels of a group, of x and of y, that ConvGrouped computes.
constexpr int64_t kMostGrouped = 8;

/// The shapes of a convolution. An image is a volume of depth 1.
struct Problem {
  Shape x, w, y;
  Conv3dOptions options;
  bool is_volume;

  Problem(const Shape& x, const Shape& w, const Shape& y, const Conv2dOptions& o)
      : x{x[0], x[1], 1, x[2], x[3]},
        w{w[0], w[1], 1, w[2], w[3]},
        y{y[0], y[1], 1, y[2], y[3]},
        options{{},
                {1, o.stride.height, o.stride.width},
                {0, o.padding.height, o.padding.width},
                {1, o.dilation.height, o.dilation.width},
                o.groups},
        is_volume(false) {}
  Problem(const Shape& x, const Shape& w, const Shape& y, const Conv3dOptions& options)
      : x(x), w(w), y(y), options(options), is_volume(true) {}

  int64_t kernel() const { return w[2] * w[3] * w[4]; }
  /// Returns the sizes of the first group.
  [[gnu::noinline]] RowSizes sizes() const {
    const auto& [named, stride, padding, dilation, groups] = options;
    const int64_t images = y[0] * y[2];
    RowSizes s({images, x[1], x[3], x[4]}, {w[0], w[1] * w[2], w[3], w[4]},
               {images, w[0], y[3], y[4]},
               {.stride = stride.plane(),
                .padding = padding.plane(),
                .dilation = dilation.plane(),
                .groups = groups});
    s.out_depth = y[2];
    s.from = {x[1], 0, x[2], w[2], stride.depth, -padding.depth, dilation.depth};
    s.to = {w[0], 0, y[2]};
    return s;
  }
};

/// Calls run(group) with the channels of each group in s.
template <typename Run>
void for_each_group_of_channels(RowSizes s, const Run& run) {
  const int64_t channels = s.in / s.from.taps;
  for (int64_t group = 0; group * s.out < s.to.channels; ++group) {
    s.from.first = group * channels;
    s.to.first = group * s.out;
    run(group, std::as_const(s));
  }
}

/// A plane, row or column of a kernel, and the plane, row or column of dy that it meets at the
/// first result of a phase.
struct GradientTap {
  int64_t of_kernel, of_dy;
};
/// The taps of each phase of dx, by planes, by rows or by columns.
struct GradientTaps {
  std::vector<std::vector<GradientTap>> phases;
  int64_t first = 0, last = 0;  // of_dy

  [[gnu::noinline]] GradientTaps(int64_t kernel, int64_t size, int64_t stride, int64_t padding,
                                 int64_t dilation)
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
class InputGradient {
 public:
  [[gnu::noinline]] explicit InputGradient(const Problem& problem)
      : problem_(problem), deep_(taps(2)), down_(taps(3)), right_(taps(4)) {}

  int64_t phases() const { return std::ssize(deep_.phases); }
  /// Returns the sizes of a convolution of dy that computes the planes of a phase, by a kernel that
  /// spans the taps of all phases of rows and columns.
  [[gnu::noinline]] RowSizes sizes(int64_t phase) const {
    const auto& [x, w, y, options, is_volume] = problem_;
    const auto& [named, stride, padding, dilation, groups] = options;
    const std::vector<GradientTap>& deep = deep_.phases[size_t(phase)];
    const int64_t planes = steps_within(x[2], phase, stride.depth), images = x[0] * planes;
    const int64_t count = std::max<int64_t>(std::ssize(deep), 1);
    RowSizes s(
        {images, y[1], y[3], y[4]},
        {w[1] * groups, w[0] / groups * count, down_.span(), right_.span()},
        {images, x[1], steps_within(x[3], 0, stride.height), steps_within(x[4], 0, stride.width)},
        {.padding = {-down_.first, -right_.first}, .groups = groups});
    s.out_depth = planes;
    s.from = {y[1], 0, y[2], count};
    s.from.shift = deep.empty() ? y[2] : deep[0].of_dy;  // no plane: zeros
    if (count > 1) s.from.tap_step = deep[1].of_dy - deep[0].of_dy;
    s.to = {x[1], 0, x[2]};
    s.to.step = stride.depth, s.to.shift = phase;
    return s;
  }

  /// Returns the sums for the planes of a phase, of a group of channels with sizes s and `weight`.
  ResultPhases sums(int64_t phase, const RowSizes& s, const float* weight) const {
    const auto& [x, w, y, options, is_volume] = problem_;
    std::vector<GradientTap> deep = deep_.phases[size_t(phase)];
    if (deep.empty()) deep.push_back({-1, 0});
    ResultPhases result{{x[3], x[4]}, options.stride.plane(), {}};
    for (size_t i = 0; i < down_.phases.size(); ++i)
      for (size_t j = 0; j < right_.phases.size(); ++j) {
        std::vector<int64_t> offsets, elements;  // of dy; of the weight, -1 for none
        for (int64_t plane = 0; plane < s.in; ++plane) {
          const int64_t first = plane / std::ssize(deep) * w[1] * w[2];
          const int64_t of_kernel = deep[size_t(plane % std::ssize(deep))].of_kernel;
          for (const GradientTap& u : down_.phases[i])
            for (const GradientTap& v : right_.phases[j]) {
              offsets.push_back((plane * s.rows() + u.of_dy - down_.first) * s.row() + v.of_dy -
                                right_.first);
              elements.push_back(of_kernel < 0 ? -1
                                               : ((first + of_kernel) * w[3] + u.of_kernel) * w[4] +
                                                     v.of_kernel);
            }
        }
        result.add({int64_t(i), int64_t(j)}, std::move(offsets), w[1],
                   [&](int64_t channel, size_t tap) {
                     const int64_t element = elements[tap];
                     return element < 0 ? 0.0f : weight[element + channel * problem_.kernel()];
                   });
      }
    return result;
  }

 private:
  GradientTaps taps(int axis) const {
    const auto along = [&](const Size3d& size) {
      return axis == 2 ? size.depth : axis == 3 ? size.height : size.width;
    };
    return {problem_.w[axis], problem_.x[axis], along(problem_.options.stride),
            along(problem_.options.padding), along(problem_.options.dilation)};
  }

  const Problem& problem_;
  const GradientTaps deep_, down_, right_;
};

bool has_few_outputs(const RowSizes& s) { return s.out < 16 && s.out % 8 != 0; }
/// Returns whether vectors along rows are faster than oneDNN's blocks of channels for few outputs.
/// Short rows leave lanes unused, unless rows are joined; unpacking an image pays off for few
/// channels.
bool prefers_rows_for_few(const RowSizes& s, bool is_packed) {
  const int64_t pair = 2 * kLanes<float>;
  int64_t step = s.out_width > kLanes<float> ? pair : kLanes<float>;
  if (gains_by_joining(s)) step = s.joined_row();
  return (s.out_width >= pair || step * s.out <= kMostChannels * s.out_width) &&
         (s.out < 8 || !is_packed);
}
/// Returns whether vectors along rows are faster for any number of channels. oneDNN computes whole
/// blocks, of `from` and `to` planes, but only the share `used` of the products; a product in a
/// full block takes a tenth less time.
bool prefers_rows_for(const RowSizes& s, int64_t from, int64_t to, bool is_packed,
                      double used = 1) {
  return !is_packed &&
         5 * used * double(from * to * s.out_width) >= double(6 * s.in * s.out * processed_row(s));
}
bool is_small(const RowSizes& s) {
  return has_few_outputs(s) && s.taps() <= kMaxGradientTaps && s.width >= kLanes<float> / 2;
}
/// Returns the planes that oneDNN computes, whose channels fill whole blocks.
int64_t planes_in_blocks(const RowSizes& s) { return in_lanes(s.in / s.from.taps) * s.from.taps; }
/// Returns whether a convolution of several groups is faster along rows than by oneDNN, which
/// needs groups of whole blocks of 8 channels for its fast kernels, and than by ConvGrouped.
bool prefers_rows_for_groups(const Problem& p) {
  const int64_t in = p.w[1], out = p.w[0] / p.options.groups, most = std::max(in, out);
  const bool fills_blocks = in % 8 == 0 && out % 8 == 0;
  return !fills_blocks && most > (p.is_volume ? 1 : kMostGrouped) && most * p.kernel() <= kMostTaps;
}
/// prefers_rows_for_groups() for y and dx, where kernels of one element also need rows that fill
/// vectors.
bool prefers_rows_for_groups(const Problem& p, int64_t width) {
  return prefers_rows_for_groups(p) && (p.kernel() > 1 || 5 * in_lanes(width) <= 6 * width);
}

bool computes_y(const Problem& p, bool is_packed) {
  if (p.options.groups > 1) return prefers_rows_for_groups(p, p.y[4]);
  const RowSizes s = p.sizes();
  if (p.options.stride != Size3d(1) && s.taps() < kFewestTaps) return false;
  if (is_small(s)) return true;
  if (p.kernel() == 1 || s.taps() > kMostTaps) return false;
  if (has_few_outputs(s)) return prefers_rows_for_few(s, is_packed);
  const int64_t from = s.in / s.from.taps < kLanes<float> ? s.in : planes_in_blocks(s);
  return prefers_rows_for(s, from, in_lanes(s.out), is_packed);
}

void compute_y(const Problem& p, const float* x, const float* w, const float* bias, bool relu,
               float* y) {
  for_each_group_of_channels(p.sizes(), [&](int64_t group, RowSizes s) {
    set_band(s);
    const float* weights = w + group * s.out * s.taps();
    ResultPhases all{{s.out_height, s.out_width}, 1, {}};
    all.add(0, tap_offsets(s), s.out, [&](int64_t channel, size_t tap) {
      return weights[channel * s.taps() + int64_t(tap)];
    });
    convolve_rows(s, x, nullptr, all, bias != nullptr ? bias + s.to.first : nullptr, relu, y);
  });
}

/// Returns the share of the products of dx along rows whose element of dy is in the image. oneDNN
/// leaves out the others, which are many if the kernel is nearly as large as the image.
double products_used(const Problem& p) {
  const auto along = [](int64_t y, int64_t stride, int64_t x) {
    return std::min(1.0, double(y * stride) / double(x));
  };
  const auto& [named, stride, padding, dilation, groups] = p.options;
  return along(p.y[2], stride.depth, p.x[2]) * along(p.y[3], stride.height, p.x[3]) *
         along(p.y[4], stride.width, p.x[4]);
}

bool computes_dx(const Problem& p, bool is_packed) {
  if (p.options.groups > 1) return prefers_rows_for_groups(p, p.y[4]);
  if (p.kernel() == 1 || p.w[0] * p.kernel() > kMostTaps) return false;
  if (const RowSizes s = Problem(p.x, p.w, p.x, p.options).sizes();
      p.options.stride == Size3d(1) && has_few_outputs(s))
    return prefers_rows_for_few(s, is_packed);
  const RowSizes s = InputGradient(p).sizes(0);
  const int64_t sums = s.out * (s.out_width > kLanes<float> ? kRowVectors : 1);
  return (p.options.stride == Size3d(1) || sums >= kFewestSums) &&
         prefers_rows_for(s, planes_in_blocks(s), in_lanes(s.out), is_packed, products_used(p));
}

void compute_dx(const Problem& p, const float* dy, const float* from_relu, const float* w,
                float* dx) {
  const InputGradient gradient(p);
  for (int64_t phase = 0; phase < gradient.phases(); ++phase)
    for_each_group_of_channels(gradient.sizes(phase), [&](int64_t group, RowSizes s) {
      set_band(s);
      const float* weights = w + group * p.w[0] / p.options.groups * p.w[1] * p.kernel();
      convolve_rows(s, dy, from_relu, gradient.sums(phase, s, weights), nullptr, false, dx);
    });
}

enum class WeightGradient { kOther, kRows, kOutputLanes, kInputLanes };

/// Returns the fastest implementation of dw. The cost is the number of products for each position
/// and element of a kernel, with those of unused lanes, times the measured time of a product
/// relative to oneDNN's.
WeightGradient choose_dw(const Problem& p, bool is_packed) {
  if (p.options.groups > 1)
    return p.kernel() > 1 && prefers_rows_for_groups(p) ? WeightGradient::kRows
                                                        : WeightGradient::kOther;
  RowSizes s = p.sizes();
  if (is_small(s) && p.options.stride == Size3d(1)) return WeightGradient::kRows;
  if (p.kernel() == 1 || s.taps() > kMostTaps || (s.out >= 8 && is_packed))
    return WeightGradient::kOther;
  set_gradient_band(s);
  if (s.out < 8)
    return prefers_rows_for_few(s, is_packed) ? WeightGradient::kRows : WeightGradient::kOther;
  // oneDNN does not fill blocks of few channels of an image.
  const int64_t from = s.in / s.from.taps <= kLanes<float> / 2 ? s.in : planes_in_blocks(s);
  double least = double(from * in_lanes(s.out));
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

void compute_dw(const Problem& p, WeightGradient chosen, const float* dy, const float* from_relu,
                const float* x, float* dw, float* db) {
  for_each_group_of_channels(p.sizes(), [&](int64_t group, const RowSizes& s) {
    float* weights = dw + group * s.out * s.taps();
    float* biases = db != nullptr ? db + s.to.first : nullptr;
    if (chosen == WeightGradient::kRows)
      small_weight_gradient(s, dy, from_relu, x, weights, biases);
    else
      weight_gradient_in_lanes(s, dy, from_relu, x, chosen == WeightGradient::kOutputLanes, weights,
                               biases);
  });
}

bool is_packed(const Tensor& x) { return x && x.storage().is_packed(); }
float* floats_or_null(const Tensor& x) { return x ? x.data<float>() : nullptr; }

/// Which gradients are computed here.
struct OwnGradients {
  Problem problem;
  bool dx;
  WeightGradient dw = WeightGradient::kOther;

  template <typename Options>
  OwnGradients(const Tensor& dy, const Tensor& x, const Tensor& weight, const Options& options,
               const Tensor& to_x, const Tensor& to_w)
      : problem(to_x ? to_x.shape() : x.shape(), to_w ? to_w.shape() : weight.shape(), dy.shape(),
                options),
        dx(to_x && computes_dx(problem, is_packed(x))) {
    if (to_w) dw = choose_dw(problem, is_packed(x));
  }
  bool has_dw() const { return dw != WeightGradient::kOther; }

  /// Computes own gradients, and calls rest(dx, dw, db) for the others.
  template <typename Rest>
  void compute(const Tensor& dy, const float* from_relu, const Tensor& x, const Tensor& weight,
               Tensor& to_x, Tensor& to_w, Tensor& to_b, const Rest& rest) const {
    Tensor none;
    if (dx)
      compute_dx(problem, dy.data<float>(), from_relu, weight.data<float>(), to_x.data<float>());
    else if (to_x)
      rest(to_x, none, none);
    if (has_dw())
      compute_dw(problem, dw, dy.data<float>(), from_relu, x.data<float>(), to_w.data<float>(),
                 floats_or_null(to_b));
    else if (to_w || to_b)
      rest(none, to_w, to_b);
  }
};

bool is_empty(const Tensor& x) { return x && x.numel() == 0; }

}  // namespace

bool ConvSmall::accepts(const Tensor& x, const Tensor& weight, const Tensor&,
                        const Conv2dOptions& options, const Epilogue&, const Tensor& y) {
  return x.numel() > 0 && y.numel() > 0 &&
         computes_y(Problem(x.shape(), weight.shape(), y.shape(), options), is_packed(x));
}

void ConvSmall::run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y) {
  const bool relu = epilogue.activation == Activation::kRelu;
  compute_y(Problem(x.shape(), weight.shape(), y.shape(), options), x.data<float>(),
            weight.data<float>(), floats_or_null(bias), relu, y.data<float>());
  if (!relu) kernels::run_epilogue(epilogue, y, y);
}

bool ConvBackwardSmall::accepts(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                                const Tensor& weight, const Conv2dOptions& options,
                                const Tensor& dx, const Tensor& dw, const Tensor&) {
  if (behind.activation == Activation::kGelu || !(dx || dw) || is_empty(dy) || is_empty(dx) ||
      is_empty(dw))
    return false;
  const OwnGradients own(dy, x, weight, options, dx, dw);
  return own.dx || own.has_dw();
}

void ConvBackwardSmall::run(TypeTag<float>, const Tensor& dy, const Epilogue& behind,
                            const Tensor& x, const Tensor& weight, const Conv2dOptions& options,
                            Tensor& dx, Tensor& dw, Tensor& db) {
  OwnGradients(dy, x, weight, options, dx, dw)
      .compute(dy, behind ? behind.at.data<float>() : nullptr, x, weight, dx, dw, db,
               [&](Tensor& to_x, Tensor& to_w, Tensor& to_b) {
                 kernels::conv2d_backward(dy, behind, to_w || to_b ? x : Tensor(), weight, options,
                                          to_x, to_w, to_b);
               });
}

bool ConvSmallVolume::accepts(const Tensor& x, const Tensor& weight, const Tensor&,
                              const Conv3dOptions& options, const Tensor& y) {
  return computes_y(Problem(x.shape(), weight.shape(), y.shape(), options), is_packed(x));
}

void ConvSmallVolume::run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Conv3dOptions& options, Tensor& y) {
  compute_y(Problem(x.shape(), weight.shape(), y.shape(), options), x.data<float>(),
            weight.data<float>(), floats_or_null(bias), /*relu=*/false, y.data<float>());
}

bool ConvBackwardSmallVolume::accepts(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                      const Conv3dOptions& options, const Tensor& dx,
                                      const Tensor& dw, const Tensor& db) {
  if (!(dx || dw) || is_empty(dy) || is_empty(dx) || is_empty(dw)) return false;
  const OwnGradients own(dy, x, weight, options, dx, dw);
  if (!own.dx && !own.has_dw()) return false;
  const Tensor none;
  const Tensor &rest_x = own.dx ? none : dx, &rest_w = own.has_dw() ? none : dw;
  return !(rest_x || rest_w) ||
         ConvVolumeBackwardDnnl::accepts(dy, x, weight, options, rest_x, rest_w, db);
}

void ConvBackwardSmallVolume::run(TypeTag<float>, const Tensor& dy, const Tensor& x,
                                  const Tensor& weight, const Conv3dOptions& options, Tensor& dx,
                                  Tensor& dw, Tensor& db) {
  OwnGradients(dy, x, weight, options, dx, dw)
      .compute(dy, nullptr, x, weight, dx, dw, db, [&](Tensor& to_x, Tensor& to_w, Tensor& to_b) {
        kernels::conv3d_backward(dy, to_w ? x : Tensor(), weight, options, to_x, to_w, to_b);
      });
}

}  // namespace tapegrad::backends::cpu
