// Reading and writing by index. Indices are contiguous, int64 and already checked, except in a
// graph.
#include "ops/index.h"

#include "backends/cuda/device/find.cuh"
#include "backends/cuda/device/map.cuh"
#include "backends/cuda/device/reduce_frame.cuh"
#include "backends/cuda/device/reducers.cuh"
#include "backends/cuda/device/segments.cuh"
#include "backends/cuda/register.h"
#include "backends/elementwise/binary.h"

namespace tapegrad::backends::cuda {
namespace {

/// The first index outside [0, size), and the largest index.
struct ScanIndex {
  struct Part {
    int64_t outside, largest;
  };
  const int64_t* x;
  int64_t* y;
  int64_t count, size;
  bool only_if_found;

  __device__ static Part first() { return {std::numeric_limits<int64_t>::max(), -1}; }
  __device__ Part add(Part part, int64_t at, int64_t) const {
    const int64_t value = x[at];
    const bool outside = (value < 0 || value >= size) && at < part.outside;
    return {outside ? at : part.outside, value > part.largest ? value : part.largest};
  }
  __device__ static Part merge(Part a, Part b) {
    return {a.outside < b.outside ? a.outside : b.outside,
            a.largest > b.largest ? a.largest : b.largest};
  }
  __device__ void finish(int64_t, Part part) const {
    if (only_if_found && part.outside >= count) return;
    y[0] = part.outside < count ? part.outside : -1;
    y[1] = part.outside < count ? x[part.outside] : 0;
    y[2] = part.largest;
  }
};

void scan_index(const Tensor& index, int64_t size, kernels::IndexScan& scan) {
  if (index.numel() == 0) return;
  const Tensor line = index.with_layout({{index.numel()}, {1}, index.layout().offset});
  const Tensor result = Tensor::empty({3}, i64, index.device());
  // A caller that wants the largest index passes no size.
  const bool is_check = size < std::numeric_limits<int64_t>::max();
  int64_t* verdict = is_check ? recorded_verdict() : nullptr;
  reduce(ScanIndex{index.data<int64_t>(), verdict != nullptr ? verdict : result.data<int64_t>(),
                   index.numel(), size, verdict != nullptr},
         line, result.with_layout({{1}, {1}, 0}));
  if (verdict != nullptr) return;
  int64_t host[3];
  copy_to_host(result, host);
  scan = {host[0], host[1], host[2]};
}

/// y[i] = x at the position of i, with index[i] along dim. The index has y's shape or is a vector.
template <typename W>
struct Gather {
  const W* x;
  const int64_t* index;
  W* y;
  Nest nest;
  int64_t step, inner, length;  // the entry of a vector for i is i / inner % length
  int64_t size;  // for range checks in a graph, which does not wait for the check of indices
  bool vector;
  __device__ void operator()(int64_t i) const {
    const int64_t at = index[vector ? i / inner % length : i];
    y[i] = x[nest.offset(i) + (at >= 0 && at < size ? at : 0) * step];
  }
};

template <typename W>
void gather(const Tensor& x, const Tensor& index, int dim, bool vector, Tensor& y) {
  int64_t inner = 1;
  for (int d = dim + 1; d < y.rank(); ++d) inner *= y.shape()[d];
  for_each(y.numel(), y,
           Gather<W>{x.data<W>(), index.data<int64_t>(), y.data<W>(),
                     nest_without(y.shape(), x.strides(), dim), x.strides()[dim], inner,
                     y.shape()[dim], x.shape()[dim], vector});
}

/// The type of sums. Integers wrap around.
template <typename T>
using Sum = std::conditional_t<kIsFloat<T>, Compute<T>, int64_t>;

/// y += alpha * the sum of the source rows with this destination. Each source row belongs to
/// `times` successive entries of the index.
template <typename T>
struct AddRows {
  const T* source;
  const int64_t *keys, *order;
  T* y;
  int64_t count, times, size, inner;
  Sum<T> alpha;
  __device__ void operator()(int64_t i) const {
    const int64_t column = i % inner, outer = i / (inner * count);
    int64_t k = i / inner % count;
    const int64_t key = keys[k];
    if ((k > 0 && keys[k - 1] == key) || key < 0 || key >= size) return;
    Sum<T> sum = 0;
    for (; k < count && keys[k] == key; ++k)
      sum += Sum<T>(widen(source[(outer * count + order[k]) / times * inner + column]));
    T& target = y[(outer * size + key) * inner + column];
    target = narrow<T>(Sum<T>(widen(target)) + alpha * sum);
  }
};

template <typename T>
void index_add(const Tensor& source, const Tensor& index, int dim, Number alpha, Tensor& y) {
  int64_t inner = 1;
  for (int d = dim + 1; d < y.rank(); ++d) inner *= y.shape()[d];
  const int64_t size = y.shape()[dim], times = index.numel() / source.shape()[dim];
  const Sorted sorted = sort_keys(index, bits_for(size));
  for_each(source.numel() * times, y,
           AddRows<T>{source.data<T>(), sorted.keys.data<int64_t>(), sorted.order.data<int64_t>(),
                      y.data<T>(), index.numel(), times, size, inner, alpha.to<Sum<T>>()});
}

struct Plus {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return V(a + b);
  }
};

/// y[key] += the sum of all elements with this key, which the last one has.
template <typename T>
struct AddSums {
  const int64_t *keys, *sums;
  T* y;
  int64_t count;
  __device__ void operator()(int64_t i) const {
    const int64_t key = keys[i];
    if (key != kNowhere && (i + 1 == count || keys[i + 1] != key))
      y[key] = T(uint64_t(y[key]) + uint64_t(sums[i]));
  }
};

/// Sums of whole numbers are exact in any order, so that many threads may share a destination.
template <typename T>
void scatter_add(const Tensor& source, const Tensor& index, int dim, Tensor& y) {
  const Tensor keys = targets_of(index, dim, y);
  if constexpr (kIsFloat<T>) {
    combine<T>(source, keys, end_of(y), Plus{}, y);
  } else {
    const Sorted sorted = sort_keys(keys, bits_for(end_of(y)));
    const Tensor sums = running_sums(sorted, source.to(i64));
    for_each(
        keys.numel(), y,
        AddSums<T>{sorted.keys.data<int64_t>(), sums.data<int64_t>(), y.data<T>(), keys.numel()});
  }
}

template <typename W>
struct FillWhere {
  W value;
  __device__ W operator()(W x, bool masked) const { return masked ? value : x; }
};

template <typename T>
void masked_fill(const Tensor& x, const Tensor& mask, Number value, Tensor& y) {
  using W = WordOf<sizeof(T)>;
  map<W, W, bool>(FillWhere<W>{std::bit_cast<W>(value.to<T>())}, y, x, mask);
}

}  // namespace

void register_index() {
  set<kernels::scan_index>(TypeList<int64_t>{}, [](auto, auto&... a) { scan_index(a...); });
  set<kernels::index_select>(kAllTypes, []<typename T>(TypeTag<T>, const Tensor& x,
                                                       const Tensor& index, int dim, Tensor& y) {
    gather<WordOf<sizeof(T)>>(x, index, dim, /*vector=*/true, y);
  });
  set<kernels::gather>(kAllTypes, []<typename T>(TypeTag<T>, const Tensor& x, const Tensor& index,
                                                 int dim, Tensor& y) {
    gather<WordOf<sizeof(T)>>(x, index, dim, /*vector=*/false, y);
  });
  set<kernels::index_add>(kNumberTypes,
                          []<typename T>(TypeTag<T>, auto&... a) { index_add<T>(a...); });
  set<kernels::scatter_add>(TypeList<float, double, uint8_t, int32_t, int64_t>{},
                            []<typename T>(TypeTag<T>, auto&... a) { scatter_add<T>(a...); });
  set<kernels::masked_fill>(kAllTypes,
                            []<typename T>(TypeTag<T>, auto&... a) { masked_fill<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
