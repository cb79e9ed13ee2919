// Indices of elements from their row-major positions, where a device has this kernel; other devices
// divide.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// places[i] = the indices of element positions[i] of a tensor of this shape, one for each
/// dimension. positions, int64, ascend; places is [positions, dimensions], int64.
extern Kernel<void(const Tensor& positions, const Shape& shape, Tensor& places)> places_of;

}  // namespace tapegrad::kernels
