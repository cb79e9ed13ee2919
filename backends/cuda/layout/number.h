// Numbers of the host as operands of elementwise kernels. A new tensor of rank 0 may hold its value
// in a Packing (core/base/storage.h) in place of memory. Elementwise kernels take the value as an
// argument (Access::kNumber), which saves the launch that fills the memory. Any other access to the
// tensor writes the value to memory first.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Declares that a new tensor, which spans its storage, has one element of these bits.
void hold_number(const Tensor& y, uint64_t bits);
/// Returns the bits of the only element of x's storage, which has `element` bytes; nullopt if the
/// storage has memory.
std::optional<uint64_t> held_number(const Tensor& x, int64_t element);

/// Computes y = the first `bytes` bytes of the number.
void store_number(uint64_t bits, std::byte* y, int64_t bytes, tapegrad::Device device);

}  // namespace tapegrad::backends::cuda
