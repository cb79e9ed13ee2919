// Pack: a vector of elements that is loaded or stored at once. A file of its own, which the
// stand-in replaces to count its accesses (tests/cuda_on_host/traffic).
#pragma once

namespace tapegrad::backends::cuda {

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T v[kCount];
};

}  // namespace tapegrad::backends::cuda
