// Channels-last images for cuDNN's tensor core kernels. A convolution of sixteen-bit images leaves
// its result in this packed layout (Packing of core/base/storage.h with one block) for the next
// layer. A kernel that accepts packed tensors sees a plain tensor of their pixels,
// [n, h, w, channels] for [n, channels, h, w]. For other kernels the values are first converted to
// row-major order.
//
// Streams: packed values are written and read only in the stream that their memory was allocated
// for. Unpacking, which frees this memory, is therefore safe at any time: earlier readers precede
// it in the stream. If another stream asks for the values, they are unpacked in the original stream
// and the other stream waits. Once the program has created a stream of its own, the host waits, too
// (and a recording ends): a third stream may know when the values were computed, but not that they
// were unpacked since.
//
// Graphs: a recording packs only its own results, whose memory is in its pool. They are unpacked
// within the recording, at the latest at its end (Capture::settle). Tensors packed before the
// recording are unpacked before it, so that its runs do not repeat the conversion (note_operand()
// of api.h).
#pragma once

#include <optional>

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Smaller results stay in row-major order, because their kernels are too short to profit.
inline constexpr int64_t kPackedElements = int64_t(1) << 13;

/// Returns the pixels of a tensor that spans its packed storage and has its channels.
std::optional<Tensor> pixels_of(const Tensor& x);
/// Returns the pixels of a packed tensor, or a converted copy of a contiguous tensor.
Tensor pixels_or_copy(const Tensor& x);

/// Returns whether y may be packed: it has elements of two or four bytes, spans its storage, and is
/// large.
bool can_be_packed(const Tensor& y);
/// Returns the memory of such a tensor as pixels to be written; call set_packed() afterwards.
Tensor pixels_to_write(const Tensor& y);
void set_packed(const Tensor& y);

/// Returns a view with the channels last.
Tensor channels_last(const Tensor& x);

}  // namespace tapegrad::backends::cuda
