// Pooling that is composed of other ops.
#pragma once

#include "ops/pool.h"
#include "ops/resample.h"

namespace tapegrad {

/// Size is Size2d or Size3d.
template <typename Size>
struct FractionalMaxPoolOptions {
  ByName by_name = {};
  Size kernel_size = 0;  // required
  OptionalSize<Size> output_size = {};
  ScaleFactors output_ratio = {};  // instead of output_size: shares of the input size, in (0, 1)
  /// Numbers in [0, 1) that place the windows, [batch, channels, 2 or 3]; drawn if empty. The last
  /// dimension is (width, height) for images and (depth, height, width) for volumes, as in PyTorch.
  Variable _random_samples = {};
};

/// Return the maximum of each window of kernel_size; NaN if any element is NaN. The windows of a
/// plane start at floor((i + u) a) - floor(u a) for i < output_size - 1, where u is a random number
/// of the plane and a = (size - kernel_size) / (output_size - 1); the last window ends at the edge
/// (Graham 2014). Windows may overlap. Throw ArgumentError unless exactly one of output_size and
/// output_ratio is given, and ShapeError unless kernel_size + output_size - 1 fits in the input.
Variable fractional_max_pool2d(const Variable& x, FractionalMaxPoolOptions<Size2d> options,
                               Where where = Where::current());
Variable fractional_max_pool3d(const Variable& x, FractionalMaxPoolOptions<Size3d> options,
                               Where where = Where::current());
/// Return also the positions of the maxima: int64 row-major indices in the plane or volume.
ValuesIndices fractional_max_pool2d_with_indices(const Variable& x,
                                                 FractionalMaxPoolOptions<Size2d> options,
                                                 Where where = Where::current());
ValuesIndices fractional_max_pool3d_with_indices(const Variable& x,
                                                 FractionalMaxPoolOptions<Size3d> options,
                                                 Where where = Where::current());
// Overloads with the size of a window by position.
Variable fractional_max_pool2d(const Variable& x, Size2d kernel_size,
                               FractionalMaxPoolOptions<Size2d> options,
                               Where where = Where::current());
Variable fractional_max_pool3d(const Variable& x, Size3d kernel_size,
                               FractionalMaxPoolOptions<Size3d> options,
                               Where where = Where::current());

}  // namespace tapegrad
