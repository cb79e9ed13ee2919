#include "ops/scatter.h"

#include "backends/cuda/register.h"
#include "backends/cuda/segments.cuh"
#include "backends/elementwise/binary.h"

namespace tapegrad::backends::cuda {
namespace {

struct Last {
  template <typename V>
  __device__ V operator()(V, V b) const {
    return b;
  }
};

template <typename T>
struct IsZero {
  const T* x;
  int64_t* y;
  __device__ void operator()(int64_t i) const { y[i] = widen(x[i]) == Compute<T>(0); }
};

/// As many of the first numbers as y has.
struct Head {
  const int64_t* x;
  int64_t* y;
  __device__ void operator()(int64_t i) const { y[i] = x[i]; }
};

}  // namespace

void register_scatter() {
  set<kernels::scatter>(kAllTypes, []<typename T>(Type<T>, const Tensor& source,
                                                  const Tensor& index, int dim, Tensor& y) {
    combine<WordOf<sizeof(T)>>(source, targets_of(index, dim, y), y.numel(), Last{}, y);
  });
  set<kernels::scatter_reduce>(
      TypeList<float, double, uint8_t, int32_t, int64_t>{},
      []<typename T>(Type<T>, const Tensor& source, const Tensor& index, int dim, Reduce reduce,
                     Tensor& y) {
        const Tensor keys = targets_of(index, dim, y);
        switch (reduce) {
          case Reduce::kProd:
            return combine<T>(source, keys, y.numel(), formulas::Mul{}, y);
          case Reduce::kAmax:
            return combine<T>(source, keys, y.numel(), formulas::Maximum{}, y);
          default:
            return combine<T>(source, keys, y.numel(), formulas::Minimum{}, y);
        }
      });
  // A stable sort by whether an element is zero puts the others first, in their order.
  set<kernels::nonzero>(kAllTypes, []<typename T>(Type<T>, const Tensor& x, Tensor& positions) {
    const Tensor keys = Tensor::empty({x.numel()}, i64, x.device());
    for_each(x.numel(), x, IsZero<T>{x.data<T>(), keys.data<int64_t>()});
    const Sorted sorted = sort_keys(keys, 1);
    for_each(positions.numel(), positions,
             Head{sorted.order.data<int64_t>(), positions.data<int64_t>()});
  });
}

}  // namespace tapegrad::backends::cuda
