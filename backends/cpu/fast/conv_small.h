// Convolutions in float32 to fewer channels than fill a vector, as first layers have them: oneDNN
// would fill the channels up, and spend more on the layout than on the sums.
#pragma once

#include "ops/conv.h"

namespace tapegrad::backends::cpu {

bool is_small_conv(const Shape& x, const Shape& weight, const Conv2dOptions& options);

/// The sums as they stand, vectors along the rows of the image; then max(y, 0) if `relu`. All
/// tensors are contiguous.
void conv2d_small(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, bool relu, Tensor& y);
/// The gradients of the weight and, if it is there, of the bias. With y, dy counts only where y is
/// not 0.
void conv2d_small_backward(const Tensor& dy, const Tensor& y, const Tensor& x,
                           const Conv2dOptions& options, Tensor& dw, Tensor& db);

}  // namespace tapegrad::backends::cpu
