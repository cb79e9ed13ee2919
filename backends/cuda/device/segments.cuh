// Combination of elements with equal destination, by one thread, in order.
#pragma once

#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/device/segments.h"
#include "backends/cuda/layout/reduce_plan.h"

namespace tapegrad::backends::cuda {

inline constexpr int64_t kNowhere = -1;  // key of an element that is left out

/// Maps row-major index i of a shape to an offset, with stride 0 for dimension dim.
inline Nest nest_without(const Shape& shape, const Strides& steps, int dim) {
  Nest nest;
  nest.rank = shape.rank();
  for (int d = 0; d < shape.rank(); ++d) {
    nest.sizes[d] = shape[d];
    nest.steps[d] = d == dim ? 0 : steps[d];
  }
  return nest;
}

/// keys[i] = the offset in y of the element that index[i] refers to along dim.
struct Targets {
  const int64_t* index;
  int64_t* keys;
  Nest nest;
  int64_t step, size;  // indices out of range are left out: a graph checks indices without waiting
  __device__ void operator()(int64_t i) const {
    const int64_t at = index[i];
    keys[i] = at >= 0 && at < size ? nest.offset(i) + at * step : kNowhere;
  }
};
inline Tensor targets_of(const Tensor& index, int dim, const Tensor& y) {
  const Tensor keys = Tensor::empty({index.numel()}, i64, index.device());
  for_each(
      index.numel(), index,
      Targets{index.data<int64_t>(), keys.data<int64_t>(),
              nest_without(index.shape(), y.strides(), dim), y.strides()[dim], y.shape()[dim]});
  return keys;
}

/// Applies rule to y[key] and each source with this key, in order: y[key] = rule(y[key], source).
template <typename T, typename Rule>
struct CombineSegment {
  const T* source;
  const int64_t *keys, *order;
  T* y;
  int64_t count;
  Rule rule;
  __device__ void operator()(int64_t i) const {
    const int64_t key = keys[i];
    if (key == kNowhere || (i > 0 && keys[i - 1] == key)) return;
    auto value = widen(y[key]);
    for (; i < count && keys[i] == key; ++i) value = rule(value, widen(source[order[i]]));
    y[key] = narrow<T>(value);
  }
};

/// Returns a number above the offsets of y's elements from the first one; y may be a part of a
/// tensor.
inline int64_t end_of(const Tensor& y) {
  int64_t last = 0;
  for (int i = 0; i < y.rank(); ++i) last += (y.shape()[i] - 1) * y.strides()[i];
  return last + 1;
}

/// keys are offsets from y's first element, below `bound`, or kNowhere.
template <typename T, typename Rule>
void combine(const Tensor& source, const Tensor& keys, int64_t bound, const Rule& rule, Tensor& y) {
  const Sorted sorted = sort_keys(keys, bits_for(bound));
  for_each(keys.numel(), y,
           CombineSegment<T, Rule>{source.data<T>(), sorted.keys.data<int64_t>(),
                                   sorted.order.data<int64_t>(), y.data<T>(), keys.numel(), rule});
}

}  // namespace tapegrad::backends::cuda
