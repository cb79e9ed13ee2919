// PyTorch's positional forms of ops/conv.h: conv2d(x, weight, bias, 1, 1). A padding of "same"
// keeps the spatial sizes and requires stride 1; "valid" means no padding.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>

#include "ops/conv.h"

namespace tapegrad {

/// The padding "same" or "valid".
struct PaddingName {
  template <std::convertible_to<std::string_view> Name>
  PaddingName(const Name& by_name) : name(by_name) {}
  std::string_view name;
};
/// A padding: numbers, a size, or the name "same" or "valid".
template <typename Size>
struct Padding {
  Padding(Size all) : size(all) {}
  template <std::convertible_to<int64_t>... N>
  requires(sizeof...(N) > 0) Padding(N... numbers) : size(int64_t(numbers)...) {}
  template <std::convertible_to<std::string_view> Name>
  Padding(const Name& by_name) : name(by_name) {}

  Size size = 0;
  std::optional<std::string_view> name = {};
};

// Overloads with options and without a bias: conv2d(x, weight, {.padding = 1}). Templates, so that
// conv2d(x, weight, {}) is not ambiguous.
template <typename = void>
Variable conv1d(const Variable& x, const Variable& weight, Conv1dOptions options,
                Where where = Where::current()) {
  return conv1d(x, weight, Variable(), options, where);
}
template <typename = void>
Variable conv2d(const Variable& x, const Variable& weight, Conv2dOptions options,
                Where where = Where::current()) {
  return conv2d(x, weight, Variable(), options, {}, where);
}
template <typename = void>
Variable conv3d(const Variable& x, const Variable& weight, Conv3dOptions options,
                Where where = Where::current()) {
  return conv3d(x, weight, Variable(), options, where);
}
template <typename = void>
Variable conv_transpose1d(const Variable& x, const Variable& weight,
                          ConvTransposeOptions<int64_t> options, Where where = Where::current()) {
  return conv_transpose1d(x, weight, Variable(), options, where);
}
template <typename = void>
Variable conv_transpose2d(const Variable& x, const Variable& weight,
                          ConvTransposeOptions<Size2d> options, Where where = Where::current()) {
  return conv_transpose2d(x, weight, Variable(), options, where);
}
template <typename = void>
Variable conv_transpose3d(const Variable& x, const Variable& weight,
                          ConvTransposeOptions<Size3d> options, Where where = Where::current()) {
  return conv_transpose3d(x, weight, Variable(), options, where);
}

/// Options of a convolution whose padding has a name: conv2d(x, weight, {.padding = "same"}).
template <typename Size>
struct NamedPaddingOptions {
  ByName by_name = {};
  Size stride = 1;
  PaddingName padding;
  Size dilation = 1;
  int64_t groups = 1;
};
template <typename = void>
Variable conv1d(const Variable& x, const Variable& weight, NamedPaddingOptions<int64_t> options,
                Where where = Where::current());
template <typename = void>
Variable conv2d(const Variable& x, const Variable& weight, NamedPaddingOptions<Size2d> options,
                Where where = Where::current());
template <typename = void>
Variable conv3d(const Variable& x, const Variable& weight, NamedPaddingOptions<Size3d> options,
                Where where = Where::current());

Variable conv1d(const Variable& x, const Variable& weight, const Variable& bias, int64_t stride,
                Padding<int64_t> padding = 0, int64_t dilation = 1, int64_t groups = 1,
                Where where = Where::current());
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias, Size2d stride,
                Padding<Size2d> padding = 0, Size2d dilation = 1, int64_t groups = 1,
                Where where = Where::current());
Variable conv3d(const Variable& x, const Variable& weight, const Variable& bias, Size3d stride,
                Padding<Size3d> padding = 0, Size3d dilation = 1, int64_t groups = 1,
                Where where = Where::current());

template <typename>
Variable conv1d(const Variable& x, const Variable& weight, NamedPaddingOptions<int64_t> options,
                Where where) {
  return conv1d(x, weight, {}, options.stride, options.padding.name, options.dilation,
                options.groups, where);
}
template <typename>
Variable conv2d(const Variable& x, const Variable& weight, NamedPaddingOptions<Size2d> options,
                Where where) {
  return conv2d(x, weight, {}, options.stride, options.padding.name, options.dilation,
                options.groups, where);
}

template <typename>
Variable conv3d(const Variable& x, const Variable& weight, NamedPaddingOptions<Size3d> options,
                Where where) {
  return conv3d(x, weight, {}, options.stride, options.padding.name, options.dilation,
                options.groups, where);
}

Variable conv_transpose1d(const Variable& x, const Variable& weight, const Variable& bias,
                          int64_t stride, int64_t padding = 0, int64_t output_padding = 0,
                          int64_t groups = 1, int64_t dilation = 1, Where where = Where::current());
Variable conv_transpose2d(const Variable& x, const Variable& weight, const Variable& bias,
                          Size2d stride, Size2d padding = 0, Size2d output_padding = 0,
                          int64_t groups = 1, Size2d dilation = 1, Where where = Where::current());
Variable conv_transpose3d(const Variable& x, const Variable& weight, const Variable& bias,
                          Size3d stride, Size3d padding = 0, Size3d output_padding = 0,
                          int64_t groups = 1, Size3d dilation = 1, Where where = Where::current());

Variable unfold(const Variable& x, Size2d kernel_size, Size2d dilation = 1, Size2d padding = 0,
                Size2d stride = 1, Where where = Where::current());
/// Overload with the kernel size by position: unfold(x, 3, {.stride = 2}).
Variable unfold(const Variable& x, Size2d kernel_size, UnfoldOptions options,
                Where where = Where::current());
Variable fold(const Variable& columns, Size2d output_size, Size2d kernel_size,
              UnfoldOptions options, Where where = Where::current());
Variable fold(const Variable& columns, Size2d output_size, Size2d kernel_size, Size2d dilation = 1,
              Size2d padding = 0, Size2d stride = 1, Where where = Where::current());

namespace nn::functional {
using namespace ::tapegrad;
/// Extracts image patches as columns, with the arguments of nn::Unfold.
Variable unfold(const Variable& x, Size2d kernel_size, Size2d dilation = 1, Size2d padding = 0,
                Size2d stride = 1, Where where = Where::current());
Variable unfold(const Variable& x, Size2d kernel_size, UnfoldOptions options,
                Where where = Where::current());
Variable unfold(const Variable& x, UnfoldOptions options, Where where = Where::current());
}  // namespace nn::functional

}  // namespace tapegrad
