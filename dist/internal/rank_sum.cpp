#include "dist/internal/rank_sum.h"

#include <cmath>
#include <type_traits>

#include "core/base/error.h"

namespace tapegrad::dist {
namespace {

/// The type in which values are reduced.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>, float, T>;

constexpr int64_t kBlock = 1024;  // results of a block stay in the cache

struct Add {
  template <typename T>
  static T of(T a, T b) {
    return T(a + b);
  }
};
struct Multiply {
  template <typename T>
  static T of(T a, T b) {
    return T(a * b);
  }
};
template <typename T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(x);
  else
    return false;
}
struct Least {
  template <typename T>
  static T of(T a, T b) {
    return b < a || is_nan(b) ? b : a;  // a NaN stays
  }
};
struct Greatest {
  template <typename T>
  static T of(T a, T b) {
    return b > a || is_nan(b) ? b : a;
  }
};

/// Reduces `length` elements. Of a whole block, for which the compiler knows the length and
/// vectorises.
template <typename How, typename T>
[[gnu::always_inline]] inline void reduce_block(const T* __restrict in, int ranks, int64_t stride,
                                                int64_t length, bool is_mean, T* __restrict out) {
  Sum<T> sum[kBlock];
  for (int64_t i = 0; i < length; ++i) sum[i] = Sum<T>(in[i]);
  for (int r = 1; r < ranks; ++r) {
    const T* __restrict next = in + r * stride;
    for (int64_t i = 0; i < length; ++i) sum[i] = How::of(sum[i], Sum<T>(next[i]));
  }
  if constexpr (!std::is_same_v<T, bool>)
    if (is_mean)
      for (int64_t i = 0; i < length; ++i) sum[i] /= Sum<T>(ranks);
  for (int64_t i = 0; i < length; ++i) out[i] = T(sum[i]);
}

template <typename How, typename T>
void reduce_all(const T* in, int ranks, int64_t count, T* out, bool is_mean = false) {
  int64_t first = 0;
  for (; first + kBlock <= count; first += kBlock)
    reduce_block<How>(in + first, ranks, count, kBlock, is_mean, out + first);
  reduce_block<How>(in + first, ranks, count, count - first, is_mean, out + first);
}

}  // namespace

void reduce_ranks(DType dtype, const std::byte* in, int ranks, int64_t count, ReduceOp op,
                  std::byte* out) {
  with_type(dtype, [&]<typename T>(TypeTag<T>) {
    const T* from = reinterpret_cast<const T*>(in);
    T* to = reinterpret_cast<T*>(out);
    if (op == ReduceOp::kMin) return reduce_all<Least>(from, ranks, count, to);
    if (op == ReduceOp::kMax) return reduce_all<Greatest>(from, ranks, count, to);
    if constexpr (std::is_same_v<T, bool>)
      fail<DTypeError>("all_reduce: bool has no sum");
    else if (op == ReduceOp::kProduct)
      reduce_all<Multiply>(from, ranks, count, to);
    else
      reduce_all<Add>(from, ranks, count, to, op == ReduceOp::kMean);
  });
}

void convert(DType from, const std::byte* in, DType to, std::byte* out, int64_t count) {
  with_type(from, [&]<typename From>(TypeTag<From>) {
    with_type(to, [&]<typename To>(TypeTag<To>) {
      if constexpr (!std::is_same_v<From, bool> && !std::is_same_v<To, bool>) {
        const From* x = reinterpret_cast<const From*>(in);
        To* y = reinterpret_cast<To*>(out);
        for (int64_t i = 0; i < count; ++i) y[i] = To(Sum<From>(x[i]));
      }
    });
  });
}

}  // namespace tapegrad::dist
