// Stand-in for the backend's header with this name: Thrust's own algorithms, executed by its C++
// system as work of the stream.
#pragma once

#include <cuda_runtime.h>
#include <thrust/system/cpp/execution_policy.h>

#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

template <typename Algorithm>
void run_thrust(const Tensor& y, const Algorithm& algorithm) {
  static_assert(std::is_trivially_copyable_v<Algorithm>, "an algorithm may run later");
  Algorithm copy = algorithm;
  if (coh::clear_padding<Algorithm>(&copy))
    coh::check_argument(&copy, sizeof(copy), "operand of Thrust");
  TG_CUDA(coh::enqueue(stream_of(y), [algorithm] { algorithm(thrust::cpp::par); }));
}

}  // namespace tapegrad::backends::cuda
