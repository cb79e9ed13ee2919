// Bytes between the host and a device, in the device's current stream.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Waits for them.
void copy_to_host(const Tensor& x, void* to);
/// Has read all of `from` when it returns; waits for nothing.
void copy_from_host(const void* from, Tensor& y);

}  // namespace tapegrad::backends::cuda
