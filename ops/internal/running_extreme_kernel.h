// Running extremes with their values, where a device has this kernel; other devices gather the
// values at the indices of kernels::running_extreme.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// Writes the largest or smallest elements so far along n and their indices (int64). All tensors
/// are contiguous, [outer, n, inner].
extern Kernel<void(const Tensor& x, bool largest, Tensor& values, Tensor& indices)> running_values;

}  // namespace tapegrad::kernels
