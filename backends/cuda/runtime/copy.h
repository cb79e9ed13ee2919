// Copies between host and device, in the device's current stream.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Waits until the copy is complete.
void copy_to_host(const Tensor& x, void* to);
/// Copies numbers that are the same in each repetition of a recorded step. Does not wait for the
/// device. Has read all of `from` when it returns.
void copy_from_host(const void* from, Tensor& y);

}  // namespace tapegrad::backends::cuda
