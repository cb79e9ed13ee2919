#include "dist/internal/rank_sum.h"

#include <type_traits>

#include "core/base/error.h"

namespace tapegrad::dist {
namespace {

/// The type in which values are added.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>, float, T>;

constexpr int64_t kBlock = 1024;  // sums of a block stay in the cache

/// Sums `length` elements. Of a whole block, for which the compiler knows the length and
/// vectorises.
template <typename T>
[[gnu::always_inline]] inline void sum_block(const T* __restrict in, int ranks, int64_t stride,
                                             int64_t length, Scale scale, T* __restrict out) {
  Sum<T> sum[kBlock];
  for (int64_t i = 0; i < length; ++i) sum[i] = Sum<T>(in[i]);
  for (int r = 1; r < ranks; ++r) {
    const T* __restrict next = in + r * stride;
    for (int64_t i = 0; i < length; ++i) sum[i] += Sum<T>(next[i]);
  }
  if (scale == Scale::kMean)
    for (int64_t i = 0; i < length; ++i) sum[i] /= Sum<T>(ranks);
  for (int64_t i = 0; i < length; ++i) out[i] = T(sum[i]);
}

template <typename T>
void sum_all(const T* in, int ranks, int64_t count, Scale scale, T* out) {
  int64_t first = 0;
  for (; first + kBlock <= count; first += kBlock)
    sum_block(in + first, ranks, count, kBlock, scale, out + first);
  sum_block(in + first, ranks, count, count - first, scale, out + first);
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
