// Sorting by keys: unsigned numbers with the order of the elements, in which NaN is the largest and
// -0 equals 0.
#include "ops/sort.h"

#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/device/segments.h"
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

/// The number of elements of a sorted row that are less than a value (or, if `right`, not greater).
template <typename T>
struct Search {
  const T *sorted, *values;
  int64_t* y;
  int64_t n, m;
  bool shared, right;
  __device__ void operator()(int64_t i) const {
    const T* row = sorted + (shared ? 0 : i / m * n);
    const uint64_t key = key_of(values[i]);
    int64_t first = 0, last = n;
    while (first < last) {
      const int64_t middle = first + (last - first) / 2;
      const uint64_t other = key_of(row[middle]);
      if (right ? other <= key : other < key)
        first = middle + 1;
      else
        last = middle;
    }
    y[i] = first;
  }
};

}  // namespace

void register_sort() {
  set<kernels::order>(kAllTypes, []<typename T>(Type<T>, auto&... a) { order<T>(a...); });
  set<kernels::searchsorted>(
      kAllTypes,
      []<typename T>(Type<T>, const Tensor& sorted, const Tensor& values, bool right, Tensor& y) {
        for_each(y.numel(), y,
                 Search<T>{sorted.data<T>(), values.data<T>(), y.data<int64_t>(), sorted.shape()[1],
                           values.shape()[1], sorted.shape()[0] == 1, right});
      });
}

}  // namespace tapegrad::backends::cuda
