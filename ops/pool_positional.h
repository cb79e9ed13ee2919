// PyTorch's positional forms of ops/pool.h: max_pool2d(x, 2), avg_pool2d(x, {3, 3}, 2, 1). The
// stride defaults to the kernel size. Further options may be given by name: max_pool2d(x, 3,
// {.stride = 2, .padding = 1}).
#pragma once

#include "ops/pool.h"

namespace tapegrad {

Variable max_pool1d(const Variable& x, int64_t kernel_size, OptionalSize<int64_t> stride = {},
                    int64_t padding = 0, int64_t dilation = 1, bool ceil_mode = false,
                    Where where = Where::current());
ValuesIndices max_pool1d_with_indices(const Variable& x, int64_t kernel_size,
                                      OptionalSize<int64_t> stride = {}, int64_t padding = 0,
                                      int64_t dilation = 1, bool ceil_mode = false,
                                      Where where = Where::current());
Variable avg_pool1d(const Variable& x, int64_t kernel_size, OptionalSize<int64_t> stride = {},
                    int64_t padding = 0, bool ceil_mode = false, bool count_include_pad = true,
                    Where where = Where::current());
Variable lp_pool1d(const Variable& x, double norm_type, int64_t kernel_size,
                   OptionalSize<int64_t> stride = {}, bool ceil_mode = false,
                   Where where = Where::current());
Variable max_unpool1d(const Variable& x, const Variable& indices, int64_t kernel_size,
                      OptionalSize<int64_t> stride = {}, int64_t padding = 0,
                      OptionalSize<int64_t> output_size = {}, Where where = Where::current());

Variable max_pool2d(const Variable& x, Size2d kernel_size, OptionalSize<Size2d> stride = {},
                    Size2d padding = 0, Size2d dilation = 1, bool ceil_mode = false,
                    Where where = Where::current());
ValuesIndices max_pool2d_with_indices(const Variable& x, Size2d kernel_size,
                                      OptionalSize<Size2d> stride = {}, Size2d padding = 0,
                                      Size2d dilation = 1, bool ceil_mode = false,
                                      Where where = Where::current());
Variable avg_pool2d(const Variable& x, Size2d kernel_size, OptionalSize<Size2d> stride = {},
                    Size2d padding = 0, bool ceil_mode = false, bool count_include_pad = true,
                    Where where = Where::current());
Variable lp_pool2d(const Variable& x, double norm_type, Size2d kernel_size,
                   OptionalSize<Size2d> stride = {}, bool ceil_mode = false,
                   Where where = Where::current());
Variable max_unpool2d(const Variable& x, const Variable& indices, Size2d kernel_size,
                      OptionalSize<Size2d> stride = {}, Size2d padding = 0,
                      OptionalSize<Size2d> output_size = {}, Where where = Where::current());

Variable max_pool3d(const Variable& x, Size3d kernel_size, OptionalSize<Size3d> stride = {},
                    Size3d padding = 0, Size3d dilation = 1, bool ceil_mode = false,
                    Where where = Where::current());
ValuesIndices max_pool3d_with_indices(const Variable& x, Size3d kernel_size,
                                      OptionalSize<Size3d> stride = {}, Size3d padding = 0,
                                      Size3d dilation = 1, bool ceil_mode = false,
                                      Where where = Where::current());
Variable avg_pool3d(const Variable& x, Size3d kernel_size, OptionalSize<Size3d> stride = {},
                    Size3d padding = 0, bool ceil_mode = false, bool count_include_pad = true,
                    Where where = Where::current());
Variable lp_pool3d(const Variable& x, double norm_type, Size3d kernel_size,
                   OptionalSize<Size3d> stride = {}, bool ceil_mode = false,
                   Where where = Where::current());
Variable max_unpool3d(const Variable& x, const Variable& indices, Size3d kernel_size,
                      OptionalSize<Size3d> stride = {}, Size3d padding = 0,
                      OptionalSize<Size3d> output_size = {}, Where where = Where::current());

Variable max_pool1d(const Variable& x, int64_t kernel_size, MaxPool1dOptions options,
                    Where where = Where::current());
ValuesIndices max_pool1d_with_indices(const Variable& x, int64_t kernel_size,
                                      MaxPool1dOptions options, Where where = Where::current());
Variable avg_pool1d(const Variable& x, int64_t kernel_size, AvgPool1dOptions options,
                    Where where = Where::current());
Variable max_pool2d(const Variable& x, Size2d kernel_size, MaxPool2dOptions options,
                    Where where = Where::current());
ValuesIndices max_pool2d_with_indices(const Variable& x, Size2d kernel_size,
                                      MaxPool2dOptions options, Where where = Where::current());
Variable avg_pool2d(const Variable& x, Size2d kernel_size, AvgPool2dOptions options,
                    Where where = Where::current());
Variable max_pool3d(const Variable& x, Size3d kernel_size, MaxPool3dOptions options,
                    Where where = Where::current());
ValuesIndices max_pool3d_with_indices(const Variable& x, Size3d kernel_size,
                                      MaxPool3dOptions options, Where where = Where::current());
Variable avg_pool3d(const Variable& x, Size3d kernel_size, AvgPool3dOptions options,
                    Where where = Where::current());

}  // namespace tapegrad
