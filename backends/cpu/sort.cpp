// Sorting by keys: unsigned numbers with the order of the elements, in which NaN is the largest and
// -0 equals 0. A key includes the element's index, which makes every algorithm stable.
#include "ops/sort.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "backends/cpu/register.h"
#include "core/base/float16.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kWorth = 1 << 13;  // elements that justify a thread

template <typename T>
auto key_of(T element) {
  using C = Compute<T>;
  using Key = std::conditional_t<sizeof(C) == 8, uint64_t, uint32_t>;
  constexpr Key kTop = Key(1) << (sizeof(Key) * 8 - 1);
  if constexpr (std::is_floating_point_v<C>) {
    const C value = C(element);
    if (value != value) return Key(~Key(0));
    const Key bits = std::bit_cast<Key>(value == 0 ? C(0) : value);
    return Key(bits & kTop ? ~bits : bits | kTop);
  } else if constexpr (std::is_signed_v<T>) {
    return Key(Key(element) ^ kTop);
  } else {
    return Key(element);
  }
}

/// A 32-bit key and an index in one number.
struct Narrow {
  uint64_t both;
  Narrow() = default;
  Narrow(uint32_t key, int64_t index) : both(uint64_t(key) << 32 | uint64_t(index)) {}
  int64_t index() const { return int64_t(both & 0xffffffffu); }
  bool operator<(const Narrow& other) const { return both < other.both; }
};
struct Wide {
  uint64_t key;
  int64_t at;
  Wide() = default;
  Wide(uint64_t key, int64_t index) : key(key), at(index) {}
  int64_t index() const { return at; }
  bool operator<(const Wide& other) const {
    return key != other.key ? key < other.key : at < other.at;
  }
};

template <typename Item, typename T>
void order_row(const T* x, int64_t n, int64_t k, bool descending, Item* items, int64_t* indices) {
  using Key = decltype(key_of(T()));
  const Key flip = descending ? ~Key(0) : Key(0);
  for (int64_t i = 0; i < n; ++i) items[i] = Item(Key(key_of(x[i]) ^ flip), i);
  if (k < n) std::nth_element(items, items + k, items + n);
  std::sort(items, items + k);
  for (int64_t i = 0; i < k; ++i) indices[i] = items[i].index();
}

template <typename Item, typename T>
void order_rows(const Tensor& x, int64_t k, bool descending, Tensor& indices) {
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  const int64_t workers =
      std::clamp<int64_t>(x.numel() / kWorth, 1, std::min<int64_t>(rows, omp_get_max_threads()));
  std::vector<Item> items(size_t(workers * n));
#pragma omp parallel for num_threads(int(workers)) if (workers > 1)
  for (int64_t worker = 0; worker < workers; ++worker)
    for (int64_t row = worker; row < rows; row += workers)
      order_row(x.data<T>() + row * n, n, k, descending, items.data() + worker * n,
                indices.data<int64_t>() + row * k);
}

template <typename T>
void search(const Tensor& sorted, const Tensor& values, bool right, Tensor& y) {
  const int64_t n = sorted.shape()[1], m = values.shape()[1], count = y.numel();
  const bool shared = sorted.shape()[0] == 1;
  int64_t* to = y.data<int64_t>();
#pragma omp parallel for if (count > kWorth)
  for (int64_t i = 0; i < count; ++i) {
    const T* row = sorted.data<T>() + (shared ? 0 : i / m * n);
    const auto key = key_of(values.data<T>()[i]);
    const T* found =
        right ? std::upper_bound(row, row + n, key, [](auto k, T e) { return k < key_of(e); })
              : std::lower_bound(row, row + n, key, [](T e, auto k) { return key_of(e) < k; });
    to[i] = found - row;
  }
}

template <typename T>
void order(const Tensor& x, int64_t k, bool descending, Tensor& y) {
  if constexpr (sizeof(key_of(T())) == 4)
    if (x.shape()[1] <= int64_t(0xffffffff)) return order_rows<Narrow, T>(x, k, descending, y);
  order_rows<Wide, T>(x, k, descending, y);
}

}  // namespace

void register_sort() {
  set<kernels::order>(kAllTypes, []<typename T>(Type<T>, auto&... a) { order<T>(a...); });
  set<kernels::searchsorted>(kAllTypes, []<typename T>(Type<T>, auto&... a) { search<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
