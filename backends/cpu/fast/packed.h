// Packed layouts (Packing, core/base/storage.h) on the CPU: tensors whose channels are stored in
// blocks, as convolutions produce them. Each conversion to or from row-major order costs a pass
// over memory.
//
// A kernel that accepts packed tensors processes whole tensors elementwise or channel by channel.
// Other kernels never see a packed tensor.
#pragma once

#include <optional>
#include <type_traits>

#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

using PackedValues = TensorStorage::PackedValues;

/// Types of floats in packed tensors, which may also hold indices of four bytes.
template <typename T>
concept Packable = std::is_same_v<T, float> || std::is_same_v<T, bfloat16>;

/// Returns whether convolutions make packed results of this type.
bool is_packable(DType dtype);

/// Results with fewer elements are stored in row-major order.
inline constexpr int64_t kPackedElements = int64_t(1) << 15;

/// Returns the values of x with its batch and channels, if x is the whole of a packed storage.
std::optional<PackedValues> packed_values(const Tensor& x);
/// Returns a packed copy of a contiguous tensor [batch, channels, ...] of elements that may be
/// packed.
PackedValues pack(const Tensor& x, const Packing& packing);

/// Returns whether a result may be packed in some way: can_be_packed() of images without their
/// channels.
bool may_be_packed(const Tensor& y);
/// Returns whether a result may be packed: it has four-byte elements or bfloat16, spans its
/// storage, and is large.
bool can_be_packed(const Tensor& y, int64_t block);
/// Returns the packed layout of [batch, channels, ...] with the given block size.
Packing packing_of(const Shape& shape, int64_t block);

/// Pointer to the packed values.
template <typename T>
T* data(const PackedValues& x) {
  return reinterpret_cast<T*>(x.buffer->data());
}

}  // namespace tapegrad::backends::cpu
