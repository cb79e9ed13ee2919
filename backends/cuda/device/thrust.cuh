// Thrust's algorithms in the current stream, with scratch memory of the caching allocator. Results
// must not depend on timing, so Thrust computes only what is exact in any order: sums of whole
// numbers, selections and sequences.
#pragma once

#include <thrust/system/cuda/execution_policy.h>

#include <vector>

#include "backends/cuda/runtime/stream.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Memory that an algorithm borrows. Freed blocks are reused in the order of the stream, so nothing
/// waits for the algorithm.
class Scratch {
 public:
  using value_type = char;

  explicit Scratch(Device device) : device_(device) {}
  char* allocate(std::ptrdiff_t bytes) {
    blocks_.push_back(Tensor::empty({bytes}, u8, device_));
    return reinterpret_cast<char*>(blocks_.back().data<uint8_t>());
  }
  void deallocate(char*, size_t) {}

 private:
  Device device_;
  std::vector<Tensor> blocks_;
};

/// Calls algorithm(policy), which passes the policy to Thrust. The algorithm is copied and may run
/// later: it holds pointers and numbers by value. Algorithms without a result do not wait for the
/// device and may be recorded in a graph; those that return an iterator wait.
template <typename Algorithm>
void run_thrust(const Tensor& y, const Algorithm& algorithm) {
  Scratch scratch(y.device());
  algorithm(thrust::cuda::par_nosync(scratch).on(stream_of(y)));
}

}  // namespace tapegrad::backends::cuda
