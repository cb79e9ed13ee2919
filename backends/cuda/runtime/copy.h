// Copies between host and device, in the device's current stream.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Copies a tensor to the host and waits until the copy is complete.
void copy_to_host(const Tensor& x, void* to);
/// Copies numbers that are the same in each repetition of a recorded step. Has read all of `from`
/// when the function returns, but does not wait for the device.
void copy_from_host(const void* from, Tensor& y);

}  // namespace tapegrad::backends::cuda
