// Tensors whose channels lie in blocks, as a convolution leaves them for the next layer: values in
// another order (Packing, core/base/storage.h), which costs a pass over memory each way to change.
//
// A kernel that takes packed tensors treats the whole of one alike: elementwise, or channel by
// channel. Others never see them.
#pragma once

#include <optional>

#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

using PackedValues = Storage::PackedValues;

/// Smaller results are left in the plain order.
inline constexpr int64_t kPackedElements = int64_t(1) << 15;

/// The values of a tensor that is the whole of a packed storage, with its batch and channels.
std::optional<PackedValues> packed_values(const Tensor& x);
/// A packed copy of a contiguous tensor [batch, channels, ...] of four-byte elements.
PackedValues pack(const Tensor& x, const Packing& packing);

/// Whether a result may be left packed: four-byte elements, the whole of its storage, large.
bool can_be_packed(const Tensor& y, int64_t block);
/// [batch, channels, ...] in blocks.
Packing packing_of(const Shape& shape, int64_t block);

/// The elements of packed values.
template <typename T>
T* data(const PackedValues& x) {
  return reinterpret_cast<T*>(x.buffer->data());
}

}  // namespace tapegrad::backends::cpu
