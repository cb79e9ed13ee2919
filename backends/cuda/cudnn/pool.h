// Pooling by cuDNN.
#pragma once

#include "backends/cuda/cudnn/conv.h"
#include "ops/pool.h"

namespace tapegrad::backends::cuda {

// Images are contiguous in their layout, of float32 or sixteen-bit floats. The functions return
// false, and change nothing, if cuDNN is missing or turned off, or has no plan (graph.h), and for
// unsupported windows: dilated windows, windows that divide an image unevenly, and last windows
// that extend beyond the padding. Images must have at least kFewestPooled elements, because for
// fewer a cuDNN call takes longer than a kernel; channels-last images for which cuDNN compiles a
// kernel must have kFewestPooledLast.

inline constexpr int64_t kFewestPooled = int64_t{1} << 14;
inline constexpr int64_t kFewestPooledLast = int64_t{1} << 20;

bool cudnn_max_pool2d(const Tensor& x, const MaximumWindows& windows, Tensor& y,
                      ImageLayout layout);
bool cudnn_avg_pool2d(const Tensor& x, const AverageWindows& windows, Tensor& y,
                      ImageLayout layout);
bool cudnn_avg_pool2d_backward(const Tensor& dy, const AverageWindows& windows, Tensor& dx,
                               ImageLayout layout);

}  // namespace tapegrad::backends::cuda
