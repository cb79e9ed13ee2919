#include "dist/internal/rank_sum.h"

#include <algorithm>
#include <type_traits>

#include "core/base/error.h"

namespace tapegrad::dist {
namespace {

/// The type in which values are added.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>, float, T>;

constexpr int64_t kBlock = 1024;  // sums of a block stay in the cache

template <typename T>
void add(const T* __restrict in, int64_t count, Sum<T>* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += Sum<T>(in[i]);
}

template <typename T>
void sum_all(const T* in, int ranks, int64_t count, Scale scale, T* out) {
  Sum<T> sum[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t length = std::min(kBlock, count - first);
    for (int64_t i = 0; i < length; ++i) sum[i] = Sum<T>(in[first + i]);
    for (int r = 1; r < ranks; ++r) add(in + r * count + first, length, sum);
    if (scale == Scale::kMean)
      for (int64_t i = 0; i < length; ++i) sum[i] /= Sum<T>(ranks);
    for (int64_t i = 0; i < length; ++i) out[first + i] = T(sum[i]);
  }
}

}  // namespace

void sum_ranks(DType dtype, const std::byte* in, int ranks, int64_t count, Scale scale,
               std::byte* out) {
  with_type(dtype, [&]<typename T>(Type<T>) {
    if constexpr (std::is_same_v<T, bool>)
      fail<DTypeError>("all_reduce: bool has no sum");
    else
      sum_all(reinterpret_cast<const T*>(in), ranks, count, scale, reinterpret_cast<T*>(out));
  });
}

void convert(DType from, const std::byte* in, DType to, std::byte* out, int64_t count) {
  with_type(from, [&]<typename From>(Type<From>) {
    with_type(to, [&]<typename To>(Type<To>) {
      if constexpr (!std::is_same_v<From, bool> && !std::is_same_v<To, bool>) {
        const From* x = reinterpret_cast<const From*>(in);
        To* y = reinterpret_cast<To*>(out);
        for (int64_t i = 0; i < count; ++i) y[i] = To(Sum<From>(x[i]));
      }
    });
  });
}

}  // namespace tapegrad::dist
