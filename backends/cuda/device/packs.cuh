// Packs at addresses that need not be aligned for packs, and that may end early.
#pragma once

#include <cstdint>

#include "backends/cuda/layout/pack.h"

namespace tapegrad::backends::cuda {

template <typename T, int kCount>
__device__ bool is_aligned_for_pack(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % sizeof(Pack<T, kCount>) == 0;
}

/// Loads `count` elements; the others are 0.
template <int kCount, typename T>
__device__ Pack<T, kCount> load_pack(const T* from, int count) {
  if (count == kCount && is_aligned_for_pack<T, kCount>(from))
    return *reinterpret_cast<const Pack<T, kCount>*>(from);
  Pack<T, kCount> pack;
  for (int i = 0; i < kCount; ++i) pack.v[i] = i < count ? from[i] : T{};
  return pack;
}

/// Stores the first `count` elements.
template <typename T, int kCount>
__device__ void store_pack(T* to, const Pack<T, kCount>& pack, int count) {
  if (count == kCount && is_aligned_for_pack<T, kCount>(to)) {
    *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
    return;
  }
  for (int i = 0; i < kCount; ++i)
    if (i < count) to[i] = pack.v[i];
}

}  // namespace tapegrad::backends::cuda
