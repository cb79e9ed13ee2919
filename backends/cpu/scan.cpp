// Cumulative ops along the middle of three dimensions. Every column is a task, computed in double
// (integers in 64 bits).
#include "ops/scan.h"

#include <cmath>

#include "backends/cpu/register.h"
#include "core/base/float16.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kParallel = 1 << 14;  // elements

/// Calls run(first, step, n) for every column of [outer, n, inner].
template <typename Run>
void for_each_column(const Tensor& x, Run run) {
  const int64_t n = x.shape()[1], inner = x.shape()[2], columns = x.shape()[0] * inner;
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t i = 0; i < columns; ++i) run(i / inner * n * inner + i % inner, inner, n);
}

template <typename T>
void multiply_up(const Tensor& x, Tensor& y) {
  constexpr bool kFloat = std::is_floating_point_v<Compute<T>>;
  using Product = std::conditional_t<kFloat, double, uint64_t>;
  using Out = std::conditional_t<kFloat, T, int64_t>;
  const T* from = x.data<T>();
  Out* to = y.data<Out>();
  for_each_column(x, [=](int64_t at, int64_t step, int64_t n) {
    Product product(1);
    for (int64_t i = 0; i < n; ++i, at += step) {
      product *= Product(Compute<T>(from[at]));
      to[at] = convert<Out>(product);
    }
  });
}

/// Computes log(sum) from the largest term and the sum relative to it.
template <typename T>
void log_sum_up(const Tensor& x, Tensor& y) {
  const T* from = x.data<T>();
  T* to = y.data<T>();
  for_each_column(x, [=](int64_t at, int64_t step, int64_t n) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < n; ++i, at += step) {
      const double value = double(Compute<T>(from[at]));
      if (value == largest) {  // includes infinities, whose difference is NaN
        sum += 1;
      } else if (value < largest) {
        sum += std::exp(value - largest);
      } else {  // larger, or NaN
        sum = sum * std::exp(largest - value) + 1;
        largest = value;
      }
      const bool infinite = std::isinf(largest);
      to[at] = convert<T>(infinite ? largest : largest + std::log(sum));
    }
  });
}

template <bool kLargest, typename T>
void extremes(const Tensor& x, Tensor& indices) {
  const T* from = x.data<T>();
  int64_t* to = indices.data<int64_t>();
  for_each_column(x, [=](int64_t at, int64_t step, int64_t n) {
    Compute<T> best{};
    int64_t where = 0;
    for (int64_t i = 0; i < n; ++i, at += step) {
      const Compute<T> value = Compute<T>(from[at]);
      const bool stays = best != best && value == value;  // NaN stays
      const bool less = kLargest ? value < best : best < value;
      if (i == 0 || !(stays || less)) {
        best = value;
        where = i;
      }
      to[at] = where;
    }
  });
}

template <typename T>
void recur(const Tensor& b, const Tensor& a, bool reversed, Tensor& y) {
  const T *factors = a.data<T>(), *terms = b.data<T>();
  T* to = y.data<T>();
  for_each_column(b, [=](int64_t at, int64_t step, int64_t n) {
    if (reversed) {
      at += (n - 1) * step;
      step = -step;
    }
    double value = 0;
    for (int64_t i = 0; i < n; ++i, at += step) {
      value = i == 0 ? double(terms[at]) : double(factors[at]) * value + double(terms[at]);
      to[at] = T(value);
    }
  });
}

}  // namespace

void register_scan() {
  set<kernels::cumprod>(kAllTypes, []<typename T>(Type<T>, auto&... a) { multiply_up<T>(a...); });
  set<kernels::logcumsumexp>(kFloatTypes,
                             []<typename T>(Type<T>, auto&... a) { log_sum_up<T>(a...); });
  set<kernels::running_extreme>(
      kAllTypes, []<typename T>(Type<T>, const Tensor& x, bool largest, Tensor& indices) {
        largest ? extremes<true, T>(x, indices) : extremes<false, T>(x, indices);
      });
  set<kernels::recurrence>(TypeList<float, double>{},
                           []<typename T>(Type<T>, auto&... a) { recur<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
