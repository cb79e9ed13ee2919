// Asynchronous copies to a device through pinned memory, which the device reads directly.
#pragma once

#include "core/base/allocator.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Copies to the device, in its current stream. `from` may be modified as soon as this function
/// returns.
void copy_to_device(const void* from, void* to, size_t bytes, tapegrad::Device device);
/// Copies a contiguous tensor. If the tensor was pinned for the device, the device reads it
/// directly.
void copy_to_device(const Tensor& from, void* to, size_t bytes, tapegrad::Device device);

/// Statistics of staging memory and pinned tensors, for all devices. Memory is in use until the
/// device has read it, or while the tensor lives.
MemoryStats pinned_stats();
/// Frees the pinned memory that no copy uses.
void empty_pinned(tapegrad::Device device);

}  // namespace tapegrad::backends::cuda
