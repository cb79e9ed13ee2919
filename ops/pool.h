// Pooling of signals [batch, channels, length], images [batch, channels, height, width] and volumes
// [batch, channels, depth, height, width]. An input without the batch dimension gives a result
// without it.
#pragma once

#include <optional>

#include "core/dispatch/dispatcher.h"
#include "ops/conv.h"
#include "ops/reduce.h"

namespace tapegrad {

/// Size is int64_t, Size2d or Size3d, for one, two or three spatial dimensions.
template <typename Size>
struct MaxPoolOptions {
  ByName by_name = {};
  Size kernel_size = 0;            // required
  OptionalSize<Size> stride = {};  // default: kernel_size
  Size padding = 0;                // pads with -inf; at most half of kernel_size
  Size dilation = 1;
  bool ceil_mode = false;  // keep a last window that is only partly inside
};
using MaxPool1dOptions = MaxPoolOptions<int64_t>;
using MaxPool2dOptions = MaxPoolOptions<Size2d>;
using MaxPool3dOptions = MaxPoolOptions<Size3d>;

/// Returns the maximum of each window; NaN if any element is NaN. The first of equal maxima in
/// row-major order receives the gradient.
Variable max_pool1d(const Variable& x, MaxPool1dOptions options, Where where = Where::current());
Variable max_pool2d(const Variable& x, MaxPool2dOptions options, Where where = Where::current());
Variable max_pool3d(const Variable& x, MaxPool3dOptions options, Where where = Where::current());

/// Return also the positions of the maxima: int64 row-major indices in the plane or volume.
ValuesIndices max_pool1d_with_indices(const Variable& x, MaxPool1dOptions options,
                                      Where where = Where::current());
ValuesIndices max_pool2d_with_indices(const Variable& x, MaxPool2dOptions options,
                                      Where where = Where::current());
ValuesIndices max_pool3d_with_indices(const Variable& x, MaxPool3dOptions options,
                                      Where where = Where::current());

template <typename Size>
struct MaxUnpoolOptions {
  ByName by_name = {};
  Size kernel_size = 0;  // required
  OptionalSize<Size> stride = {};
  Size padding = 0;
  OptionalSize<Size> output_size = {};  // default: (n - 1) stride - 2 padding + kernel_size
};
/// Returns zeros with x written at the positions that max pooling returned. If a position is
/// repeated, the last value remains and alone receives the gradient. Throws IndexError for a
/// position out of range.
Variable max_unpool1d(const Variable& x, const Variable& indices, MaxUnpoolOptions<int64_t> options,
                      Where where = Where::current());
Variable max_unpool2d(const Variable& x, const Variable& indices, MaxUnpoolOptions<Size2d> options,
                      Where where = Where::current());
Variable max_unpool3d(const Variable& x, const Variable& indices, MaxUnpoolOptions<Size3d> options,
                      Where where = Where::current());

template <typename Size>
struct AvgPoolOptions {
  ByName by_name = {};
  Size kernel_size = 0;  // required
  OptionalSize<Size> stride = {};
  Size padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;                 // whether the divisor counts padding
  std::optional<int64_t> divisor_override = {};  // of every window; otherwise its size
};
using AvgPool1dOptions = AvgPoolOptions<int64_t>;
using AvgPool2dOptions = AvgPoolOptions<Size2d>;
using AvgPool3dOptions = AvgPoolOptions<Size3d>;

/// Return the mean of each window. The divisor of a last window of ceil_mode counts only the part
/// inside the padded image.
Variable avg_pool1d(const Variable& x, AvgPool1dOptions options, Where where = Where::current());
Variable avg_pool2d(const Variable& x, AvgPool2dOptions options, Where where = Where::current());
Variable avg_pool3d(const Variable& x, AvgPool3dOptions options, Where where = Where::current());

template <typename Size>
struct LpPoolOptions {
  ByName by_name = {};
  double norm_type;      // the exponent p
  Size kernel_size = 0;  // required
  OptionalSize<Size> stride = {};
  bool ceil_mode = false;
};
/// Return (sum x^p)^(1/p) over each window. As in PyTorch, the sum is of x, not of |x|: signs
/// matter for odd p, and a negative sum gives NaN.
Variable lp_pool1d(const Variable& x, LpPoolOptions<int64_t> options,
                   Where where = Where::current());
Variable lp_pool2d(const Variable& x, LpPoolOptions<Size2d> options,
                   Where where = Where::current());
Variable lp_pool3d(const Variable& x, LpPoolOptions<Size3d> options,
                   Where where = Where::current());

/// Return averages or maxima over windows [floor(i h / H), ceil((i + 1) h / H)), which divide the
/// image evenly into output_size windows. A size of -1 keeps the size of x.
Variable adaptive_avg_pool1d(const Variable& x, int64_t output_size,
                             Where where = Where::current());
Variable adaptive_avg_pool2d(const Variable& x, Size2d output_size, Where where = Where::current());
Variable adaptive_avg_pool3d(const Variable& x, Size3d output_size, Where where = Where::current());
Variable adaptive_max_pool1d(const Variable& x, int64_t output_size,
                             Where where = Where::current());
Variable adaptive_max_pool2d(const Variable& x, Size2d output_size, Where where = Where::current());
Variable adaptive_max_pool3d(const Variable& x, Size3d output_size, Where where = Where::current());

/// Return also the positions of the maxima: int64 row-major indices in the plane or volume.
ValuesIndices adaptive_max_pool1d_with_indices(const Variable& x, int64_t output_size,
                                               Where where = Where::current());
ValuesIndices adaptive_max_pool2d_with_indices(const Variable& x, Size2d output_size,
                                               Where where = Where::current());
ValuesIndices adaptive_max_pool3d_with_indices(const Variable& x, Size3d output_size,
                                               Where where = Where::current());

/// The windows of a pooling op.
template <typename Options>
struct PoolWindows {
  bool adaptive = false;  // windows divide the image evenly; `options` are then ignored
  Options options{.kernel_size = 1};
};
using MaximumWindows = PoolWindows<MaxPool2dOptions>;
using AverageWindows = PoolWindows<AvgPool2dOptions>;

namespace kernels {

// Tensors are contiguous. Indices are int32 positions in a plane, or -1 for a window that lies
// entirely in the padding.

/// indices may be empty and is then not computed.
extern Kernel<void(const Tensor& x, const MaximumWindows& windows, Tensor& y, Tensor& indices)>
    max_pool2d;
/// pool_gather computes y[i] = x[indices[i]] in every plane; pool_scatter is its adjoint. With
/// windows, an element may occur in several indices, which come from max_pool2d; without windows,
/// in at most one index.
extern Kernel<void(const Tensor& x, const Tensor& indices, Tensor& y)> pool_gather;
extern Kernel<void(const Tensor& dy, const Tensor& indices,
                   const std::optional<MaximumWindows>& windows, Tensor& dx)>
    pool_scatter;

/// Converts positions (int64) in x to indices. A position that a later element of the plane repeats
/// becomes -1. Throws IndexError, naming op, for a position outside [0, size).
extern Kernel<void(const Tensor& positions, std::string_view op, int64_t size, Tensor& indices)>
    unpool_indices;

extern Kernel<void(const Tensor& x, const AverageWindows& windows, Tensor& y)> avg_pool2d;
extern Kernel<void(const Tensor& dy, const AverageWindows& windows, Tensor& dx)>
    avg_pool2d_backward;

}  // namespace kernels

}  // namespace tapegrad

#include "ops/pool_positional.h"
