// Sorting by keys: unsigned numbers with the order of the elements, in which NaN is the largest and
// -0 equals 0.
#include "ops/sort.h"

#include <thrust/binary_search.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/device/segments.h"
#include "backends/cuda/device/thrust.cuh"
#include "backends/cuda/register.h"

namespace tapegrad::backends::cuda {
namespace {

template <typename T>
inline constexpr int kKeyBits = sizeof(Compute<T>) == 8 ? 64 : 32;

template <typename T>
__device__ uint64_t key_of(T element) {
  using C = Compute<T>;
  using Key = std::conditional_t<sizeof(C) == 8, uint64_t, uint32_t>;
  constexpr Key kTop = Key(1) << (sizeof(Key) * 8 - 1);
  const C value = widen(element);
  if constexpr (std::is_floating_point_v<C>) {
    if (value != value) return Key(~Key(0));
    const Key bits = std::bit_cast<Key>(value == 0 ? C(0) : value);
    return Key(bits & kTop ? ~bits : bits | kTop);
  } else if constexpr (std::is_signed_v<T>) {
    return Key(Key(element) ^ kTop);
  } else {
    return Key(element);
  }
}

/// Keys of rows of n elements; 32-bit keys include the row in the upper half.
template <typename T>
struct RowKeys {
  const T* x;
  int64_t* keys;
  int64_t n;
  bool descending;
  __device__ void operator()(int64_t i) const {
    constexpr uint64_t kMask = kKeyBits<T> == 64 ? ~uint64_t(0) : 0xffffffffu;
    uint64_t key = key_of(x[i]) ^ (descending ? kMask : 0);
    if (kKeyBits<T> == 32) key |= uint64_t(i / n) << 32;
    keys[i] = int64_t(key);
  }
};

struct RowsOf {
  const int64_t* order;
  int64_t* keys;
  int64_t n;
  __device__ void operator()(int64_t i) const { keys[i] = order[i] / n; }
};

struct PartOfRows {
  const int64_t* order;
  int64_t* indices;
  int64_t n, first, k;
  __device__ void operator()(int64_t i) const { indices[i] = order[i / k * n + first + i % k] % n; }
};

template <typename T>
void order(const Tensor& x, int64_t first, bool descending, Tensor& indices) {
  const int64_t rows = x.shape()[0], n = x.shape()[1], k = indices.shape()[1];
  if (indices.numel() == 0) return;
  const Tensor keys = Tensor::empty({x.numel()}, i64, x.device());
  for_each(x.numel(), x, RowKeys<T>{x.data<T>(), keys.data<int64_t>(), n, descending});
  Sorted sorted;
  if (kKeyBits<T> == 32) {
    sorted = sort_keys(keys, rows > 1 ? 32 + bits_for(rows) : 32);
  } else {
    sorted = sort_keys(keys, 64);
    if (rows > 1) {  // stable: each row stays in order
      for_each(x.numel(), x, RowsOf{sorted.order.data<int64_t>(), keys.data<int64_t>(), n});
      sorted = sort_again(keys, sorted.order, bits_for(rows));
    }
  }
  for_each(indices.numel(), x,
           PartOfRows{sorted.order.data<int64_t>(), indices.data<int64_t>(), n, first, k});
}

/// An element of a row; pairs have the order of sorted rows, one after another.
struct InRow {
  int64_t row;
  uint64_t key;
};
struct Precedes {
  __device__ bool operator()(InRow a, InRow b) const {
    return a.row != b.row ? a.row < b.row : a.key < b.key;
  }
};
template <typename T>
struct ElementOf {
  const T* x;
  int64_t n;  // elements of a row
  __device__ InRow operator()(int64_t i) const { return {i / n, key_of(x[i])}; }
};
struct WithinRow {
  int64_t* y;
  int64_t n, m;
  __device__ void operator()(int64_t i) const { y[i] -= i / m * n; }
};

/// Computes y = the number of elements of a sorted row of n that are less than a value (or, if
/// `right`, not greater), for rows of m values. Thrust searches all rows as one sorted sequence. A
/// single sorted row serves all values.
template <typename T>
void search(const Tensor& sorted, const Tensor& values, bool right, Tensor& y) {
  const bool shared = sorted.shape()[0] == 1;
  const int64_t n = sorted.shape()[1], m = shared ? y.numel() : values.shape()[1];
  run_thrust(y, [in = ElementOf<T>{sorted.data<T>(), n}, count = sorted.numel(),
                 of = ElementOf<T>{values.data<T>(), m}, to = y.data<int64_t>(), wanted = y.numel(),
                 right = int64_t(right)](const auto& policy) {
    const thrust::counting_iterator<int64_t> zero(0);
    const auto elements = thrust::make_transform_iterator(zero, in);
    const auto first = thrust::make_transform_iterator(zero, of);
    if (right != 0)
      thrust::upper_bound(policy, elements, elements + count, first, first + wanted, to,
                          Precedes{});
    else
      thrust::lower_bound(policy, elements, elements + count, first, first + wanted, to,
                          Precedes{});
  });
  if (!shared) for_each(y.numel(), y, WithinRow{y.data<int64_t>(), n, m});
}

}  // namespace

void register_sort() {
  set<kernels::order>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { order<T>(a...); });
  set<kernels::searchsorted>(kAllTypes,
                             []<typename T>(TypeTag<T>, auto&... a) { search<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
