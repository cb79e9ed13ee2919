// Running extremes with their values. On devices without this kernel, the op gathers the values at
// the indices computed by kernels::running_extreme.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// Writes the largest or smallest elements so far along n and their indices (int64). All tensors
/// are contiguous, [outer, n, inner].
extern Kernel<void(const Tensor& x, bool largest, Tensor& values, Tensor& indices)> running_values;

}  // namespace tapegrad::kernels
