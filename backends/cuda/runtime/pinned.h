// Copies to a device that nobody waits for: by way of memory that the system may not move, from
// which the device reads by itself.
#pragma once

#include "core/base/allocator.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Copies to the device, in its current stream. `from` may change as soon as this returns.
void copy_to_device(const void* from, void* to, size_t bytes, tapegrad::Device device);
/// The same of a contiguous tensor; one that was pinned for the device is read by the device
/// itself.
void copy_to_device(const Tensor& from, void* to, size_t bytes, tapegrad::Device device);

/// Of the memory between and of pinned tensors, of all devices: in use until the device has read
/// it, or the tensor lives.
MemoryStats pinned_stats();
/// Gives back what no copy uses.
void empty_pinned(tapegrad::Device device);

}  // namespace tapegrad::backends::cuda
