// Convolutions of signals and volumes (ops/conv.h). A signal is an image of height 1. A volume is
// computed by separate kernels (ops/internal/conv_volume.h) or as images: the slices that a window
// covers are channels of an image.
#include <string>

#include "core/base/internal/step_constant.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/conv_volume.h"
#include "ops/internal/limits.h"
#include "ops/internal/unbatched.h"
#include "ops/internal/window.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

namespace {

void check_ranks(std::string_view op, const Variable& x, const Variable& weight, int dims) {
  if (x.rank() != 2 + dims || weight.rank() != 2 + dims)
    fail<ShapeError>(op, ": [batch, channels, ", dims == 1 ? "length" : "depth, height, width",
                     "] and a weight of as many dimensions wanted: ", x.shape(), " and ",
                     weight.shape());
}

/// Returns the index of slice u of window i, for every i and u.
Variable slices_of_windows(int64_t windows, int64_t kernel, int64_t stride, int64_t dilation,
                           Device device) {
  std::vector<int64_t> index;
  for (int64_t i = 0; i < windows; ++i)
    for (int64_t u = 0; u < kernel; ++u) index.push_back(i * stride + u * dilation);
  return Variable(step_constant([&] { return tensor(index, {.device = device}).value(); }));
}

/// Returns [o, i, kd, kh, kw] as the weight for an image whose channels include the slices.
Variable flat_weight(const Variable& weight) {
  const Shape& w = weight.shape();
  return reshape(weight, {w[0], w[1] * w[2], w[3], w[4]});
}

bool has_kernel(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Conv3dOptions& options, const Shape& result) {
  Tensor y = x.empty_like(result);
  return x.numel() > 0 && y.numel() > 0 && kernels::conv3d.accepts(x, weight, bias, options, y);
}
bool has_transposed_kernel(const Tensor& dy, const Tensor& weight, const Conv3dOptions& options,
                           const Shape& result) {
  if (dy.numel() == 0) return false;
  Tensor none, dx = dy.empty_like(result);
  return kernels::conv3d_backward.accepts(dy, none, weight, options, dx, none, none);
}

}  // namespace

Variable conv1d(const Variable& x, const Variable& weight, const Variable& bias,
                Conv1dOptions options, Where where) {
  if (is_unbatched(x, 1)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return conv1d(batch, weight, bias, options); });
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return conv1d(a...); }, where, x, weight, bias,
                            options);
  const CallLine line(where);
  check_ranks("conv1d", x, weight, 1);
  return squeeze(conv2d(unsqueeze(x, 2), unsqueeze(weight, 2), bias,
                        {.stride = {1, options.stride},
                         .padding = {0, options.padding},
                         .dilation = {1, options.dilation},
                         .groups = options.groups}),
                 2);
}

Variable conv_transpose1d(const Variable& x, const Variable& weight, const Variable& bias,
                          ConvTransposeOptions<int64_t> options, Where where) {
  if (is_unbatched(x, 1)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) {
      return conv_transpose1d(batch, weight, bias, options);
    });
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return conv_transpose1d(a...); }, where, x,
                            weight, bias, options);
  const CallLine line(where);
  check_ranks("conv_transpose1d", x, weight, 1);
  return squeeze(conv_transpose2d(unsqueeze(x, 2), unsqueeze(weight, 2), bias,
                                  {.stride = {1, options.stride},
                                   .padding = {0, options.padding},
                                   .output_padding = {0, options.output_padding},
                                   .groups = options.groups,
                                   .dilation = {1, options.dilation}}),
                 2);
}

Variable conv3d(const Variable& x, const Variable& weight, const Variable& bias,
                Conv3dOptions options, Where where) {
  if (is_unbatched(x, 3)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return conv3d(batch, weight, bias, options); });
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return conv3d(a...); }, where, x, weight, bias,
                            options);
  const CallLine line(where);
  check_ranks("conv3d", x, weight, 3);
  const auto& [named, stride, padding, dilation, groups] = options;
  const Shape &from = x.shape(), &w = weight.shape();
  const int64_t n = from[0], c = from[1], kernel = w[2];
  check_conv_operands("conv3d", x.value(), weight.value(), bias.value_or_empty(), groups);
  const int64_t depth = count_windows("conv3d", {from[2], 1},
                                      {.kernel = {kernel, 1},
                                       .stride = {stride.depth, 1},
                                       .padding = {padding.depth, 0},
                                       .dilation = {dilation.depth, 1}})
                            .height;
  const Size2d plane =
      count_windows("conv3d", {from[3], from[4]},
                    {Size2d(w[3], w[4]), stride.plane(), padding.plane(), dilation.plane()});
  if (numel(w) == w[0] * w[1] && stride == Size3d(1) && padding == Size3d(0)) {  // of 1 x 1 x 1
    const Variable y = conv2d(reshape(x, {n, c, from[2] * from[3], from[4]}),
                              reshape(weight, {w[0], w[1], 1, 1}), bias, {.groups = groups});
    return reshape(y, {n, w[0], from[2], from[3], from[4]});
  }
  if (const Shape to{n, w[0], depth, plane.height, plane.width};
      has_kernel(x.value(), weight.value(), bias.value_or_empty(), options, to))
    return conv_volume(x, weight, bias, options, to, where);
  const Variable padded = pad(x, {0, 0, 0, 0, padding.depth, padding.depth});
  const Variable slices = index_select(
      padded, 2, slices_of_windows(depth, kernel, stride.depth, dilation.depth, x.device()));
  const Variable windows =
      permute(reshape(slices, {n, c, depth, kernel, from[3], from[4]}), {0, 2, 1, 3, 4, 5});
  const Variable y =
      conv2d(reshape(windows, {n * depth, c * kernel, from[3], from[4]}), flat_weight(weight), bias,
             {.stride = stride.plane(),
              .padding = padding.plane(),
              .dilation = dilation.plane(),
              .groups = groups});
  const Shape& to = y.shape();
  return clone(permute(reshape(y, {n, depth, to[1], to[2], to[3]}), {0, 2, 1, 3, 4}));
}

namespace {

/// Checks the operands and options of conv_transpose3d and returns the shape of its result.
Shape transposed_shape(const Variable& x, const Variable& weight, const Variable& bias,
                       const ConvTransposeOptions<Size3d>& options) {
  constexpr std::string_view kName = "conv_transpose3d";
  check_ranks(kName, x, weight, 3);
  const auto& [named, stride, padding, extra, groups, dilation] = options;
  const Shape &from = x.shape(), &w = weight.shape();
  require_count(kName, "groups", groups);
  const int64_t channels = w[1] * groups;
  if (from[1] != w[0] || w[0] % groups != 0)
    fail<ShapeError>(kName, ": channels do not fit: input ", from, ", weight ", w, ", groups ",
                     groups);
  if (bias.defined() && bias.shape() != Shape{channels})
    fail<ShapeError>(kName, ": bias ", bias.shape(), " does not fit weight ", w);
  check_same_device(kName, x.value(), weight.value(), bias.value_or_empty());
  check_same_dtype(kName, x.value(), weight.value(), bias.value_or_empty());
  check_windows(kName, {Size2d(w[3], w[4]), stride.plane(), padding.plane(), dilation.plane()});
  check_windows(kName, {.kernel = {w[2], 1},
                        .stride = {stride.depth, 1},
                        .padding = {padding.depth, 0},
                        .dilation = {dilation.depth, 1}});
  return {from[0], channels,
          transposed_size(kName, from[2],
                          {w[2], stride.depth, padding.depth, extra.depth, dilation.depth}),
          transposed_size(kName, from[3],
                          {w[3], stride.height, padding.height, extra.height, dilation.height}),
          transposed_size(kName, from[4],
                          {w[4], stride.width, padding.width, extra.width, dilation.width})};
}

/// Computes conv_transpose3d without its bias: a transposed convolution of each plane of x, whose
/// results are added to the planes of the result.
Variable transposed_by_planes(const Variable& x, const Variable& weight,
                              const ConvTransposeOptions<Size3d>& options) {
  const auto& [named, stride, padding, extra, groups, dilation] = options;
  const Shape &from = x.shape(), &w = weight.shape();
  const int64_t n = from[0], depth = from[2], kernel = w[2], channels = w[1] * groups;
  const Variable images =
      reshape(permute(x, {0, 2, 1, 3, 4}), {n * depth, from[1], from[3], from[4]});
  const Variable spread = conv_transpose2d(images, flat_weight(weight), {},
                                           {.stride = stride.plane(),
                                            .padding = padding.plane(),
                                            .output_padding = extra.plane(),
                                            .groups = groups,
                                            .dilation = dilation.plane()});
  const int64_t height = spread.size(2), width = spread.size(3);
  const Variable slices = reshape(
      permute(reshape(spread, {n, depth, channels, kernel, height, width}), {0, 2, 1, 3, 4, 5}),
      {n, channels, depth * kernel, height, width});
  const int64_t reach = (depth - 1) * stride.depth + dilation.depth * (kernel - 1) + 1;
  const Variable none =
      zeros({n, channels, reach, height, width}, {.dtype = x.dtype(), .device = x.device()});
  const Variable y = index_add(
      none, 2, slices_of_windows(depth, kernel, stride.depth, dilation.depth, x.device()), slices);
  return pad(y, {0, 0, 0, 0, -padding.depth, extra.depth - padding.depth});
}

}  // namespace

Variable conv_transpose3d(const Variable& x, const Variable& weight, const Variable& bias,
                          ConvTransposeOptions<Size3d> options, Where where) {
  if (is_unbatched(x, 3)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) {
      return conv_transpose3d(batch, weight, bias, options);
    });
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return conv_transpose3d(a...); }, where, x,
                            weight, bias, options);
  const CallLine line(where);
  const Shape to = transposed_shape(x, weight, bias, options);
  const auto& [named, stride, padding, extra, groups, dilation] = options;
  const bool fits =  // else the convolution of the result has more windows than x has voxels
      extra.depth < stride.depth && extra.height < stride.height && extra.width < stride.width;
  const Conv3dOptions forward{{}, stride, padding, dilation, groups};
  const Variable y = fits && has_transposed_kernel(x.value(), weight.value(), forward, to)
                         ? conv_volume_backward_input(x, weight, forward, to, where)
                         : transposed_by_planes(x, weight, options);
  return bias.defined() ? y + reshape(bias, {1, to[1], 1, 1, 1}) : y;
}

namespace {

std::vector<int64_t> numbers(int64_t size) { return {size}; }
std::vector<int64_t> numbers(Size2d size) { return {size.height, size.width}; }
std::vector<int64_t> numbers(Size3d size) { return {size.depth, size.height, size.width}; }

/// Pads x by hand, for a padding of "same" or "valid". An odd number of zeros has one more at the
/// end.
template <typename Size>
Variable padded(std::string_view op, const Variable& x, const Variable& weight,
                const ConvOptions<Size>& options, std::string_view padding) {
  if (padding == "valid") return x;
  if (padding != "same")
    fail<ArgumentError>(op, ": padding \"", padding, "\"; \"same\" or \"valid\" wanted");
  const std::vector<int64_t> stride = numbers(options.stride), dilation = numbers(options.dilation);
  const int dims = int(dilation.size());
  if (weight.rank() != dims + 2)
    fail<ShapeError>(op, ": a weight of ", dims + 2, " dimensions wanted: ", weight.shape());
  std::vector<int64_t> amounts;
  for (int i = dims - 1; i >= 0; --i) {
    if (stride[size_t(i)] != 1) fail<ArgumentError>(op, ": padding \"same\" needs stride 1");
    const int64_t zeros = dilation[size_t(i)] * (weight.size(i + 2) - 1);
    amounts.insert(amounts.end(), {zeros / 2, zeros - zeros / 2});
  }
  return pad(x, amounts, 0.0);
}

/// Pads x by hand if the padding has a name.
template <typename Size>
Variable padded(std::string_view op, const Variable& x, const Variable& weight,
                const ConvOptions<Size>& options, const Padding<Size>& padding, Where where) {
  const CallLine line(where);
  return padding.name ? padded(op, x, weight, options, *padding.name) : x;
}

}  // namespace

Variable conv1d(const Variable& x, const Variable& weight, const Variable& bias, int64_t stride,
                Padding<int64_t> padding, int64_t dilation, int64_t groups, Where where) {
  const ErrorLine line(where);
  const Conv1dOptions options{{}, stride, padding.size, dilation, groups};
  return conv1d(padded("conv1d", x, weight, options, padding, where), weight, bias, options, where);
}
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias, Size2d stride,
                Padding<Size2d> padding, Size2d dilation, int64_t groups, Where where) {
  const ErrorLine line(where);
  const Conv2dOptions options{{}, stride, padding.size, dilation, groups};
  return conv2d(padded("conv2d", x, weight, options, padding, where), weight, bias, options, {},
                where);
}
Variable conv3d(const Variable& x, const Variable& weight, const Variable& bias, Size3d stride,
                Padding<Size3d> padding, Size3d dilation, int64_t groups, Where where) {
  const ErrorLine line(where);
  const Conv3dOptions options{{}, stride, padding.size, dilation, groups};
  return conv3d(padded("conv3d", x, weight, options, padding, where), weight, bias, options, where);
}

namespace {

template <typename Size>
ConvOptions<Size> conv_options(const Arguments& a,
                               Size (*size)(const Arguments&, std::string_view)) {
  return {.stride = size(a, "stride"),
          .padding = size(a, "padding"),
          .dilation = size(a, "dilation"),
          .groups = a.integer("groups")};
}

template <typename Size>
ConvTransposeOptions<Size> transpose_options(const Arguments& a,
                                             Size (*size)(const Arguments&, std::string_view)) {
  return {.stride = size(a, "stride"),
          .padding = size(a, "padding"),
          .output_padding = size(a, "output_padding"),
          .groups = a.integer("groups"),
          .dilation = size(a, "dilation")};
}

}  // namespace

void catalog_conv_nd(Catalog& catalog) {
  constexpr std::string_view kConv =
      "(input, weight, bias?, stride: ints = 1, padding: ints = 0, dilation: ints = 1, "
      "groups: int = 1)";
  constexpr std::string_view kTranspose =
      "(input, weight, bias?, stride: ints = 1, padding: ints = 0, output_padding: ints = 0, "
      "groups: int = 1, dilation: ints = 1)";
  const auto named = [](std::string_view name, std::string_view arguments) {
    return std::string(name) + std::string(arguments);
  };
  catalog.add(named("conv1d", kConv), "conv2d of signals [n, c, length]",
              [](const Arguments& a) { return conv1d(a[0], a[1], a[2], conv_options(a, size1d)); });
  catalog.add(named("conv3d", kConv), "conv2d of volumes [n, c, depth, height, width]",
              [](const Arguments& a) { return conv3d(a[0], a[1], a[2], conv_options(a, size3d)); });
  catalog.add(named("conv_transpose1d", kTranspose), "conv_transpose2d of signals",
              [](const Arguments& a) {
                return conv_transpose1d(a[0], a[1], a[2], transpose_options(a, size1d));
              });
  catalog.add(named("conv_transpose3d", kTranspose), "conv_transpose2d of volumes",
              [](const Arguments& a) {
                return conv_transpose3d(a[0], a[1], a[2], transpose_options(a, size3d));
              });
}

}  // namespace tapegrad
