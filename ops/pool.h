// Pooling of images [batch, channels, height, width].
#pragma once

#include <optional>

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
Variable avg_pool2d(const Variable& x, AvgPool2dOptions options, Where where = Where::current());

/// Averages over windows that divide the image evenly: [floor(i h / H), ceil((i + 1) h / H)).
Variable adaptive_avg_pool2d(const Variable& x, Size2d output_size, Where where = Where::current());

}  // namespace tapegrad
