#include "backends/cpu/fast/packed.h"

#include "backends/cpu/dnnl/dnnl.h"
#include "core/base/allocator.h"
#include "ops/conv.h"

namespace tapegrad::backends::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::desc description(const Packing& p, size_t element, bool packed) {
  const auto type = element == 2 ? memory::data_type::bf16 : memory::data_type::f32;
  const Tag tag = !packed ? Tag::nchw : p.block == 16 ? Tag::nChw16c : Tag::nChw8c;
  return memory::desc({p.batch, p.channels, p.size, 1}, type, tag);
}

/// oneDNN moves words, which may also be integers.
void reorder(const memory::desc& from, const std::byte* source, const memory::desc& to,
             std::byte* target) {
  with_dnnl("conv2d", [&] {
    const auto view = [](const memory::desc& desc, const std::byte* data) {
      return memory(desc, dnnl_engine(), const_cast<std::byte*>(data));
    };
    memory in = view(from, source), out = view(to, target);
    dnnl::reorder(in, out).execute(dnnl_stream(), in, out);
    dnnl_stream().wait();
  });
}

std::byte* unpack(const Packing& packing, const TensorStorage& packed) {
  Allocator& memory = allocator(DeviceType::kCpu);
  auto* plain = static_cast<std::byte*>(memory.allocate(packed.bytes(), packed.device()));
  const size_t element = packed.bytes() / size_t(packing.batch * packing.channels * packing.size);
  try {
    reorder(description(packing, element, true), packed.data(),
            description(packing, element, false), plain);
  } catch (...) {
    memory.deallocate(plain, packed.bytes(), packed.device());
    throw;
  }
  return plain;
}

bool is_whole(const Tensor& x) {
  const size_t element = size_t(size_of(x.dtype()));
  return x.is_contiguous() && (element == 4 || x.dtype() == bf16) &&
         size_t(x.numel()) * element == x.storage().bytes();
}

}  // namespace

bool is_packable(DType dtype) { return dtype == f32 || (dtype == bf16 && multiplies_bfloat16()); }

std::optional<PackedValues> packed_values(const Tensor& x) {
  if (!x || !x.storage().is_packed() || !is_whole(x) || x.rank() < 3) return {};
  std::optional<PackedValues> values = x.storage().packed();
  if (!values) return values;
  // x may divide the memory into other images and channels, if each block stays one block.
  const Packing& from = values->packing;
  const Packing to = packing_of(x.shape(), from.block);
  if (to.size != from.size || to.batch * to.channels != from.batch * from.channels ||
      to.channels % to.block != 0)
    return {};
  values->packing = to;
  return values;
}

PackedValues pack(const Tensor& x, const Packing& packing) {
  const Tensor packed = x.empty_like();
  const size_t element = size_t(size_of(x.dtype()));
  reorder(description(packing, element, false), x.storage().data(),
          description(packing, element, true), packed.storage().data());
  return {RefPtr<TensorStorage>::share(&packed.storage()), packing};
}

bool may_be_packed(const Tensor& y) {
  return conv_layout() == ConvLayout::kBlocked && y.numel() >= kPackedElements && is_whole(y) &&
         y.storage().can_be_packed();
}

bool can_be_packed(const Tensor& y, int64_t block) {
  return y.rank() >= 3 && y.shape()[1] % block == 0 && may_be_packed(y);
}

Packing packing_of(const Shape& shape, int64_t block) {
  return {shape[0], shape[1], numel(shape) / (shape[0] * shape[1]), block, unpack};
}

}  // namespace tapegrad::backends::cpu
