// PyTorch's positional forms of ops/conv.h: conv2d(x, weight, bias, 1, 1). A padding of "same"
// keeps the spatial sizes and requires stride 1; "valid" is no padding.
#pragma once

#include <concepts>
#include <string_view>

#include "ops/conv.h"

namespace tapegrad {

inline Variable conv1d(const Variable& x, const Variable& weight, const Variable& bias,
                       int64_t stride, int64_t padding = 0, int64_t dilation = 1,
                       int64_t groups = 1, Where where = Where::current()) {
  return conv1d(x, weight, bias,
                {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups},
                where);
}
Variable conv1d_padded(const Variable& x, const Variable& weight, const Variable& bias,
                       int64_t stride, std::string_view padding, int64_t dilation, int64_t groups,
                       Where where);
template <std::convertible_to<std::string_view> Padding>
Variable conv1d(const Variable& x, const Variable& weight, const Variable& bias, int64_t stride,
                const Padding& padding, int64_t dilation = 1, int64_t groups = 1,
                Where where = Where::current()) {
  return conv1d_padded(x, weight, bias, stride, padding, dilation, groups, where);
}
inline Variable conv_transpose1d(const Variable& x, const Variable& weight, const Variable& bias,
                                 int64_t stride, int64_t padding = 0, int64_t output_padding = 0,
                                 int64_t groups = 1, int64_t dilation = 1,
                                 Where where = Where::current()) {
  return conv_transpose1d(x, weight, bias,
                          {.stride = stride,
                           .padding = padding,
                           .output_padding = output_padding,
                           .groups = groups,
                           .dilation = dilation},
                          where);
}
inline Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                       Size2d stride, Size2d padding = 0, Size2d dilation = 1, int64_t groups = 1,
                       Where where = Where::current()) {
  return conv2d(x, weight, bias,
                {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups}, {},
                where);
}
Variable conv2d_padded(const Variable& x, const Variable& weight, const Variable& bias,
                       Size2d stride, std::string_view padding, Size2d dilation, int64_t groups,
                       Where where);
template <std::convertible_to<std::string_view> Padding>
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias, Size2d stride,
                const Padding& padding, Size2d dilation = 1, int64_t groups = 1,
                Where where = Where::current()) {
  return conv2d_padded(x, weight, bias, stride, padding, dilation, groups, where);
}
inline Variable conv_transpose2d(const Variable& x, const Variable& weight, const Variable& bias,
                                 Size2d stride, Size2d padding = 0, Size2d output_padding = 0,
                                 int64_t groups = 1, Size2d dilation = 1,
                                 Where where = Where::current()) {
  return conv_transpose2d(x, weight, bias,
                          {.stride = stride,
                           .padding = padding,
                           .output_padding = output_padding,
                           .groups = groups,
                           .dilation = dilation},
                          where);
}
inline Variable conv3d(const Variable& x, const Variable& weight, const Variable& bias,
                       Size3d stride, Size3d padding = 0, Size3d dilation = 1, int64_t groups = 1,
                       Where where = Where::current()) {
  return conv3d(x, weight, bias,
                {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups},
                where);
}
Variable conv3d_padded(const Variable& x, const Variable& weight, const Variable& bias,
                       Size3d stride, std::string_view padding, Size3d dilation, int64_t groups,
                       Where where);
template <std::convertible_to<std::string_view> Padding>
Variable conv3d(const Variable& x, const Variable& weight, const Variable& bias, Size3d stride,
                const Padding& padding, Size3d dilation = 1, int64_t groups = 1,
                Where where = Where::current()) {
  return conv3d_padded(x, weight, bias, stride, padding, dilation, groups, where);
}
inline Variable conv_transpose3d(const Variable& x, const Variable& weight, const Variable& bias,
                                 Size3d stride, Size3d padding = 0, Size3d output_padding = 0,
                                 int64_t groups = 1, Size3d dilation = 1,
                                 Where where = Where::current()) {
  return conv_transpose3d(x, weight, bias,
                          {.stride = stride,
                           .padding = padding,
                           .output_padding = output_padding,
                           .groups = groups,
                           .dilation = dilation},
                          where);
}
inline Variable unfold(const Variable& x, Size2d kernel_size, Size2d dilation = 1,
                       Size2d padding = 0, Size2d stride = 1, Where where = Where::current()) {
  return unfold(
      x, {.kernel_size = kernel_size, .stride = stride, .padding = padding, .dilation = dilation},
      where);
}
inline Variable fold(const Variable& columns, Size2d output_size, Size2d kernel_size,
                     Size2d dilation = 1, Size2d padding = 0, Size2d stride = 1,
                     Where where = Where::current()) {
  return fold(
      columns, output_size,
      {.kernel_size = kernel_size, .stride = stride, .padding = padding, .dilation = dilation},
      where);
}

}  // namespace tapegrad
