// Numbers as tensors, on devices whose kernels take a number without reading memory.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// fill() for a new tensor of rank 0. Registered only by CUDA.
extern Kernel<void(Tensor& y, Number value)> hold_number;

}  // namespace tapegrad::kernels

namespace tapegrad::detail {

/// Returns a tensor of rank 0 for an operand of an op. A tensor that outlives the op's node may be
/// read by a recorded step and must be made by Tensor::full() instead.
Tensor number_operand(Number value, DType dtype, Device device);

}  // namespace tapegrad::detail
