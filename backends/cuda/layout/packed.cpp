#include "backends/cuda/layout/packed.h"

#include "backends/cuda/layout/transpose.h"
#include "backends/cuda/layout/unpack.h"
#include "backends/cuda/runtime/allocator.h"
#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/stream.h"
#include "ops/conv.h"

namespace tapegrad::backends::cuda {
namespace {

std::byte* unpack(const Packing& p, const TensorStorage& packed) {
  return unpack_at_home(
      packed, "images are put in order, and the host waits for that", [&](std::byte* plain) {
        const int64_t element = int64_t(packed.bytes()) / (p.batch * p.channels * p.size);
        transpose(packed.data(), plain, p.batch, p.size, p.channels, element, packed.device());
      });
}

bool is_at_home(const TensorStorage& memory) {
  const Home home = home_of(memory);
  return home.pool == pool_in_use() && home.stream == stream_of(memory.device()) &&
         (home.pool == 0 || is_recording_graph());
}

Packing packing_of(const Shape& x) { return {x[0], x[1], numel(x) / (x[0] * x[1]), x[1], unpack}; }

Shape pixels_shape(const Shape& x) {
  Shape last{x[0]};
  for (int d = 2; d < x.rank(); ++d) last.push_back(x[d]);
  last.push_back(x[1]);
  return last;
}

bool is_whole(const Tensor& x) {
  return x.rank() >= 3 && x.numel() > 0 && x.is_contiguous() &&
         size_t(x.numel() * size_of(x.dtype())) == x.storage().bytes();
}

}  // namespace

std::optional<Tensor> pixels_of(const Tensor& x) {
  if (!x || !x.storage().is_packed() || !is_whole(x)) return {};
  const std::optional<TensorStorage::PackedValues> values = x.storage().packed();
  if (!values || values->packing != packing_of(x.shape()) || !is_at_home(*values->buffer))
    return {};
  return Tensor::wrap(values->buffer->data(), pixels_shape(x.shape()), x.dtype(), x.device(),
                      [kept = values->buffer] {});
}

Tensor pixels_or_copy(const Tensor& x) {
  if (std::optional<Tensor> pixels = pixels_of(x)) return *pixels;
  const Tensor copy = x.empty_like(pixels_shape(x.shape()));
  const Shape& s = x.shape();
  const int64_t element = size_of(x.dtype());
  transpose(x.storage().data() + x.layout().offset * element, copy.storage().data(), s[0], s[1],
            x.numel() / (s[0] * s[1]), element, x.device());
  return copy;
}

bool can_be_packed(const Tensor& y) {
  if (y.numel() < kPackedElements || !is_whole(y) || conv_layout() != ConvLayout::kBlocked)
    return false;
  const int64_t element = size_of(y.dtype()), plane = y.numel() / (y.shape()[0] * y.shape()[1]);
  return (element == 2 || element == 4) && y.shape()[1] > 1 && plane > 1 &&
         y.storage().can_be_packed() && is_at_home(y.storage());
}

Tensor pixels_to_write(const Tensor& y) {
  const Shape shape = pixels_shape(y.shape());
  return y.with_layout(contiguous_layout(shape));
}

void set_packed(const Tensor& y) { y.storage().set_packed(packing_of(y.shape())); }

Tensor channels_last(const Tensor& x) {
  StridedLayout layout = x.layout();
  layout.shape = pixels_shape(x.shape());
  for (int d = 2; d < x.rank(); ++d) layout.strides[d - 1] = x.strides()[d];
  layout.strides[x.rank() - 1] = x.strides()[1];
  return x.with_layout(layout);
}

}  // namespace tapegrad::backends::cuda
