#include "backends/cuda/device/spectra.h"

#include "backends/cuda/device/each.cuh"

namespace tapegrad::backends::cuda {
namespace {

template <typename T>
struct Scale {
  T* x;
  T factor;
  __device__ void operator()(int64_t i) const { x[i] *= factor; }
};

template <typename T>
struct RealEnds {
  const T* x;
  T* y;
  int64_t n, frequencies, width;  // width: numbers per frequency, 2 inner
  T factor;
  __device__ void operator()(int64_t i) const {
    const int64_t k = i / width % frequencies;
    const bool is_zero = i % 2 == 1 && (k == 0 || 2 * k == n);
    y[i] = is_zero ? T(0) : x[i] * factor;
  }
};

template <typename F>
void for_real(const Tensor& x, const F& f) {
  x.dtype() == f32 ? f(TypeTag<float>{}) : f(TypeTag<double>{});
}

}  // namespace

void scale(Tensor& x, double factor) {
  for_real(x, [&]<typename T>(TypeTag<T>) {
    for_each(x.numel(), x, Scale<T>{x.data<T>(), T(factor)});
  });
}

Tensor with_real_ends(const Tensor& x, int64_t n, double factor) {
  Tensor y = x.empty_like();
  for_real(x, [&]<typename T>(TypeTag<T>) {
    for_each(x.numel(), x,
             RealEnds<T>{x.data<T>(), y.data<T>(), n, x.shape()[1], x.shape()[2], T(factor)});
  });
  return y;
}

}  // namespace tapegrad::backends::cuda
