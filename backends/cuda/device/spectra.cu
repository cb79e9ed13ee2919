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
struct ScaleSpectra {
  const T* x;
  T* y;
  int64_t n, frequencies, width;  // width: numbers per frequency, 2 inner
  T factor, of_ends;
  bool real_ends;
  __device__ void operator()(int64_t i) const {
    const int64_t k = i / width % frequencies;
    const bool is_end = k == 0 || 2 * k == n;
    y[i] = is_end && real_ends && i % 2 == 1 ? T(0) : x[i] * (is_end ? of_ends : factor);
  }
};

template <typename F>
void for_real(const Tensor& x, const F& f) {
  x.dtype() == f32 ? f(TypeTag<float>{}) : f(TypeTag<double>{});
}

void scale_spectra(const Tensor& x, int64_t n, double factor, double ends, bool real_ends,
                   Tensor& y) {
  for_real(x, [&]<typename T>(TypeTag<T>) {
    for_each(x.numel(), x,
             ScaleSpectra<T>{x.data<T>(), y.data<T>(), n, x.shape()[1], x.shape()[2], T(factor),
                             T(factor * ends), real_ends});
  });
}

}  // namespace

void scale(Tensor& x, double factor) {
  for_real(x, [&]<typename T>(TypeTag<T>) {
    for_each(x.numel(), x, Scale<T>{x.data<T>(), T(factor)});
  });
}

void scale_spectra(Tensor& x, int64_t n, double factor, double ends) {
  scale_spectra(x, n, factor, ends, /*real_ends=*/false, x);
}

Tensor with_real_ends(const Tensor& x, int64_t n, double factor, double ends) {
  Tensor y = x.empty_like();
  scale_spectra(x, n, factor, ends, /*real_ends=*/true, y);
  return y;
}

}  // namespace tapegrad::backends::cuda
