// Calls f(i) for i = 0 ... count - 1 on the device, in any order: for kernels that are neither
// elementwise nor reductions. f is a struct of pointers and numbers.
#pragma once

#include "backends/cuda/device/launch.cuh"

namespace tapegrad::backends::cuda {

template <typename F>
__global__ void __launch_bounds__(kThreads) each_kernel(int64_t count, F f) {
  for (int64_t i = first_item(); i < count; i += item_step()) f(i);
}

/// Runs on the device of y.
template <typename F>
void for_each(int64_t count, const Tensor& y, const F& f) {
  if (count > 0) launch(threads_for(count, y), &each_kernel<F>, count, f);
}

}  // namespace tapegrad::backends::cuda
