// Kernel that computes indices of elements from their row-major positions. On devices without it,
// the op composes divisions.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// Computes places[i] = the indices of element positions[i] of a tensor of this shape, one for each
/// dimension. positions (int64) are ascending; places is int64 [positions, dimensions].
extern Kernel<void(const Tensor& positions, const Shape& shape, Tensor& places)> places_of;

}  // namespace tapegrad::kernels
