#include "ops/resample.h"

#include <algorithm>

#include "backends/cpu/register.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kParallel = 32768;  // elements that justify a second thread

// One thread computes each sum, in the order of the taps, so results do not depend on the number of
// threads.

template <typename T>
void resample(const Tensor& x, const Taps& taps, Tensor& y) {
  using Wide = Compute<T>;
  const int64_t inner = x.shape()[2], n = x.shape()[1], results = taps.results();
  const int64_t rows = x.shape()[0] * results;
#pragma omp parallel for if (y.numel() > kParallel)
  for (int64_t row = 0; row < rows; ++row) {
    const T* from = x.data<T>() + row / results * n * inner;
    T* to = y.data<T>() + row * inner;
    const int64_t i = row % results;
    for (int64_t j = 0; j < inner; ++j) {
      Wide sum = 0;
      for (int64_t k = 0; k < taps.count; ++k) {
        const size_t tap = size_t(k * results + i);
        sum += Wide(taps.weight[tap]) * Wide(from[taps.index[tap] * inner + j]);
      }
      to[j] = T(sum);
    }
  }
}

template <typename T>
void adjoint(const Tensor& y, const Taps& taps, Tensor& x) {
  const int64_t inner = x.shape()[2], n = x.shape()[1], results = taps.results();
#pragma omp parallel for if (y.numel() > kParallel)
  for (int64_t o = 0; o < x.shape()[0]; ++o) {
    const T* from = y.data<T>() + o * results * inner;
    T* to = x.data<T>() + o * n * inner;
    std::fill_n(to, n * inner, T(0));
    for (int64_t i = 0; i < results; ++i)
      for (int64_t k = 0; k < taps.count; ++k) {
        const size_t tap = size_t(k * results + i);
        const T weight = T(taps.weight[tap]);
        T* row = to + taps.index[tap] * inner;
        for (int64_t j = 0; j < inner; ++j) row[j] += weight * from[i * inner + j];
      }
  }
}

template <typename T>
void resample_adjoint(const Tensor& y, const Taps& taps, Tensor& x) {
  Tensor sums = Tensor::empty(x.shape(), f32);
  adjoint<float>(y.to(f32), taps, sums);
  kernels::copy(sums, x);
}

}  // namespace

void register_sample() {
  set<kernels::resample>(kFloatTypes, []<typename T>(Type<T>, auto&... a) { resample<T>(a...); });
  set<kernels::resample_adjoint>(TypeList<float, double>{},
                                 []<typename T>(Type<T>, auto&... a) { adjoint<T>(a...); });
  // Sixteen-bit floats are summed in float32 and rounded once.
  set<kernels::resample_adjoint>(
      TypeList<float16, bfloat16>{},
      []<typename T>(Type<T>, auto&... a) { resample_adjoint<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
