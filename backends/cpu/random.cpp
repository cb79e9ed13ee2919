#include "ops/random.h"
#include "ops/dropout.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <vector>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/philox_lanes.h"
#include "backends/cpu/tools/share.h"
#include "backends/formulas_random.h"
#include "core/base/error.h"

namespace tapegrad::backends::cpu {
namespace {

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

constexpr int64_t kBlocksForThreads = 128;

/// Calls make(words, first, count) for every block of a draw; make() computes elements first ...
/// first + count - 1 from `per` random words each.
template <int per, typename Make>
void for_each_random_block(int64_t numel, RandomState state, const Make& make) {
  constexpr int64_t kElements = kWords / per;
  const int64_t blocks = (numel + kElements - 1) / kElements;
  share_tasks(blocks, blocks > kBlocksForThreads, [&](int64_t block) {
    alignas(64) Words words;
    const int64_t first = block * kElements;
    draw_words(state, first * per, words);
    make(words, first, std::min(kElements, numel - first));
  });
}

template <typename T>
inline constexpr int kPer = std::is_same_v<T, double> ? 2 : 1;  // words per element

template <typename R>
void uniform_block(const Words& words, R (&u)[kWords / kPer<R>]) {
  for (int i = 0; i < kWords / kPer<R>; ++i) {
    if constexpr (kPer<R> == 1)
      u[i] = uniform_float(words[i]);
    else
      u[i] = uniform_double(words[2 * i], words[2 * i + 1]);
  }
}

template <typename T>
void uniform(Tensor& y, double low, double high, RandomState state) {
  using R = Compute<T>;
  const R start = R(low), range = R(high - low),
          limit = R(low < high ? formulas::below<T>(high) : T(R(low)));
  T* out = y.data<T>();
  for_each_random_block<kPer<T>>(y.numel(), state,
                                 [=](const Words& words, int64_t first, int64_t count) {
                                   alignas(64) R u[kWords / kPer<T>];
                                   uniform_block(words, u);
                                   for (R& value : u)
                                     value = std::min(std::fma(value, range, start), limit);
                                   for (int64_t i = 0; i < count; ++i) out[first + i] = T(u[i]);
                                 });
}

template <typename T>
void normal(Tensor& y, double mean, double std, RandomState state) {
  using R = Compute<T>;
  constexpr int kPairs = kWords / kPer<T> / 2;
  T* out = y.data<T>();
  const R center = R(mean), scale = R(std);
  for_each_random_block<kPer<T>>(
      y.numel(), state, [=](const Words& words, int64_t first, int64_t count) {
        // Pairs are interleaved in a loop of their own; one loop for all is not vectorised.
        alignas(64) R u[kPairs], v[kPairs];
        alignas(64) T z[2 * kPairs];
#pragma omp simd
        for (int i = 0; i < kPairs; ++i) {
          if constexpr (kPer<T> == 1) {
            u[i] = formulas::positive_float(words[2 * i]);
            v[i] = uniform_float(words[2 * i + 1]);
          } else {
            u[i] = formulas::positive_double(words[4 * i], words[4 * i + 1]);
            v[i] = uniform_double(words[4 * i + 2], words[4 * i + 3]);
          }
        }
#pragma omp simd
        for (int i = 0; i < kPairs; ++i) {
          const formulas::CosSin<R> pair = formulas::box_muller(u[i], v[i]);
          u[i] = std::fma(pair.cos, scale, center);
          v[i] = std::fma(pair.sin, scale, center);
        }
        for (int i = 0; i < kPairs; ++i) {
          z[2 * i] = T(u[i]);
          z[2 * i + 1] = T(v[i]);
        }
        std::copy_n(z, count, out + first);
      });
}

/// Writes integers to elements of any type, which are converted by store(values, count, to).
void random_integers(Tensor& y, int64_t low, uint64_t range, RandomState state,
                     void (*store)(const int64_t* values, int64_t count, std::byte* to)) {
  std::byte* const out = y.storage().data();
  const int64_t bytes = size_of(y.dtype()), start = y.layout().offset;
  for_each_random_block<2>(y.numel(), state, [=](const Words& words, int64_t first, int64_t count) {
    alignas(64) int64_t values[kWords / 2];
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t bits = uint64_t(words[2 * i]) << 32 | words[2 * i + 1];
      values[i] = formulas::integer_in(bits, low, range);
    }
    store(values, count, out + (start + first) * bytes);
  });
}
template <typename T>
void store_integers(const int64_t* values, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = convert<T>(values[i]);
}

template <typename T>
void bernoulli(const Tensor& p, Tensor& y, RandomState state) {
  using R = Compute<T>;
  const T* in = p.data<T>();
  T* out = y.data<T>();
  const int64_t numel = p.numel();
  for (int64_t i = 0; i < numel; ++i)
    if (const R value = R(in[i]); !(value >= R(0) && value <= R(1))) [[unlikely]]
      fail<ArgumentError>("bernoulli: p must be in [0, 1]: element ", i, " is ", value);
  for_each_random_block<kPer<T>>(numel, state,
                                 [=](const Words& words, int64_t first, int64_t count) {
                                   alignas(64) R u[kWords / kPer<T>];
                                   uniform_block(words, u);
                                   for (int64_t i = 0; i < count; ++i)
                                     out[first + i] = T(R(u[i] < R(in[first + i]) ? 1 : 0));
                                 });
}

/// Adds the residual if `add`; otherwise residual is empty.
template <typename T, bool add>
void dropout(const Tensor& x, const Tensor& residual, double p, RandomState state, Tensor& y) {
  using R = Compute<T>;
  const T* in = x.data<T>();
  const T* added = add ? residual.data<T>() : nullptr;
  T* out = y.data<T>();
  const R scale = R(1.0 / (1.0 - p));
  const uint32_t threshold = formulas::drop_below(p);
  for_each_random_block<1>(x.numel(), state, [=](const Words& words, int64_t first, int64_t count) {
    const T* from = in + first;
    T* to = out + first;
    const auto keep = [&](int i) {
      const R scaled = R(from[i]) * scale;
      const T kept = T(words[i] >= threshold ? scaled : R(0));
      if constexpr (add)
        return T(R(added[first + i]) + R(kept));
      else
        return kept;
    };
    if (count == kWords)
      for (int i = 0; i < kWords; ++i) to[i] = keep(i);
    else
      for (int i = 0; i < int(count); ++i) to[i] = keep(i);
  });
}

/// Sorts by random keys: entries go to buckets by the leading bits of their keys, about four to a
/// bucket, which are then sorted.
void permutation(Tensor& y, RandomState state) {
  struct Entry {
    uint64_t key;
    int64_t index;
  };
  const auto count = size_t(y.numel());
  std::vector<Entry> entries(count), sorted(count);
  for_each_random_block<2>(y.numel(), state, [&](const Words& words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      entries[size_t(first + i)] = {uint64_t(words[2 * i]) << 32 | words[2 * i + 1], first + i};
  });
  const int bits = std::max(0, int(std::bit_width(count)) - 2);
  const auto bucket = [bits](const Entry& entry) { return size_t(entry.key >> 1 >> (63 - bits)); };
  std::vector<size_t> ends((size_t(1) << bits) + 1);
  for (const Entry& entry : entries) ++ends[bucket(entry) + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  for (const Entry& entry : entries) sorted[ends[bucket(entry)]++] = entry;
  int64_t* out = y.data<int64_t>();
  auto begin = sorted.begin();
  for (const size_t end : std::span(ends).first(ends.size() - 1)) {
    std::sort(begin, sorted.begin() + int64_t(end), [](const Entry& a, const Entry& b) {
      return a.key != b.key ? a.key < b.key : a.index < b.index;
    });
    for (; begin != sorted.begin() + int64_t(end); ++begin) *out++ = begin->index;
  }
}

}  // namespace

void register_random() {
  set<kernels::uniform>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { uniform<T>(a...); });
  set<kernels::normal>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { normal<T>(a...); });
  set<kernels::random_integers>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) {
    random_integers(a..., store_integers<T>);
  });
  set<kernels::bernoulli>(kFloatTypes,
                          []<typename T>(TypeTag<T>, auto&... a) { bernoulli<T>(a...); });
  set<kernels::dropout>(kFloatTypes,
                        []<typename T>(TypeTag<T>, const Tensor& x, double p, RandomState state,
                                       Tensor& y) { dropout<T, false>(x, {}, p, state, y); },
                        {.parts = Parts::kElements});
  set<kernels::dropout_add>(kFloatTypes,
                            []<typename T>(TypeTag<T>, auto&... a) { dropout<T, true>(a...); },
                            {.parts = Parts::kElements});
  set<kernels::permutation>(TypeList<int64_t>{}, [](auto, auto&... a) { permutation(a...); });
}

}  // namespace tapegrad::backends::cpu
