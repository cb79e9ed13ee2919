// Number sequences. Every element is computed from its index.
#include "ops/create.h"

#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/register.h"

namespace tapegrad::backends::cuda {
namespace {

template <typename T, typename V>
struct Steps {
  T* y;
  V start, step;
  __device__ void operator()(int64_t i) const {
    if constexpr (std::is_same_v<V, double>)
      y[i] = narrow<T>(convert<Compute<T>>(start + double(i) * step));
    else  // unsigned, because i * step may exceed 2^63 even if the sum does not
      y[i] = narrow<T>(convert<Compute<T>>(int64_t(start + uint64_t(i) * step)));
  }
};

/// Computed from the nearer end, so that both ends are exact.
template <typename T>
struct Between {
  T* y;
  double start, end, step;
  int64_t last;
  __device__ void operator()(int64_t i) const {
    const double value = 2 * i <= last ? start + double(i) * step : end - double(last - i) * step;
    y[i] = narrow<T>(convert<Compute<T>>(value));
  }
};

template <typename T>
void arange(Tensor& y, Number start, Number step) {
  if (start.kind() == f64 || step.kind() == f64)
    for_each(y.numel(), y, Steps<T, double>{y.data<T>(), start.real(), step.real()});
  else
    for_each(y.numel(), y,
             Steps<T, uint64_t>{y.data<T>(), uint64_t(start.to<int64_t>()),
                                uint64_t(step.to<int64_t>())});
}

template <typename T>
void linspace(Tensor& y, double start, double end) {
  const int64_t last = y.numel() - 1;
  const double step = last > 0 ? (end - start) / double(last) : 0;
  for_each(y.numel(), y, Between<T>{y.data<T>(), start, end, step, last});
}

}  // namespace

void register_create() {
  set<kernels::arange>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { arange<T>(a...); });
  set<kernels::linspace>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { linspace<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
