#include "nn/conv.h"

#include <algorithm>

#include "core/base/internal/classic_text.h"
#include "core/tape/internal/call_line.h"
#include "ops/image.h"
#include "ops/view.h"

namespace tapegrad::nn {
namespace {

/// Formats sizes: one number if all are equal, else all of them, "3" or "(3, 5)".
std::string shown(const std::vector<int64_t>& sizes) {
  ClassicText text;
  if (std::all_of(sizes.begin(), sizes.end(), [&](int64_t n) { return n == sizes[0]; })) {
    text << sizes[0];
  } else {
    for (size_t i = 0; i < sizes.size(); ++i) text << (i == 0 ? "(" : ", ") << sizes[i];
    text << ')';
  }
  return text.str();
}

/// Returns the padding on each side; empty if the padding has a name.
template <typename Size>
std::vector<int64_t> amounts_of(const Size& padding) {
  if constexpr (requires { padding.name; })
    return padding.name ? std::vector<int64_t>() : numbers(padding.size);
  else
    return numbers(padding);
}

template <typename Options>
void check(std::string_view layer, const Options& o) {
  const ErrorLine line(o.by_name.where);
  require_option(layer, ".out_channels", o.out_channels);
  require_windows(layer, {numbers(o.kernel_size), numbers(o.stride), amounts_of(o.padding),
                          numbers(o.dilation)});
  require_option(layer, ".groups", o.groups);
  if (o.out_channels % o.groups != 0)
    fail<ArgumentError>(layer, ": ", o.groups, " groups do not divide ", o.out_channels,
                        " output channels");
  if (o.in_channels != 0) require_option(layer, ".in_channels", o.in_channels);
}

void check_groups(std::string_view layer, int64_t in_channels, int64_t groups) {
  if (in_channels % groups != 0)
    fail<ArgumentError>(layer, ": ", groups, " groups do not divide ", in_channels,
                        " input channels");
}

/// Returns the channels of an input [n, c, size...] whose rank must fit the kernel's number of
/// dimensions.
template <typename Size>
int64_t channels_of(std::string_view layer, const Variable& x, Size kernel_size) {
  if (x.rank() != 2 + int(numbers(kernel_size).size()))
    fail<ShapeError>(layer, ": an input has a batch, channels and ", numbers(kernel_size).size(),
                     " sizes, not ", x.shape());
  return x.size(1);
}

template <typename Size>
Shape with_kernel(Shape shape, Size kernel_size) {
  for (const int64_t size : numbers(kernel_size)) shape.push_back(size);
  return shape;
}

/// Resolves the padding "same" or "valid" to numbers. The name "same" is kept.
template <typename Size>
ConvOptions<Size> resolved(std::string_view layer, ConvOptions<Size> o) {
  if (!o.padding.name) return o;
  const ErrorLine line(o.by_name.where);
  const bool same = *o.padding.name == "same";
  if (!same && *o.padding.name != "valid")
    fail<ArgumentError>(layer, ": padding \"", *o.padding.name, "\"; \"same\" or \"valid\" wanted");
  if (same && o.stride != Size(1)) fail<ArgumentError>(layer, ": padding \"same\" needs stride 1");
  const auto half = [&](int64_t kernel, int64_t dilation) {
    return same ? dilation * (kernel - 1) / 2 : 0;
  };
  const auto [k, d] = std::pair(numbers(o.kernel_size), numbers(o.dilation));
  if constexpr (std::same_as<Size, int64_t>)
    o.padding = half(k[0], d[0]);
  else if constexpr (std::same_as<Size, Size2d>)
    o.padding = Size2d(half(k[0], d[0]), half(k[1], d[1]));
  else
    o.padding = Size3d(half(k[0], d[0]), half(k[1], d[1]), half(k[2], d[2]));
  if (same) o.padding.name = "same";
  return o;
}

template <typename Size>
void show_padding(ClassicText& text, Size padding) {
  if (padding != Size(0)) text << ", padding=" << shown(numbers(padding));
}
template <typename Size>
void show_padding(ClassicText& text, const tapegrad::Padding<Size>& padding) {
  if (padding.name)
    text << ", padding=" << *padding.name;
  else
    show_padding(text, padding.size);
}

std::string_view name_of(PaddingMode mode) {
  for (const auto& [name, value] : choice_names(mode))
    if (value == mode) return name;
  return "";
}

/// Formats the options that Conv and ConvTranspose share; in_channels only when it is known.
template <typename Options, typename Size>
std::string conv_options(const Options& o, int64_t in_channels, bool has_bias,
                         const Size* output_padding) {
  ClassicText text;
  if (in_channels > 0) text << "in_channels=" << in_channels << ", ";
  text << "out_channels=" << o.out_channels << ", kernel_size=" << shown(numbers(o.kernel_size));
  if (o.stride != Size(1)) text << ", stride=" << shown(numbers(o.stride));
  show_padding(text, o.padding);
  if (output_padding != nullptr && *output_padding != Size(0))
    text << ", output_padding=" << shown(numbers(*output_padding));
  if (o.dilation != Size(1)) text << ", dilation=" << shown(numbers(o.dilation));
  if (o.groups != 1) text << ", groups=" << o.groups;
  if (!has_bias) text << ", bias=false";
  if constexpr (requires { o.padding_mode; })
    if (o.padding_mode != PaddingMode::kZeros) text << ", padding_mode=" << name_of(o.padding_mode);
  return text.str();
}

// Calls the op for the number of dimensions of Size.
constexpr auto kConv = [](auto size, const Variable& x, const Variable& weight,
                          const Variable& bias, auto options, Where where) {
  if constexpr (std::same_as<decltype(size), int64_t>)
    return conv1d(x, weight, bias, options, where);
  else if constexpr (std::same_as<decltype(size), Size2d>)
    return conv2d(x, weight, bias, options, {}, where);
  else
    return conv3d(x, weight, bias, options, where);
};
constexpr auto kConvTranspose = [](auto size, auto&&... arguments) {
  if constexpr (std::same_as<decltype(size), int64_t>)
    return conv_transpose1d(arguments...);
  else if constexpr (std::same_as<decltype(size), Size2d>)
    return conv_transpose2d(arguments...);
  else
    return conv_transpose3d(arguments...);
};

}  // namespace

template <typename Self, typename Size>
Conv<Self, Size>::Conv(ConvOptions<Size> options)
    : Conv::Model(options.bias), options_(resolved(Self::kName, options)) {
  check(Self::kName, options);
  if (options.dtype) Module::to(*options.dtype);
  if (options.in_channels != 0) this->allocate(weight_shape(options.in_channels));
}

template <typename Self, typename Size>
Shape Conv<Self, Size>::weight_shape(int64_t in_channels) const {
  const ErrorLine line(options_.by_name.where);
  check_groups(Self::kName, in_channels, options_.groups);
  return with_kernel({options_.out_channels, in_channels / options_.groups}, options_.kernel_size);
}

template <typename Self, typename Size>
Variable Conv<Self, Size>::forward(const Variable& x, Where where) const {
  infer_weight(x);
  Variable computed;
  return kConv(options_.kernel_size, padded(x), this->used_weight(computed), this->bias,
               op_options(), where);
}

template <typename Self, typename Size>
void Conv<Self, Size>::infer_weight(const Variable& x) const {
  this->infer_once(
      [&] { this->allocate(weight_shape(channels_of(Self::kName, x, options_.kernel_size))); });
}

template <typename Self, typename Size>
tapegrad::ConvOptions<Size> Conv<Self, Size>::op_options() const {
  return {.stride = options_.stride,
          .padding = options_.padding_mode == PaddingMode::kZeros ? options_.padding.size : Size(0),
          .dilation = options_.dilation,
          .groups = options_.groups};
}

template <typename Self, typename Size>
Variable Conv<Self, Size>::padded(const Variable& x) const {
  const bool has_values = options_.padding_mode != PaddingMode::kZeros;
  if (!options_.padding.name && !has_values) [[likely]]
    return x;
  const auto [k, d] = std::pair(numbers(options_.kernel_size), numbers(options_.dilation));
  const std::vector<int64_t> sides = numbers(options_.padding.size);
  std::vector<int64_t> amounts;
  for (size_t i = k.size(); i-- > 0;) {
    const int64_t side = has_values ? sides[i] : 0;
    const int64_t uneven = options_.padding.name ? d[i] * (k[i] - 1) % 2 : 0;
    amounts.insert(amounts.end(), {side, side + uneven});
  }
  if (std::ranges::count(amounts, 0) == std::ssize(amounts)) return x;
  if (!has_values) return pad(x, amounts, 0.0);
  return pad(x, amounts, Choice<PadMode>(name_of(options_.padding_mode)));
}

template <typename Self, typename Size>
int64_t Conv<Self, Size>::in_channels() const {
  return this->is_inferred() ? this->weight.size(1) * options_.groups : 0;
}

template <typename Self, typename Size>
std::string Conv<Self, Size>::options() const {
  return conv_options<ConvOptions<Size>, Size>(options_, in_channels(), this->bias.defined(),
                                               nullptr);
}

template class Conv<Conv1d, int64_t>;
template class Conv<Conv2d, Size2d>;
template class Conv<Conv3d, Size3d>;

template <typename Self, typename Size>
ConvTranspose<Self, Size>::ConvTranspose(ConvTransposeOptions<Size> options)
    : ConvTranspose::Model(options.bias), options_(options) {
  check(Self::kName, options);
  for (const int64_t amount : numbers(options.output_padding))
    require_from(Self::kName, ".output_padding", amount, 0, options.by_name.where);
  if (options.dtype) Module::to(*options.dtype);
  if (options.in_channels != 0) allocate(options.in_channels);
}

template <typename Self, typename Size>
void ConvTranspose<Self, Size>::allocate(int64_t in_channels) const {
  const ErrorLine line(options_.by_name.where);
  check_groups(Self::kName, in_channels, options_.groups);
  Weighted::allocate(
      with_kernel({in_channels, options_.out_channels / options_.groups}, options_.kernel_size),
      options_.out_channels);
}

template <typename Self, typename Size>
Variable ConvTranspose<Self, Size>::forward(const Variable& x, Where where) const {
  this->infer_once([&] { allocate(channels_of(Self::kName, x, options_.kernel_size)); });
  Variable computed;
  return kConvTranspose(
      options_.kernel_size, x, this->used_weight(computed), this->bias,
      tapegrad::ConvTransposeOptions<Size>{.stride = options_.stride,
                                           .padding = options_.padding,
                                           .output_padding = options_.output_padding,
                                           .groups = options_.groups,
                                           .dilation = options_.dilation},
      where);
}

template <typename Self, typename Size>
std::string ConvTranspose<Self, Size>::options() const {
  return conv_options(options_, this->is_inferred() ? this->weight.size(0) : 0,
                      this->bias.defined(), &options_.output_padding);
}

template class ConvTranspose<ConvTranspose1d, int64_t>;
template class ConvTranspose<ConvTranspose2d, Size2d>;
template class ConvTranspose<ConvTranspose3d, Size3d>;

std::string pool_options(const WindowOptions& windows) {
  const auto& [kernel_size, stride, padding, dilation] = windows;
  std::string text = "kernel_size=" + shown(kernel_size);
  if (stride != kernel_size) text += ", stride=" + shown(stride);
  if (padding != std::vector<int64_t>(padding.size())) text += ", padding=" + shown(padding);
  if (dilation != std::vector<int64_t>(dilation.size(), 1)) text += ", dilation=" + shown(dilation);
  return text;
}
std::string output_size_option(const std::vector<int64_t>& output_size) {
  return "output_size=" + shown(output_size);
}

Conv1d::Conv1d(ConvOptions<int64_t> options) : Conv(options) {}
Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, int64_t stride,
               tapegrad::Padding<int64_t> padding, int64_t dilation, int64_t groups, bool bias,
               Where where)
    : Conv({{where},
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias}) {}
Conv2d::Conv2d(ConvOptions<Size2d> options) : Conv(options) {}
Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride,
               tapegrad::Padding<Size2d> padding, Size2d dilation, int64_t groups, bool bias,
               Where where)
    : Conv2d(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
             PaddingMode::kZeros, where) {}
Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride,
               tapegrad::Padding<Size2d> padding, Size2d dilation, int64_t groups, bool bias,
               Choice<PaddingMode> padding_mode, Where where)
    : Conv({{where},
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode}) {}
Variable Conv2d::forward(const Variable& x, Epilogue epilogue, Where where) const {
  infer_weight(x);
  Variable computed;
  return conv2d(padded(x), used_weight(computed), bias, op_options(), epilogue, where);
}
Conv3d::Conv3d(ConvOptions<Size3d> options) : Conv(options) {}
Conv3d::Conv3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size, Size3d stride,
               tapegrad::Padding<Size3d> padding, Size3d dilation, int64_t groups, bool bias,
               Where where)
    : Conv({{where},
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias}) {}
ConvTranspose1d::ConvTranspose1d(ConvTransposeOptions<int64_t> options) : ConvTranspose(options) {}
ConvTranspose1d::ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                                 int64_t stride, int64_t padding, int64_t output_padding,
                                 int64_t groups, bool bias, int64_t dilation, Where where)
    : ConvTranspose({{where},
                     in_channels,
                     out_channels,
                     kernel_size,
                     stride,
                     padding,
                     output_padding,
                     groups,
                     bias,
                     dilation}) {}
ConvTranspose2d::ConvTranspose2d(ConvTransposeOptions<Size2d> options) : ConvTranspose(options) {}
ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size,
                                 Size2d stride, Size2d padding, Size2d output_padding,
                                 int64_t groups, bool bias, Size2d dilation, Where where)
    : ConvTranspose({{where},
                     in_channels,
                     out_channels,
                     kernel_size,
                     stride,
                     padding,
                     output_padding,
                     groups,
                     bias,
                     dilation}) {}
ConvTranspose3d::ConvTranspose3d(ConvTransposeOptions<Size3d> options) : ConvTranspose(options) {}
ConvTranspose3d::ConvTranspose3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size,
                                 Size3d stride, Size3d padding, Size3d output_padding,
                                 int64_t groups, bool bias, Size3d dilation, Where where)
    : ConvTranspose({{where},
                     in_channels,
                     out_channels,
                     kernel_size,
                     stride,
                     padding,
                     output_padding,
                     groups,
                     bias,
                     dilation}) {}

Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, ConvOptions<int64_t> options)
    : Conv1d(in_channels, out_channels, options.kernel_size, options) {}
Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
               ConvOptions<int64_t> options)
    : Conv1d(detail::with_sizes(options, in_channels, out_channels, kernel_size)) {}
Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, int64_t stride,
               ConvOptions<int64_t> options)
    : Conv1d(detail::with_sizes(options, in_channels, out_channels, kernel_size, stride)) {}
Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, int64_t stride,
               tapegrad::Padding<int64_t> padding, ConvOptions<int64_t> options)
    : Conv1d(detail::with_sizes(options, in_channels, out_channels, kernel_size, stride, padding)) {
}
Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, ConvOptions<Size2d> options)
    : Conv2d(in_channels, out_channels, options.kernel_size, options) {}
Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size,
               ConvOptions<Size2d> options)
    : Conv2d(detail::with_sizes(options, in_channels, out_channels, kernel_size)) {}
Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride,
               ConvOptions<Size2d> options)
    : Conv2d(detail::with_sizes(options, in_channels, out_channels, kernel_size, stride)) {}
Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride,
               tapegrad::Padding<Size2d> padding, ConvOptions<Size2d> options)
    : Conv2d(detail::with_sizes(options, in_channels, out_channels, kernel_size, stride, padding)) {
}
Conv3d::Conv3d(int64_t in_channels, int64_t out_channels, ConvOptions<Size3d> options)
    : Conv3d(in_channels, out_channels, options.kernel_size, options) {}
Conv3d::Conv3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size,
               ConvOptions<Size3d> options)
    : Conv3d(detail::with_sizes(options, in_channels, out_channels, kernel_size)) {}
Conv3d::Conv3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size, Size3d stride,
               ConvOptions<Size3d> options)
    : Conv3d(detail::with_sizes(options, in_channels, out_channels, kernel_size, stride)) {}
Conv3d::Conv3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size, Size3d stride,
               tapegrad::Padding<Size3d> padding, ConvOptions<Size3d> options)
    : Conv3d(detail::with_sizes(options, in_channels, out_channels, kernel_size, stride, padding)) {
}
ConvTranspose1d::ConvTranspose1d(int64_t in_channels, int64_t out_channels,
                                 ConvTransposeOptions<int64_t> options)
    : ConvTranspose1d(in_channels, out_channels, options.kernel_size, options) {}
ConvTranspose1d::ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                                 ConvTransposeOptions<int64_t> options)
    : ConvTranspose1d(detail::with_sizes(options, in_channels, out_channels, kernel_size)) {}
ConvTranspose1d::ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                                 int64_t stride, ConvTransposeOptions<int64_t> options)
    : ConvTranspose1d(detail::with_sizes(options, in_channels, out_channels, kernel_size, stride)) {
}
ConvTranspose1d::ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                                 int64_t stride, int64_t padding,
                                 ConvTransposeOptions<int64_t> options)
    : ConvTranspose1d(
          detail::with_sizes(options, in_channels, out_channels, kernel_size, stride, padding)) {}
ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels,
                                 ConvTransposeOptions<Size2d> options)
    : ConvTranspose2d(in_channels, out_channels, options.kernel_size, options) {}
ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size,
                                 ConvTransposeOptions<Size2d> options)
    : ConvTranspose2d(detail::with_sizes(options, in_channels, out_channels, kernel_size)) {}
ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size,
                                 Size2d stride, ConvTransposeOptions<Size2d> options)
    : ConvTranspose2d(detail::with_sizes(options, in_channels, out_channels, kernel_size, stride)) {
}
ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size,
                                 Size2d stride, Size2d padding,
                                 ConvTransposeOptions<Size2d> options)
    : ConvTranspose2d(
          detail::with_sizes(options, in_channels, out_channels, kernel_size, stride, padding)) {}
ConvTranspose3d::ConvTranspose3d(int64_t in_channels, int64_t out_channels,
                                 ConvTransposeOptions<Size3d> options)
    : ConvTranspose3d(in_channels, out_channels, options.kernel_size, options) {}
ConvTranspose3d::ConvTranspose3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size,
                                 ConvTransposeOptions<Size3d> options)
    : ConvTranspose3d(detail::with_sizes(options, in_channels, out_channels, kernel_size)) {}
ConvTranspose3d::ConvTranspose3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size,
                                 Size3d stride, ConvTransposeOptions<Size3d> options)
    : ConvTranspose3d(detail::with_sizes(options, in_channels, out_channels, kernel_size, stride)) {
}
ConvTranspose3d::ConvTranspose3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size,
                                 Size3d stride, Size3d padding,
                                 ConvTransposeOptions<Size3d> options)
    : ConvTranspose3d(
          detail::with_sizes(options, in_channels, out_channels, kernel_size, stride, padding)) {}
std::vector<int64_t> numbers(int64_t size) { return {size}; }
std::vector<int64_t> numbers(Size2d size) { return {size.height, size.width}; }
std::vector<int64_t> numbers(Size3d size) { return {size.depth, size.height, size.width}; }
ValuesIndices MaxPool1d::forward_with_indices(const Variable& x, Where where) const {
  return max_pool1d_with_indices(x, options_, where);
}
ValuesIndices MaxPool2d::forward_with_indices(const Variable& x, Where where) const {
  return max_pool2d_with_indices(x, options_, where);
}
bool MaxPool2d::has_windows_of_padding() const {
  const auto& [padding, dilation] = std::tie(options_.padding, options_.dilation);
  return (padding.height > 0 && dilation.height > 1) || (padding.width > 0 && dilation.width > 1);
}
ValuesIndices MaxPool3d::forward_with_indices(const Variable& x, Where where) const {
  return max_pool3d_with_indices(x, options_, where);
}
ValuesIndices AdaptiveMaxPool1d::forward_with_indices(const Variable& x, Where where) const {
  return adaptive_max_pool1d_with_indices(x, output_size_, where);
}
ValuesIndices AdaptiveMaxPool2d::forward_with_indices(const Variable& x, Where where) const {
  return adaptive_max_pool2d_with_indices(x, output_size_, where);
}
ValuesIndices AdaptiveMaxPool3d::forward_with_indices(const Variable& x, Where where) const {
  return adaptive_max_pool3d_with_indices(x, output_size_, where);
}
template class Model<Conv2d, Weighted, false>;

}  // namespace tapegrad::nn
