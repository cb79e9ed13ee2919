// Resampling along the middle of three dimensions.
#include "ops/resample.h"

#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/register.h"
#include "backends/cuda/runtime/copy.h"

namespace tapegrad::backends::cuda {
namespace {

/// Each result i is the weighted sum of elements first[i] ... first[i + 1] - 1 of the two lists.
struct WeightedSums {
  std::vector<int64_t> first, index;
  std::vector<double> weight;
};

WeightedSums sums_of(const Taps& taps) {
  WeightedSums sums{{0}, {}, {}};
  for (int64_t i = 0; i < taps.results(); ++i) {
    for (int64_t k = 0; k < taps.count; ++k) {
      sums.index.push_back(taps.index[size_t(k * taps.results() + i)]);
      sums.weight.push_back(taps.weight[size_t(k * taps.results() + i)]);
    }
    sums.first.push_back(int64_t(sums.index.size()));
  }
  return sums;
}

/// Returns the sums of the adjoint: for every element, the results to which the element
/// contributes, in order.
WeightedSums adjoint_of(const Taps& taps, int64_t n) {
  std::vector<std::vector<std::pair<int64_t, double>>> of(static_cast<size_t>(n));
  for (int64_t i = 0; i < taps.results(); ++i)
    for (int64_t k = 0; k < taps.count; ++k) {
      const size_t tap = size_t(k * taps.results() + i);
      of[size_t(taps.index[tap])].emplace_back(i, taps.weight[tap]);
    }
  WeightedSums sums{{0}, {}, {}};
  for (const auto& list : of) {
    for (const auto& [i, weight] : list) {
      sums.index.push_back(i);
      sums.weight.push_back(weight);
    }
    sums.first.push_back(int64_t(sums.index.size()));
  }
  return sums;
}

template <typename T>
struct Sum {
  const T* x;
  T* y;
  const int64_t *first, *index;
  const double* weight;
  int64_t n, results, inner;  // x is [outer, n, inner], y [outer, results, inner]
  __device__ void operator()(int64_t i) const {
    const int64_t column = i % inner, result = i / inner % results, outer = i / inner / results;
    Compute<T> sum = 0;
    for (int64_t k = first[result]; k < first[result + 1]; ++k)
      sum += Compute<T>(weight[k]) * widen(x[(outer * n + index[k]) * inner + column]);
    y[i] = narrow<T>(sum);
  }
};

template <typename E>
Tensor on_device(const std::vector<E>& values, const Tensor& where) {
  Tensor y = Tensor::empty({int64_t(values.size())}, kDTypeOf<E>, where.device());
  if (!values.empty()) copy_from_host(values.data(), y);
  return y;
}

template <typename T>
void weigh(const Tensor& x, const WeightedSums& sums, Tensor& y) {
  const Tensor first = on_device(sums.first, x), index = on_device(sums.index, x);
  const Tensor weight = on_device(sums.weight, x);
  for_each(y.numel(), y,
           Sum<T>{x.data<T>(), y.data<T>(), first.data<int64_t>(), index.data<int64_t>(),
                  weight.data<double>(), x.shape()[1], y.shape()[1], x.shape()[2]});
}

}  // namespace

void register_sample() {
  set<kernels::resample>(kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, const Taps& taps,
                                                     Tensor& y) { weigh<T>(x, sums_of(taps), y); });
  set<kernels::resample_adjoint>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& y, const Taps& taps, Tensor& x) {
        weigh<T>(y, adjoint_of(taps, x.shape()[1]), x);
      });
}

}  // namespace tapegrad::backends::cuda
