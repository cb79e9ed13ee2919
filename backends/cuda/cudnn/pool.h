// Pooling by cuDNN's kernels.
#pragma once

#include "backends/cuda/cudnn/conv.h"
#include "ops/pool.h"

namespace tapegrad::backends::cuda {

// Images are contiguous in their layout, of float32 or sixteen-bit floats. Each is false, with
// nothing done, where cuDNN is not there or not wanted, where it has no plan (graph.h), and
// for windows that it does not have: dilated ones, those that divide an image unevenly, and last
// ones that reach beyond the padding. Images have kFewestPooled elements or more, for fewer a call
// of cuDNN is longer than a kernel; or, where their channels lie last, and it compiles one,
// kFewestPooledLast.

inline constexpr int64_t kFewestPooled = int64_t{1} << 14;
inline constexpr int64_t kFewestPooledLast = int64_t{1} << 20;

bool cudnn_max_pool2d(const Tensor& x, const MaximumWindows& windows, Tensor& y,
                      ImageLayout layout);
bool cudnn_avg_pool2d(const Tensor& x, const AverageWindows& windows, Tensor& y,
                      ImageLayout layout);
bool cudnn_avg_pool2d_backward(const Tensor& dy, const AverageWindows& windows, Tensor& dx,
                               ImageLayout layout);

}  // namespace tapegrad::backends::cuda
