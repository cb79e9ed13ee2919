// Convolutions by cuDNN.
#pragma once

#include "ops/conv.h"

namespace tapegrad::backends::cuda {

/// Layout of images, [n, c, h, w] or [n, h, w, c], and of weights in the same order.
enum class ImageLayout { kChannelsFirst, kChannelsLast };

// Tensors are contiguous, with shapes in the order of the layout. The functions return false, with
// nothing done, if cuDNN is missing or turned off, or has no suitable algorithm. A suitable
// algorithm is deterministic, has the memory for its workspace, and multiplies float32 in full
// precision unless set_matmul_precision() allows TF32. Also not supported: empty tensors, tensors
// of 2^31 elements or more, and addresses that are not aligned to 16 bytes.

/// Computes y = conv2d(x, weight), without bias.
bool cudnn_conv2d(const Tensor& x, const Tensor& weight, const Conv2dOptions& options, Tensor& y,
                  ImageLayout layout = ImageLayout::kChannelsFirst);
/// The gradients of conv2d with respect to x and to the weight.
bool cudnn_conv2d_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options,
                        Tensor& dx, ImageLayout layout = ImageLayout::kChannelsFirst);
bool cudnn_conv2d_weight(const Tensor& dy, const Tensor& x, const Conv2dOptions& options,
                         Tensor& dw, ImageLayout layout = ImageLayout::kChannelsFirst);

}  // namespace tapegrad::backends::cuda
