#include "ops/conv_positional.h"

namespace tapegrad {
Variable conv_transpose1d(const Variable& x, const Variable& weight, const Variable& bias,
                          int64_t stride, int64_t padding, int64_t output_padding, int64_t groups,
                          int64_t dilation, Where where) {
  return conv_transpose1d(x, weight, bias, {{}, stride, padding, output_padding, groups, dilation},
                          where);
}
Variable conv_transpose2d(const Variable& x, const Variable& weight, const Variable& bias,
                          Size2d stride, Size2d padding, Size2d output_padding, int64_t groups,
                          Size2d dilation, Where where) {
  return conv_transpose2d(x, weight, bias, {{}, stride, padding, output_padding, groups, dilation},
                          where);
}
Variable conv_transpose3d(const Variable& x, const Variable& weight, const Variable& bias,
                          Size3d stride, Size3d padding, Size3d output_padding, int64_t groups,
                          Size3d dilation, Where where) {
  return conv_transpose3d(x, weight, bias, {{}, stride, padding, output_padding, groups, dilation},
                          where);
}
Variable unfold(const Variable& x, Size2d kernel_size, Size2d dilation, Size2d padding,
                Size2d stride, Where where) {
  return unfold(x, {{}, kernel_size, dilation, padding, stride}, where);
}
Variable unfold(const Variable& x, Size2d kernel_size, UnfoldOptions options, Where where) {
  options.kernel_size = kernel_size;
  return unfold(x, options, where);
}
Variable fold(const Variable& columns, Size2d output_size, Size2d kernel_size,
              UnfoldOptions options, Where where) {
  options.kernel_size = kernel_size;
  return fold(columns, output_size, options, where);
}
Variable fold(const Variable& columns, Size2d output_size, Size2d kernel_size, Size2d dilation,
              Size2d padding, Size2d stride, Where where) {
  return fold(columns, output_size, {{}, kernel_size, dilation, padding, stride}, where);
}
}  // namespace tapegrad

namespace tapegrad::nn::functional {
Variable unfold(const Variable& x, Size2d kernel_size, Size2d dilation, Size2d padding,
                Size2d stride, Where where) {
  return tapegrad::unfold(x, UnfoldOptions{{}, kernel_size, dilation, padding, stride}, where);
}
Variable unfold(const Variable& x, Size2d kernel_size, UnfoldOptions options, Where where) {
  return tapegrad::unfold(x, kernel_size, options, where);
}
Variable unfold(const Variable& x, UnfoldOptions options, Where where) {
  return tapegrad::unfold(x, options, where);
}
}  // namespace tapegrad::nn::functional
