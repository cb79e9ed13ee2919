// Pooling of images [batch, channels, height, width].
#pragma once

#include <optional>

#include "core/dispatcher.h"
#include "ops/conv.h"

namespace tapegrad {

struct MaxPool2dOptions {
  Size2d kernel_size;
  std::optional<Size2d> stride = {};  // the kernel's size when not given
  Size2d padding = 0;                 // of -inf; at most half of the kernel
  Size2d dilation = 1;
  bool ceil_mode = false;  // keep a last window that is only partly inside
};
/// The largest of each window; NaN if there is one. Of equal largest elements the first in
/// row-major order alone receives the gradient.
Variable max_pool2d(const Variable& x, MaxPool2dOptions options, Where where = Where::current());

struct AvgPool2dOptions {
  Size2d kernel_size;
  std::optional<Size2d> stride = {};
  Size2d padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // whether padding counts in the divisor
};
/// The mean of each window. A last window of ceil_mode counts what lies inside the padded image.
Variable avg_pool2d(const Variable& x, AvgPool2dOptions options, Where where = Where::current());

/// Averages over windows that divide the image evenly: [floor(i h / H), ceil((i + 1) h / H)).
Variable adaptive_avg_pool2d(const Variable& x, Size2d output_size, Where where = Where::current());

/// Which elements an average is over.
struct AverageWindows {
  bool adaptive = false;  // windows that divide the image evenly; the rest is then not used
  AvgPool2dOptions options{.kernel_size = 1};
};

namespace kernels {

// All tensors are contiguous. Indices are int32: positions in a plane, -1 for a window that lies in
// the padding altogether.

/// Indices may be empty: not wanted.
extern Kernel<void(const Tensor& x, const MaxPool2dOptions& options, Tensor& y, Tensor& indices)>
    max_pool2d;
/// y[i] = x[indices[i]] in every plane, and its adjoint.
extern Kernel<void(const Tensor& x, const Tensor& indices, Tensor& y)> pool_gather;
extern Kernel<void(const Tensor& dy, const Tensor& indices, Tensor& dx)> pool_scatter;

extern Kernel<void(const Tensor& x, const AverageWindows& windows, Tensor& y)> avg_pool2d;
extern Kernel<void(const Tensor& dy, const AverageWindows& windows, Tensor& dx)>
    avg_pool2d_backward;

}  // namespace kernels

}  // namespace tapegrad
