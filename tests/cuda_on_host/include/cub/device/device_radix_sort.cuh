// Stand-in for CUB's header with this name: the two-call protocol, with a stable sort.
#pragma once
#include <cuda_runtime.h>

#include <numeric>
#include <vector>

namespace cub {

struct DeviceRadixSort {
  /// Sorts by bits [begin_bit, end_bit) of unsigned keys.
  template <class K, class V, class N>
  static cudaError_t SortPairs(void* storage, std::size_t& bytes, const K* keys_in, K* keys_out,
                               const V* values_in, V* values_out, N n, int begin_bit = 0,
                               int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr) {
    static_assert(std::is_unsigned_v<K>);
    if (storage == nullptr) {
      bytes = 256;
      return cudaSuccess;
    }
    for (const void* p : {static_cast<const void*>(storage), static_cast<const void*>(keys_in),
                          static_cast<const void*>(keys_out), static_cast<const void*>(values_in),
                          static_cast<const void*>(values_out)})
      coh::check_argument(&p, sizeof(p), "operand of DeviceRadixSort");
    return coh::enqueue(stream, [=] {
      const K mask = (end_bit == int(sizeof(K)) * 8 ? ~K(0) : (K(1) << end_bit) - 1) &
                     ~((K(1) << begin_bit) - 1);
      std::vector<N> order(static_cast<std::size_t>(n));
      std::iota(order.begin(), order.end(), N(0));
      std::stable_sort(order.begin(), order.end(),
                       [&](N a, N b) { return (keys_in[a] & mask) < (keys_in[b] & mask); });
      for (N i = 0; i < n; ++i) {
        keys_out[i] = keys_in[order[std::size_t(i)]];
        values_out[i] = values_in[order[std::size_t(i)]];
      }
    });
  }
};

}  // namespace cub
