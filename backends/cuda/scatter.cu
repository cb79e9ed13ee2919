#include "ops/scatter.h"

#include "backends/cuda/device/scan.cuh"
#include "backends/cuda/device/segments.cuh"
#include "backends/cuda/register.h"
#include "backends/elementwise/binary.h"

namespace tapegrad::backends::cuda {
namespace {

struct Last {
  template <typename V>
  __device__ V operator()(V, V b) const {
    return b;
  }
};

/// The number of nonzero elements so far: the position of a nonzero element in the result.
template <typename T>
struct NotZero {
  using State = int64_t;
  static constexpr bool kOneByOne = false;
  const T* x;
  int64_t* positions;

  __device__ State none() const { return 0; }
  __device__ State load(int64_t at, int64_t) const { return widen(x[at]) != Compute<T>(0); }
  __device__ State merge(State a, State b) const { return a + b; }
  __device__ void store(int64_t at, State state) const {
    if (widen(x[at]) != Compute<T>(0)) positions[state - 1] = at;
  }
};

template <typename T>
void scatter_reduce(const Tensor& source, const Tensor& index, int dim, Reduce reduce, Tensor& y) {
  const Tensor keys = targets_of(index, dim, y);
  switch (reduce) {
    case Reduce::kProd:
      return combine<T>(source, keys, y.numel(), formulas::Mul{}, y);
    case Reduce::kAmax:
      return combine<T>(source, keys, y.numel(), formulas::Maximum{}, y);
    default:
      return combine<T>(source, keys, y.numel(), formulas::Minimum{}, y);
  }
}

template <typename T>
void nonzero(const Tensor& x, Tensor& positions) {
  const int64_t n = x.numel();
  run_scan(NotZero<T>{x.data<T>(), positions.data<int64_t>()},
           x.with_layout({{1, n, 1}, {n, 1, 1}, x.layout().offset}));
}

}  // namespace

void register_scatter() {
  set<kernels::scatter>(kAllTypes, []<typename T>(Type<T>, const Tensor& source,
                                                  const Tensor& index, int dim, Tensor& y) {
    combine<WordOf<sizeof(T)>>(source, targets_of(index, dim, y), y.numel(), Last{}, y);
  });
  set<kernels::scatter_reduce>(TypeList<float, double, uint8_t, int32_t, int64_t>{},
                               []<typename T>(Type<T>, auto&... a) { scatter_reduce<T>(a...); });
  set<kernels::nonzero>(kAllTypes, []<typename T>(Type<T>, auto&... a) { nonzero<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
