#include "ops/pool_positional.h"

namespace tapegrad {
Variable max_pool1d(const Variable& x, int64_t kernel_size, OptionalSize<int64_t> stride,
                    int64_t padding, int64_t dilation, bool ceil_mode, Where where) {
  return max_pool1d(x, {{}, kernel_size, stride, padding, dilation, ceil_mode}, where);
}
ValuesIndices max_pool1d_with_indices(const Variable& x, int64_t kernel_size,
                                      OptionalSize<int64_t> stride, int64_t padding,
                                      int64_t dilation, bool ceil_mode, Where where) {
  return max_pool1d_with_indices(x, {{}, kernel_size, stride, padding, dilation, ceil_mode}, where);
}
Variable avg_pool1d(const Variable& x, int64_t kernel_size, OptionalSize<int64_t> stride,
                    int64_t padding, bool ceil_mode, bool count_include_pad, Where where) {
  return avg_pool1d(x, {{}, kernel_size, stride, padding, ceil_mode, count_include_pad}, where);
}
Variable lp_pool1d(const Variable& x, double norm_type, int64_t kernel_size,
                   OptionalSize<int64_t> stride, bool ceil_mode, Where where) {
  return lp_pool1d(x, {{}, norm_type, kernel_size, stride, ceil_mode}, where);
}
Variable max_unpool1d(const Variable& x, const Variable& indices, int64_t kernel_size,
                      OptionalSize<int64_t> stride, int64_t padding,
                      OptionalSize<int64_t> output_size, Where where) {
  return max_unpool1d(x, indices, {{}, kernel_size, stride, padding, output_size}, where);
}
Variable max_pool2d(const Variable& x, Size2d kernel_size, OptionalSize<Size2d> stride,
                    Size2d padding, Size2d dilation, bool ceil_mode, Where where) {
  return max_pool2d(x, {{}, kernel_size, stride, padding, dilation, ceil_mode}, where);
}
ValuesIndices max_pool2d_with_indices(const Variable& x, Size2d kernel_size,
                                      OptionalSize<Size2d> stride, Size2d padding, Size2d dilation,
                                      bool ceil_mode, Where where) {
  return max_pool2d_with_indices(x, {{}, kernel_size, stride, padding, dilation, ceil_mode}, where);
}
Variable avg_pool2d(const Variable& x, Size2d kernel_size, OptionalSize<Size2d> stride,
                    Size2d padding, bool ceil_mode, bool count_include_pad, Where where) {
  return avg_pool2d(x, {{}, kernel_size, stride, padding, ceil_mode, count_include_pad}, where);
}
Variable lp_pool2d(const Variable& x, double norm_type, Size2d kernel_size,
                   OptionalSize<Size2d> stride, bool ceil_mode, Where where) {
  return lp_pool2d(x, {{}, norm_type, kernel_size, stride, ceil_mode}, where);
}
Variable max_unpool2d(const Variable& x, const Variable& indices, Size2d kernel_size,
                      OptionalSize<Size2d> stride, Size2d padding, OptionalSize<Size2d> output_size,
                      Where where) {
  return max_unpool2d(x, indices, {{}, kernel_size, stride, padding, output_size}, where);
}
Variable max_pool3d(const Variable& x, Size3d kernel_size, OptionalSize<Size3d> stride,
                    Size3d padding, Size3d dilation, bool ceil_mode, Where where) {
  return max_pool3d(x, {{}, kernel_size, stride, padding, dilation, ceil_mode}, where);
}
ValuesIndices max_pool3d_with_indices(const Variable& x, Size3d kernel_size,
                                      OptionalSize<Size3d> stride, Size3d padding, Size3d dilation,
                                      bool ceil_mode, Where where) {
  return max_pool3d_with_indices(x, {{}, kernel_size, stride, padding, dilation, ceil_mode}, where);
}
Variable avg_pool3d(const Variable& x, Size3d kernel_size, OptionalSize<Size3d> stride,
                    Size3d padding, bool ceil_mode, bool count_include_pad, Where where) {
  return avg_pool3d(x, {{}, kernel_size, stride, padding, ceil_mode, count_include_pad}, where);
}
Variable lp_pool3d(const Variable& x, double norm_type, Size3d kernel_size,
                   OptionalSize<Size3d> stride, bool ceil_mode, Where where) {
  return lp_pool3d(x, {{}, norm_type, kernel_size, stride, ceil_mode}, where);
}
Variable max_unpool3d(const Variable& x, const Variable& indices, Size3d kernel_size,
                      OptionalSize<Size3d> stride, Size3d padding, OptionalSize<Size3d> output_size,
                      Where where) {
  return max_unpool3d(x, indices, {{}, kernel_size, stride, padding, output_size}, where);
}
Variable max_pool1d(const Variable& x, int64_t kernel_size, MaxPool1dOptions options, Where where) {
  options.kernel_size = kernel_size;
  return max_pool1d(x, options, where);
}
ValuesIndices max_pool1d_with_indices(const Variable& x, int64_t kernel_size,
                                      MaxPool1dOptions options, Where where) {
  options.kernel_size = kernel_size;
  return max_pool1d_with_indices(x, options, where);
}
Variable avg_pool1d(const Variable& x, int64_t kernel_size, AvgPool1dOptions options, Where where) {
  options.kernel_size = kernel_size;
  return avg_pool1d(x, options, where);
}
Variable max_pool2d(const Variable& x, Size2d kernel_size, MaxPool2dOptions options, Where where) {
  options.kernel_size = kernel_size;
  return max_pool2d(x, options, where);
}
ValuesIndices max_pool2d_with_indices(const Variable& x, Size2d kernel_size,
                                      MaxPool2dOptions options, Where where) {
  options.kernel_size = kernel_size;
  return max_pool2d_with_indices(x, options, where);
}
Variable avg_pool2d(const Variable& x, Size2d kernel_size, AvgPool2dOptions options, Where where) {
  options.kernel_size = kernel_size;
  return avg_pool2d(x, options, where);
}
Variable max_pool3d(const Variable& x, Size3d kernel_size, MaxPool3dOptions options, Where where) {
  options.kernel_size = kernel_size;
  return max_pool3d(x, options, where);
}
ValuesIndices max_pool3d_with_indices(const Variable& x, Size3d kernel_size,
                                      MaxPool3dOptions options, Where where) {
  options.kernel_size = kernel_size;
  return max_pool3d_with_indices(x, options, where);
}
Variable avg_pool3d(const Variable& x, Size3d kernel_size, AvgPool3dOptions options, Where where) {
  options.kernel_size = kernel_size;
  return avg_pool3d(x, options, where);
}
}  // namespace tapegrad
