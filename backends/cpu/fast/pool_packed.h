// Max pooling of tensors with a packed layout (packed.h): pools a block of channels at a time.
#pragma once

#include "ops/pool.h"

namespace tapegrad::backends::cpu {

// Same arguments as kernels::max_pool2d and kernels::pool_scatter. Return false, with nothing
// written, if the operands do not have a matching packed layout.

bool max_pool2d_packed(const Tensor& x, const MaximumWindows& windows, Tensor& y, Tensor& indices);
bool pool_scatter_packed(const Tensor& dy, const Tensor& indices, Tensor& dx);

}  // namespace tapegrad::backends::cpu
