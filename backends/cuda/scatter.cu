#include "ops/scatter.h"

#include <thrust/copy.h>
#include <thrust/iterator/counting_iterator.h>

#include "backends/cuda/device/segments.cuh"
#include "backends/cuda/device/thrust.cuh"
#include "backends/cuda/register.h"
#include "backends/elementwise/binary.h"
#include "ops/internal/kernels/scatter.h"

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
      return combine<T>(source, keys, end_of(y), formulas::Mul{}, y);
    case Reduce::kAmax:
      return combine<T>(source, keys, end_of(y), formulas::Maximum{}, y);
    default:
      return combine<T>(source, keys, end_of(y), formulas::Minimum{}, y);
  }
}

/// Writes 1 where the element of source equals the extreme at its key, else 0; times share.
template <typename T>
struct IsExtreme {
  const T *source, *extremes, *share;  // share: null stands for 1
  const int64_t* keys;
  T* y;
  __device__ void operator()(int64_t i) const {
    const int64_t key = keys[i];
    const bool is_left_out = key == kNowhere;
    const T is_equal = !is_left_out && source[i] == extremes[key] ? T(1) : T(0);
    y[i] = share == nullptr || is_left_out ? is_equal : is_equal * share[key];
  }
};

template <typename T>
void count_extremes(const Tensor& source, const Tensor& extremes, const Tensor& index, int dim,
                    Tensor& counts) {
  const Tensor keys = targets_of(index, dim, counts), ones = source.empty_like();
  for_each(index.numel(), source,
           IsExtreme<T>{source.data<T>(), extremes.data<T>(), nullptr, keys.data<int64_t>(),
                        ones.data<T>()});
  combine<T>(ones, keys, end_of(counts), formulas::Add{}, counts);
}

template <typename T>
void share_extremes(const Tensor& source, const Tensor& extremes, const Tensor& share,
                    const Tensor& index, int dim, Tensor& dx) {
  const Tensor keys = targets_of(index, dim, share);
  for_each(index.numel(), source,
           IsExtreme<T>{source.data<T>(), extremes.data<T>(), share.data<T>(), keys.data<int64_t>(),
                        dx.data<T>()});
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
    combine<WordOf<sizeof(T)>>(source, targets_of(index, dim, y), end_of(y), Last{}, y);
  });
  set<kernels::scatter_reduce>(TypeList<float, double, uint8_t, int32_t, int64_t>{},
                               []<typename T>(TypeTag<T>, auto&... a) { scatter_reduce<T>(a...); });
  set<kernels::count_extremes>(TypeList<float, double>{},
                               []<typename T>(TypeTag<T>, auto&... a) { count_extremes<T>(a...); });
  set<kernels::share_extremes>(TypeList<float, double>{},
                               []<typename T>(TypeTag<T>, auto&... a) { share_extremes<T>(a...); });
  set<kernels::nonzero>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { nonzero<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
