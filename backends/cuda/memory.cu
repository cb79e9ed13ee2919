// Kernels of core: fill, copy with conversion, accumulate.
#include "backends/cuda/device/map.cuh"
#include "backends/cuda/device/reduce_frame.cuh"
#include "backends/cuda/device/reducers.cuh"
#include "backends/cuda/device/segments.cuh"
#include "backends/cuda/layout/number.h"
#include "backends/cuda/layout/transpose.h"
#include "backends/cuda/register.h"
#include "backends/elementwise/binary.h"
#include "core/dispatch/internal/hold_number.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cuda {
namespace {

/// A formula that gives the same value for all elements.
template <typename V>
struct Constant {
  V value;
  __device__ V operator()() const { return value; }
};

struct Same {
  template <typename V>
  __device__ V operator()(V x) const {
    return x;
  }
};

template <typename To>
struct Convert {
  template <typename V>
  __device__ Compute<To> operator()(V x) const {
    return convert<Compute<To>>(x);
  }
};

template <typename T>
void fill(Tensor& y, T value) {
  using W = WordOf<sizeof(T)>;
  map<W>(Constant<W>{std::bit_cast<W>(value)}, y);
}

struct StoreBytes {
  uint64_t bits;
  std::byte* y;
  __device__ void operator()(int64_t i) const { y[i] = std::byte((bits >> (8 * i)) & 0xff); }
};

/// Values that are only moved keep their bits.
template <typename T>
void copy(const Tensor& x, Tensor& y) {
  if (x.dtype() == y.dtype()) {
    const bool packed = x.storage().is_packed() || y.storage().is_packed();
    if (!packed && copy_transposed(x, y)) return;
    return map<WordOf<sizeof(T)>>(Same{}, y, x);
  }
  with_type(y.dtype(), [&]<typename To>(TypeTag<To>) { map<To, T>(Convert<To>{}, y, x); });
}

/// keys[i] = the offset of element i of a strided tensor.
struct Offsets {
  int64_t* keys;
  Nest nest;
  __device__ void operator()(int64_t i) const { keys[i] = nest.offset(i); }
};

struct Plus {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return V(a + b);
  }
};

/// Computes y += x for a y that overlaps itself.
template <typename T>
void accumulate_overlapping(const Tensor& x, Tensor& y) {
  int64_t reach = 1;
  for (int d = 0; d < y.rank(); ++d) reach += (y.shape()[d] - 1) * y.strides()[d];
  const Tensor keys = Tensor::empty({x.numel()}, i64, x.device());
  for_each(keys.numel(), keys,
           Offsets{keys.data<int64_t>(), nest_without(y.shape(), y.strides(), -1)});
  combine<T>(x.contiguous(), keys, reach, Plus{}, y);
}

/// Computes y += x, where y broadcasts to x's shape.
template <typename T>
void accumulate(const Tensor& x, Tensor& y) {
  if (x.shape() == y.shape() && !overlaps_itself(y.layout()))
    return map<T>(formulas::Add{}, y, y, x);
  if (x.numel() == 0) return;
  // y's own layout with x's shape: repeated dimensions receive the sum.
  StridedLayout target{x.shape(), broadcast_strides(y.layout(), x.shape()), y.layout().offset};
  bool sums = false;
  for (int d = 0; d < x.rank(); ++d)
    if (target.strides[d] == 0 && x.shape()[d] > 1) {
      target.shape[d] = 1;
      sums = true;
    }
  Tensor window = y.with_layout(target);
  if (sums) {
    const Tensor sum = Tensor::empty(target.shape, kDTypeOf<SumType<T>>, x.device());
    reduce(SumOf<T>{x.data<T>(), sum.data<SumType<T>>(), 1}, x, sum);
    return accumulate<T>(sum.to(x.dtype()), window);
  }
  if (overlaps_itself(target)) return accumulate_overlapping<T>(x, window);
  map<T>(formulas::Add{}, window, window, x);
}

}  // namespace

void store_number(uint64_t bits, std::byte* y, int64_t bytes, tapegrad::Device device) {
  launch({1, 32, stream_of(device)}, &each_kernel<StoreBytes>, bytes, StoreBytes{bits, y});
}

void register_memory() {
  set<kernels::fill>(kAllTypes, []<typename T>(TypeTag<T>, Tensor& y, Number value) {
    fill<T>(y, value.to<T>());
  });
  set<kernels::hold_number>(kAllTypes, []<typename T>(TypeTag<T>, Tensor& y, Number value) {
    hold_number(y, std::bit_cast<WordOf<sizeof(T)>>(value.to<T>()));
  });
  set<kernels::copy>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { copy<T>(a...); },
                     {.takes_packed = true});
  set<kernels::accumulate>(kNumberTypes,
                           []<typename T>(TypeTag<T>, auto&... a) { accumulate<T>(a...); },
                           {.takes_packed = true});
}

}  // namespace tapegrad::backends::cuda
