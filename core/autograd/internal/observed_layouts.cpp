#include "core/autograd/internal/observed_layouts.h"

#include <algorithm>

#include "core/autograd/internal/segment_rows.h"

namespace tapegrad {
namespace {

std::optional<Packing> packing_of(const Tensor& x) {
  const auto values = x.storage().packed();
  return values ? std::optional(values->packing) : std::nullopt;
}

/// Whether x is the whole of a packed storage, or of one that may be packed.
bool is_whole(const Tensor& x) {
  return x.is_contiguous() && size_t(x.numel() * size_of(x.dtype())) == x.storage().bytes();
}

/// Whether x has one element for each channel of each image of the shape, or for several of them.
bool is_constant_in_channels(const Tensor& x, const Shape& shape) {
  if (x.rank() > shape.rank()) return false;
  const int skipped = shape.rank() - x.rank();
  for (int dim = 0; dim < x.rank(); ++dim) {
    const int64_t size = x.shape()[dim];
    if (size != 1 && (skipped + dim >= 2 ? x.strides()[dim] != 0 : size != shape[skipped + dim]))
      return false;
  }
  return true;
}

}  // namespace

bool is_same_order(const Packing& a, const Packing& b) {
  return a.size == b.size && a.block == b.block && a.batch * a.channels == b.batch * b.channels;
}

Tensor in_memory_order(const Tensor& x, const Shape& result, const Packing& packing) {
  if (x.numel() == 1) return x;
  const int64_t blocks = packing.channels / packing.block;
  const Shape shape{packing.batch, blocks, packing.size, packing.block};
  if (x.numel() == numel(result) && x.is_contiguous())
    return x.with_layout({shape, contiguous_strides(shape), x.layout().offset});
  const Strides strides = broadcast_strides(x.layout(), result);
  const int64_t image = result[0] == 1 ? 0 : strides[0], channel = result[1] == 1 ? 0 : strides[1];
  return x.with_layout(
      {shape, Strides{image, packing.block * channel, 0, channel}, x.layout().offset});
}

ObservedLayouts::ObservedLayouts(const StepCall& step) {
  each_tensor(*step.call, [&](Tensor& x, bool) { before_.push_back(packing_of(x)); });
}

void ObservedLayouts::finish(StepCall& step) const {
  step.packing = common(*step.call);
  step.takes_packed = false;
  step.packed.clear();
  step.unpacks.clear();
  size_t next = 0;
  each_tensor(*step.call, [&](Tensor& x, bool) {
    if (!before_[next++]) return;
    step.packed.push_back(&x.storage());
    if (!x.storage().is_packed())
      step.unpacks.push_back(&x.storage());
    else if (!step.packing)
      step.takes_packed = true;
  });
}

/// Returns the layout of the result if the call is elementwise and divisible in memory order.
std::optional<Packing> ObservedLayouts::common(RecordedCall& call) const {
  if (call.parts() != Parts::kElements || has_draws(call)) return {};
  const Tensor result = result_of(call);
  if (!result || result.rank() < 3 || !is_whole(result)) return {};
  const std::optional<Packing> packing = packing_of(result);
  const Shape& shape = result.shape();
  if (!packing || packing->size == 1 || packing->batch != shape[0] ||
      packing->channels != shape[1] || packing->channels % packing->block != 0)
    return {};
  bool is_possible = true;
  size_t next = 0;
  each_tensor(call, [&](Tensor& x, bool is_written) {
    const std::optional<Packing>& before = before_[next++];
    if (is_written) {
      is_possible &= x.shares_storage(result);
    } else if (x.numel() == result.numel() && x.is_contiguous()) {
      is_possible &=
          before && is_same_order(*before, *packing) && is_whole(x) && x.storage().is_packed();
    } else {
      is_possible &= x.numel() == 1 || is_constant_in_channels(x, shape);
    }
  });
  return is_possible ? packing : std::nullopt;
}

}  // namespace tapegrad
