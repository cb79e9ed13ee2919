// Float32 convolutions with fewer output channels than a vector has lanes, as in first layers.
// oneDNN would pad the channels and spend more time on layout conversion than on the sums.
#pragma once

#include "ops/conv.h"

namespace tapegrad::backends::cpu {

bool is_small_conv(const Shape& x, const Shape& weight, const Conv2dOptions& options);

/// Computes the convolution directly, with vectors along image rows, followed by max(y, 0) if
/// `relu`. All tensors are contiguous.
void conv2d_small(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, bool relu, Tensor& y);
/// Computes the gradients of the weight and, unless db is empty, of the bias. If y is given, dy
/// counts only where y is not 0.
void conv2d_small_backward(const Tensor& dy, const Tensor& y, const Tensor& x,
                           const Conv2dOptions& options, Tensor& dw, Tensor& db);

}  // namespace tapegrad::backends::cpu
