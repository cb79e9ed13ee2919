// Images whose channels lie last, as cuDNN's kernels for tensor cores want them: a convolution of
// sixteen-bit images leaves its result so for the next layer (Packing of core/base/storage.h, with
// one block). A kernel that takes them sees a plain tensor over the packed values, their pixels:
// [n, h, w, channels] for [n, channels, h, w]. To all others they are in order.
//
// Streams: packed values are written and read in the stream that their memory was made for, and no
// other. So they can be put in order, which frees that memory, at any time: what reads it was given
// to the stream before. Who asks for them in another stream has them put in order first, in theirs,
// and waits for it. Once the program has made a stream of its own the host waits too (and a
// recording ends), since a third stream may read them, which knows when they were computed but not
// that they were put in order since.
//
// Graphs: what is recorded packs its own results only, which lie in its pool. They are put in order
// in the recording, at the latest at its end (Capture::settle). What lay packed before it is put in
// order before it too, outside, and not again by its runs (note_operand of api.h).
#pragma once

#include <optional>

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Smaller results are left in order: their kernels are too short for it to matter.
inline constexpr int64_t kPackedElements = int64_t(1) << 13;

/// Over the packed values of a tensor that is all of them, and has their channels.
std::optional<Tensor> pixels_of(const Tensor& x);
/// The same, or a copy of a contiguous tensor.
Tensor pixels_or_copy(const Tensor& x);

/// Whether y may be left packed: elements of two or four bytes, all of its memory, large.
bool can_be_packed(const Tensor& y);
/// The memory of such a tensor, to write the pixels of its values to; then set_packed().
Tensor pixels_to_write(const Tensor& y);
void set_packed(const Tensor& y);

/// A view with the channels last.
Tensor channels_last(const Tensor& x);

/// y [batch, columns, rows] = x [batch, rows, columns], of elements of two or four bytes; in x's
/// current stream.
void transpose(const std::byte* x, std::byte* y, int64_t batch, int64_t rows, int64_t columns,
               int64_t element, tapegrad::Device device);

}  // namespace tapegrad::backends::cuda
