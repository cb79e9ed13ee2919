// Convolutions by cuDNN.
#pragma once

#include "ops/conv.h"

namespace tapegrad::backends::cuda {

/// How images lie, [n, c, h, w] or [n, h, w, c], and weights in the same way.
enum class ImageLayout { kChannelsFirst, kChannelsLast };

// Tensors are contiguous, of shapes in the order that the layout says. Each is false, with nothing
// done, where cuDNN is not there or not wanted, and where it knows no way that is fit: one that
// gives the same bits each time, has the memory that it needs besides, and multiplies float32 in
// full unless set_matmul_precision() allows TF32. Nor are empty tensors its affair, those of 2^31
// elements, or that begin at no multiple of 16 bytes.

/// y = conv2d(x, weight), without bias.
bool cudnn_conv2d(const Tensor& x, const Tensor& weight, const Conv2dOptions& options, Tensor& y,
                  ImageLayout layout = ImageLayout::kChannelsFirst);
/// Its gradient in x, and in the weight.
bool cudnn_conv2d_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options,
                        Tensor& dx, ImageLayout layout = ImageLayout::kChannelsFirst);
bool cudnn_conv2d_weight(const Tensor& dy, const Tensor& x, const Conv2dOptions& options,
                         Tensor& dw, ImageLayout layout = ImageLayout::kChannelsFirst);

}  // namespace tapegrad::backends::cuda
