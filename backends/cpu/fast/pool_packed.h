// Max pooling where the channels lie in blocks (packed.h): a block is pooled at once.
#pragma once

#include "ops/pool.h"

namespace tapegrad::backends::cpu {

// As kernels::max_pool2d and kernels::pool_scatter. False, with nothing written, when
// the operands do not lie so.

bool max_pool2d_packed(const Tensor& x, const MaximumWindows& windows, Tensor& y, Tensor& indices);
bool pool_scatter_packed(const Tensor& dy, const Tensor& indices, Tensor& dx);

}  // namespace tapegrad::backends::cpu
