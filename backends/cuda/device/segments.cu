#include "backends/cuda/device/segments.h"

#include <thrust/sequence.h>

#include <cub/device/device_radix_sort.cuh>

#include <bit>

#include "backends/cuda/device/running_sums.cuh"
#include "backends/cuda/device/thrust.cuh"
#include "backends/cuda/runtime/api.h"

namespace tapegrad::backends::cuda {
namespace {

struct ElementOfKey {
  const int64_t *keys, *order;
  const uint64_t* source;
  TG_HD RangeSum operator()(int64_t i) const {
    return {source[order[i]], uint64_t(i == 0 || keys[i] != keys[i - 1])};
  }
};

}  // namespace

Sorted sort_again(const Tensor& keys, const Tensor& order, int bits) {
  Sorted sorted{keys.empty_like(), order.empty_like()};
  const int64_t count = keys.numel();
  if (count == 0) return sorted;
  const cudaStream_t stream = stream_of(keys);
  const auto sort = [&](void* storage, size_t& bytes) {
    TG_CUDA(cub::DeviceRadixSort::SortPairs(
        storage, bytes, reinterpret_cast<const uint64_t*>(keys.data<int64_t>()),
        reinterpret_cast<uint64_t*>(sorted.keys.data<int64_t>()), order.data<int64_t>(),
        sorted.order.data<int64_t>(), count, 0, bits, stream));
  };
  size_t bytes = 0;
  sort(nullptr, bytes);
  const Tensor storage = Tensor::empty({int64_t(bytes)}, u8, keys.device());
  sort(storage.data<uint8_t>(), bytes);
  return sorted;
}

Sorted sort_keys(const Tensor& keys, int bits) {
  const Tensor order = keys.empty_like();
  run_thrust(order, [first = order.data<int64_t>(), count = order.numel()](const auto& policy) {
    thrust::sequence(policy, first, first + count);
  });
  return sort_again(keys, order, bits);
}

Tensor running_sums(const Sorted& sorted, const Tensor& source) {
  const Tensor sums = sorted.keys.empty_like();
  const ElementOfKey load{sorted.keys.data<int64_t>(), sorted.order.data<int64_t>(),
                          reinterpret_cast<const uint64_t*>(source.data<int64_t>())};
  run_thrust(sums,
             [load, to = reinterpret_cast<uint64_t*>(sums.data<int64_t>()),
              count = sums.numel()](const auto& policy) { running_sums(policy, count, load, to); });
  return sums;
}

int bits_for(int64_t bound) { return std::max(1, int(std::bit_width(uint64_t(bound)))); }

}  // namespace tapegrad::backends::cuda
