#include "ops/scatter.h"

#include <thrust/copy.h>
#include <thrust/iterator/counting_iterator.h>

#include "backends/cuda/device/segments.cuh"
#include "backends/cuda/device/thrust.cuh"
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

/// Predicate: element i has a bit of `bits`.
template <typename W>
struct HasBits {
  const W* x;
  W bits;
  __device__ bool operator()(int64_t i) const { return (x[i] & bits) != 0; }
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

/// bits: those that a nonzero element has; all but the sign of a float.
template <typename W>
void positions_of(const Tensor& x, W bits, Tensor& positions) {
  run_thrust(x, [to = positions.data<int64_t>(), has_bits = HasBits<W>{x.data<W>(), bits},
                 count = x.numel()](const auto& policy) {
    const thrust::counting_iterator<int64_t> first(0);
    thrust::copy_if(policy, first, first + count, to, has_bits);
  });
}

template <typename T>
void nonzero(const Tensor& x, Tensor& positions) {
  using W = WordOf<sizeof(T)>;
  positions_of<W>(x, kIsFloat<T> ? W(W(~W(0)) >> 1) : W(~W(0)), positions);
}

}  // namespace

void register_scatter() {
  set<kernels::scatter>(kAllTypes, []<typename T>(TypeTag<T>, const Tensor& source,
                                                  const Tensor& index, int dim, Tensor& y) {
    combine<WordOf<sizeof(T)>>(source, targets_of(index, dim, y), y.numel(), Last{}, y);
  });
  set<kernels::scatter_reduce>(TypeList<float, double, uint8_t, int32_t, int64_t>{},
                               []<typename T>(TypeTag<T>, auto&... a) { scatter_reduce<T>(a...); });
  set<kernels::nonzero>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { nonzero<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
