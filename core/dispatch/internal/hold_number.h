// Numbers as tensors, on devices whose kernels take a number without reading memory.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// fill() for a new tensor of rank 0. Registered by CUDA alone.
extern Kernel<void(Tensor& y, Number value)> hold_number;

}  // namespace tapegrad::kernels

namespace tapegrad::detail {

/// Tensor::full() of rank 0 for an operand of an op. A tensor that outlives the op's node, and that
/// a recorded step may therefore read, is made by Tensor::full().
Tensor number_operand(Number value, DType dtype, Device device);

}  // namespace tapegrad::detail
