// Search for the first invalid element of an argument. Waits for the device. While a graph is
// recorded, the check becomes part of the graph, and its result is examined before a later run.
#pragma once

#include "backends/cuda/device/reduce_frame.cuh"
#include "backends/cuda/runtime/copy.h"

namespace tapegrad::backends::cuda {

/// Reducer for the first position where wrong(x[i]) holds.
template <typename T, typename Wrong>
struct FirstOf {
  using Part = int64_t;
  const T* x;
  int64_t* y;  // output: the position and the bits of the element there
  int64_t count;
  Wrong wrong;
  bool only_if_found;

  __device__ static Part first() { return std::numeric_limits<int64_t>::max(); }
  __device__ Part add(Part part, int64_t at, int64_t) const {
    return at < part && wrong(widen(x[at])) ? at : part;
  }
  __device__ static Part merge(Part a, Part b) { return a < b ? a : b; }
  __device__ void finish(int64_t, Part part) const {
    if (only_if_found && part >= count) return;
    y[0] = part < count ? part : -1;
    y[1] = 0;
    if (part < count) {
      const Compute<T> value = widen(x[part]);
      memcpy(y + 1, &value, sizeof(value));
    }
  }
};

template <typename V>
struct Offender {
  int64_t index = -1;  // -1: no such element
  V value{};
};

/// Returns the first element of a contiguous x for which wrong(x[i]) holds.
template <typename T, typename Wrong>
Offender<Compute<T>> find_first(const Tensor& x, const Wrong& wrong) {
  Offender<Compute<T>> found;
  if (x.numel() == 0) return found;
  const Tensor line = x.with_layout({{x.numel()}, {1}, x.layout().offset});
  const Tensor result = Tensor::empty({2}, i64, x.device());
  int64_t* verdict = recorded_verdict();
  reduce(FirstOf<T, Wrong>{x.data<T>(), verdict != nullptr ? verdict : result.data<int64_t>(),
                           x.numel(), wrong, verdict != nullptr},
         line, result.with_layout({{1}, {1}, 0}));
  if (verdict != nullptr) return found;
  int64_t host[2];
  copy_to_host(result, host);
  found.index = host[0];
  memcpy(&found.value, host + 1, sizeof(found.value));
  return found;
}

}  // namespace tapegrad::backends::cuda
