// grid_sample in one pass. There is no fallback: the op composes other kernels if none of
// these accepts the operands.
#pragma once

#include "core/dispatch/dispatcher.h"
#include "ops/resample.h"

namespace tapegrad::kernels {

// x [n, c, h, w] or [n, c, d, h, w] has fewer than 2^31 pixels in an image, and grid is
// [n, h', w', 2] or [n, d', h', w', 3]. Tensors are contiguous and not empty. mode is kNearest,
// kLinear or, for images, kCubic.

extern Kernel<void(const Tensor& x, const Tensor& grid, const GridSampleOptions& options,
                   Tensor& y)>
    grid_sample;
/// dx and dgrid may be empty if they are not needed.
extern Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& grid,
                   const GridSampleOptions& options, Tensor& dx, Tensor& dgrid)>
    grid_sample_backward;

}  // namespace tapegrad::kernels
