#include "backends/cuda/layout/number.h"

#include <bit>

#include "backends/cuda/layout/unpack.h"

namespace tapegrad::backends::cuda {
namespace {

std::byte* unpack(const Packing& packing, const TensorStorage& packed) {
  return unpack_at_home(packed, "a number is written to memory, and the host waits for that",
                        [&](std::byte* plain) {
                          store_number(std::bit_cast<uint64_t>(packing.batch), plain,
                                       int64_t(packed.bytes()), packed.device());
                        });
}

}  // namespace

void hold_number(const Tensor& y, uint64_t bits) {
  y.storage().set_packed({std::bit_cast<int64_t>(bits), 1, 1, 1, unpack});
}

std::optional<uint64_t> held_number(const Tensor& x, int64_t element) {
  if (!x.storage().is_packed() || x.storage().bytes() != size_t(element)) return {};
  const std::optional<TensorStorage::PackedValues> values = x.storage().packed();
  if (!values || values->packing.unpack != unpack) return {};
  return std::bit_cast<uint64_t>(values->packing.batch);
}

}  // namespace tapegrad::backends::cuda
