// Sorting by keys: unsigned numbers with the order of the elements, in which NaN is the largest and
// -0 equals 0. An item holds a key and the element's index, which makes every algorithm stable.
#include "ops/sort.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <utility>

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
    const Key bits = std::bit_cast<Key>(value + C(0));          // -0 + 0 is 0
    const Key sign = Key(0) - (bits >> (sizeof(Key) * 8 - 1));  // all bits of a negative one
    return value == value ? Key(bits ^ (sign | kTop)) : Key(~Key(0));
  } else if constexpr (std::is_signed_v<T>) {
    return Key(Key(element) ^ kTop);
  } else {
    return Key(element);
  }
}

/// A 32-bit key and an index in one number.
struct Narrow {
  using Key = uint32_t;
  static constexpr int kKeyBytes = 4;
  uint64_t both;
  Narrow() = default;
  Narrow(uint32_t key, int64_t index) : both(uint64_t(key) << 32 | uint64_t(index)) {}
  int64_t index() const { return int64_t(both & 0xffffffffu); }
  uint32_t first_key() const { return uint32_t(both >> 32); }
  size_t digit(int byte) const { return both >> (32 + 8 * byte) & 0xff; }
  bool operator<(const Narrow& other) const { return both < other.both; }
};
struct Wide {
  using Key = uint64_t;
  static constexpr int kKeyBytes = 8;
  uint64_t key;
  int64_t at;
  Wide() = default;
  Wide(uint64_t key, int64_t index) : key(key), at(index) {}
  int64_t index() const { return at; }
  uint64_t first_key() const { return key; }
  size_t digit(int byte) const { return key >> (8 * byte) & 0xff; }
  bool operator<(const Wide& other) const {
    return key != other.key ? key < other.key : at < other.at;
  }
};

constexpr int64_t kFewToSort = 256;    // items that std::sort orders faster
constexpr int64_t kFewToSelect = 512;  // elements that do not justify a histogram
constexpr int64_t kFewToHold = 64;     // items that are held while a row is read

/// Sorts items that are in the order of their indices: by each byte of the key, the lowest first,
/// except for bytes that all items share. `spare` has room for n items.
template <typename Item>
void sort_items(Item* items, int64_t n, Item* spare) {
  if (n <= kFewToSort) return std::sort(items, items + n);
  std::array<std::array<uint32_t, 256>, Item::kKeyBytes> counts{};
  for (int64_t i = 0; i < n; ++i)
    for (int byte = 0; byte < Item::kKeyBytes; ++byte) ++counts[byte][items[i].digit(byte)];
  Item *from = items, *to = spare;
  for (int byte = 0; byte < Item::kKeyBytes; ++byte) {
    auto& places = counts[byte];
    if (places[from[0].digit(byte)] == n) continue;
    uint32_t place = 0;
    for (uint32_t& each : places) place += std::exchange(each, place);
    for (int64_t i = 0; i < n; ++i) to[places[from[i].digit(byte)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy_n(from, n, items);
}

/// The part of a sorted row that is wanted.
struct WantedPart {
  int64_t first, count;
};

constexpr int64_t kKeys = 64;           // keys that are visited together
constexpr int64_t kLoaded = 8 * kKeys;  // keys that are computed together

/// How keys are computed from elements of any type, so that the algorithms below are compiled per
/// key, not per type. The bits of keys are reversed if `descending`: smaller keys are wanted first.
template <typename Key>
struct Keys {
  const void* elements;
  bool descending;
  /// Computes the keys of `size` elements from `start` on.
  void (*load)(const Keys& self, int64_t start, int64_t size, Key* keys);
  /// Returns the start, at or after `start`, of the next kKeys elements of which one has a key
  /// below the limit, and their keys; the start of the last, fewer, elements before n if there are
  /// none.
  int64_t (*next_below)(const Keys& self, int64_t start, int64_t n, Key limit, Key* keys);

  template <typename T>
  static Keys of(const Tensor& x, bool descending) {
    return {x.data<T>(), descending,
            [](const Keys& self, int64_t start, int64_t size, Key* keys) {
              for (int64_t i = 0; i < size; ++i) keys[i] = self.key<T>(start + i);
            },
            [](const Keys& self, int64_t start, int64_t n, Key limit, Key* keys) {
              for (; start + kKeys <= n; start += kKeys) {
                int below = 0;
                for (int64_t i = 0; i < kKeys; ++i) below |= self.key<T>(start + i) < limit;
                if (below == 0) continue;
                for (int64_t i = 0; i < kKeys; ++i) keys[i] = self.key<T>(start + i);
                return start;
              }
              return start;
            }};
  }

 private:
  template <typename T>
  [[gnu::always_inline]] Key key(int64_t i) const {
    using Own = decltype(key_of(T()));
    return Own(key_of(static_cast<const T*>(elements)[i]) ^ (descending ? ~Own(0) : Own(0)));
  }
};

/// The elements [start, start + n), and their keys if these have been computed.
template <typename Key>
struct KeyRow {
  const Keys<Key>& keys;
  int64_t start, n;
  const Key* ready;

  /// Calls visit(keys, first, size) for blocks of up to kKeys keys.
  template <typename Visit>
  void for_each_keys(const Visit& visit) const {
    alignas(64) Key buffer[kLoaded];
    for (int64_t first = 0; first < n; first += kLoaded) {
      const int64_t loaded = std::min(kLoaded, n - first);
      if (ready == nullptr) keys.load(keys, start + first, loaded, buffer);
      const Key* const from = ready == nullptr ? buffer : ready + first;
      for (int64_t i = 0; i < loaded; i += kKeys)
        visit(from + i, first + i, std::min(kKeys, loaded - i));
    }
  }
};

/// Collects the items of a row whose keys begin as those of the wanted part do. Returns their
/// number, and subtracts the number of smaller items from part.first.
template <int kBits, typename Item>
int64_t collect(const KeyRow<typename Item::Key>& row, WantedPart& part, Item* items) {
  using Key = typename Item::Key;
  constexpr int kShift = int(sizeof(Key)) * 8 - kBits;
  // Neighbours that begin alike are counted in different tables, so that a count need not wait for
  // the one before.
  constexpr int kTables = kBits <= 10 ? 4 : 2;
  std::array<std::array<uint32_t, size_t(1) << kBits>, kTables> counts{};
  row.for_each_keys([&](const Key* keys, int64_t, int64_t size) {
    for (int64_t i = 0; i < size; ++i) ++counts[size_t(i % kTables)][size_t(keys[i] >> kShift)];
  });
  for (int table = 1; table < kTables; ++table)
    for (size_t i = 0; i < counts[0].size(); ++i) counts[0][i] += counts[size_t(table)][i];
  const auto& of = counts[0];
  int64_t low = 0, before = 0;
  while (before + of[size_t(low)] <= part.first) before += of[size_t(low++)];
  int64_t high = low, reached = before + of[size_t(low)];
  while (reached < part.first + part.count) reached += of[size_t(++high)];
  const Key least = Key(low), range = Key(high - low);
  Item* to = items;
  row.for_each_keys([&](const Key* keys, int64_t start, int64_t size) {
    const auto is_wanted = [&](Key key) { return Key((key >> kShift) - least) <= range; };
    int some = 0;
    for (int64_t i = 0; i < size; ++i) some |= is_wanted(keys[i]);
    if (some == 0) return;
    for (int64_t i = 0; i < size; ++i)
      if (is_wanted(keys[i])) *to++ = Item(keys[i], start + i);
  });
  part.first -= before;
  return to - items;
}

/// Writes the first `count` items of the sorted row, count <= kFewToHold, in their order. Holds the
/// least items so far, and skips blocks without a smaller one.
template <typename Item>
void hold_least(const KeyRow<typename Item::Key>& row, int64_t count, Item* items) {
  using Key = typename Item::Key;
  constexpr int64_t kMost = 2 * kFewToHold + 16;
  const int64_t most = 2 * count + 16;
  Item held[kMost];
  int64_t number = 0;
  Key limit = 0;
  bool limited = false;
  for (int64_t start = 0; start < row.n; start += kKeys) {
    Key keys[kKeys];
    if (limited)
      start = row.keys.next_below(row.keys, row.start + start, row.start + row.n, limit, keys) -
              row.start;
    const int64_t size = std::min(kKeys, row.n - start);
    if (!limited || size < kKeys) row.keys.load(row.keys, row.start + start, size, keys);
    for (int64_t i = 0; i < size; ++i) {
      // Of equal keys the earlier element, which is held already, comes first.
      if (limited && keys[i] >= limit) continue;
      held[number++] = Item(keys[i], start + i);
      if (number < most) continue;
      std::nth_element(held, held + count - 1, held + number);
      number = count, limit = held[count - 1].first_key(), limited = true;
    }
  }
  std::partial_sort(held, held + count, held + number);
  std::copy_n(held, count, items);
}

/// `items` has room for 2 n items.
template <typename Item>
void order_row(const KeyRow<typename Item::Key>& row, WantedPart part, Item* items,
               int64_t* indices) {
  using Key = typename Item::Key;
  int64_t n = row.n;
  Item* const spare = items + n;
  const int64_t least = part.first + part.count;
  if (part.count > 0 && least <= kFewToHold && 4 * least <= n) {
    hold_least(row, least, items);
    for (int64_t i = 0; i < part.count; ++i) indices[i] = items[part.first + i].index();
    return;
  }
  if (part.count <= n / 4 && n > kFewToSelect && n <= int64_t(UINT32_MAX)) {
    n = n < 1 << 14 ? collect<10>(row, part, items) : collect<12>(row, part, items);
  } else {
    row.for_each_keys([&](const Key* keys, int64_t start, int64_t size) {
      for (int64_t i = 0; i < size; ++i) items[start + i] = Item(keys[i], start + i);
    });
  }
  if (part.count > n / 4) {
    sort_items(items, n, spare);
  } else {
    if (part.first > 0) std::nth_element(items, items + part.first, items + n);
    Item* const end = items + part.first + part.count;
    if ((part.first == 0 || part.count > 1) && end < items + n)
      std::nth_element(items + part.first, end, items + n);
    std::sort(items + part.first, end);
  }
  for (int64_t i = 0; i < part.count; ++i) indices[i] = items[part.first + i].index();
}

/// Orders rows [first, last). Computes the keys of several short rows together.
template <typename Item>
void order_some_rows(const Keys<typename Item::Key>& keys, int64_t first, int64_t last, int64_t n,
                     WantedPart part, Item* items, int64_t* indices) {
  alignas(64) typename Item::Key ready[kLoaded];
  const bool are_short = n <= kKeys;
  const int64_t together = are_short ? kLoaded / std::max<int64_t>(n, 1) : 1;
  for (; first < last; first += together) {
    const int64_t end = std::min(first + together, last);
    if (are_short) keys.load(keys, first * n, (end - first) * n, ready);
    for (int64_t row = first; row < end; ++row)
      order_row({keys, row * n, n, are_short ? ready + (row - first) * n : nullptr}, part, items,
                indices + row * part.count);
  }
}

template <typename Item>
void order_rows(const Tensor& x, const Keys<typename Item::Key>& keys, WantedPart part,
                Tensor& indices) {
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  const int64_t workers =
      std::clamp<int64_t>(x.numel() / kWorth, 1, std::min<int64_t>(rows, omp_get_max_threads()));
  const std::unique_ptr<Item[]> items(new Item[size_t(2 * workers * n)]);
#pragma omp parallel for num_threads(int(workers)) if (workers > 1)
  for (int64_t worker = 0; worker < workers; ++worker)
    order_some_rows(keys, rows * worker / workers, rows * (worker + 1) / workers, n, part,
                    items.get() + 2 * worker * n, indices.data<int64_t>());
}

constexpr int64_t kSearches = 16;  // searches that take their steps together

/// Computes places[k] = the number of elements of a sorted row that precede keys[k]: smaller
/// elements, and equal elements if kRight. n > 0; NaN is the largest.
template <bool kRight, typename T>
void search_together(const T* row, int64_t n, const Compute<T>* keys, int64_t* places) {
  using Value = Compute<T>;
  const auto precedes = [](Value a, Value key) { return kRight ? a <= key : a < key; };
  std::fill_n(places, kSearches, 0);
  for (int64_t size = n; size > 1; size -= size / 2) {
    const int64_t half = size / 2;
    const T* middle = row + half - 1;
    for (int64_t k = 0; k < kSearches; ++k)
      places[k] += half & -int64_t(precedes(Value(middle[places[k]]), keys[k]));
  }
  for (int64_t k = 0; k < kSearches; ++k) {
    places[k] += int64_t(precedes(Value(row[places[k]]), keys[k]));
    if (keys[k] != keys[k])  // every number precedes NaN
      places[k] =
          std::partition_point(row, row + n, [](T a) { return kRight || Value(a) == Value(a); }) -
          row;
  }
}

/// Finds the places of values in sorted rows; neither tensor is empty.
template <typename T>
void search(const Tensor& sorted, const Tensor& values, bool right, Tensor& y) {
  const int64_t n = sorted.shape()[1], m = values.shape()[1], rows = y.numel() / m;
  const bool shared = sorted.shape()[0] == 1;
  const int64_t groups = (m + kSearches - 1) / kSearches;
#pragma omp parallel for if (y.numel() > kWorth)
  for (int64_t group = 0; group < rows * groups; ++group) {
    const int64_t row = group / groups, first = group % groups * kSearches;
    const int64_t count = std::min(kSearches, m - first);
    Compute<T> keys[kSearches] = {};
    for (int64_t k = 0; k < count; ++k) keys[k] = Compute<T>(values.data<T>()[row * m + first + k]);
    const T* elements = sorted.data<T>() + (shared ? 0 : row * n);
    int64_t places[kSearches];
    if (right)
      search_together<true>(elements, n, keys, places);
    else
      search_together<false>(elements, n, keys, places);
    std::copy_n(places, count, y.data<int64_t>() + row * m + first);
  }
}

template <typename T>
void order(const Tensor& x, int64_t first, bool descending, Tensor& y) {
  const WantedPart part{first, y.shape()[1]};
  if constexpr (sizeof(key_of(T())) == 4)
    if (x.shape()[1] <= int64_t(0xffffffff))
      return order_rows<Narrow>(x, Keys<uint32_t>::of<T>(x, descending), part, y);
  order_rows<Wide>(x, Keys<uint64_t>::of<T>(x, descending), part, y);
}

}  // namespace

void register_sort() {
  set<kernels::order>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { order<T>(a...); });
  set<kernels::searchsorted>(kAllTypes,
                             []<typename T>(TypeTag<T>, auto&... a) { search<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
