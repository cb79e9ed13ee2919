// softmax, log_softmax, logsumexp and their gradients over [outer, n, inner]. Rows along n are
// either contiguous (inner is 1), or interleaved; interleaved rows are processed in strips.
// Rows of few floats have functions of their own (softmax_rows.h).
#include "ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/register.h"
#include "backends/cpu/softmax_rows.h"
#include "backends/cpu/tools/exponentials.h"
#include "backends/cpu/tools/independent_rows.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/reducers.h"
#include "backends/cpu/tools/short_rows.h"
#include "ops/reduce.h"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

namespace tapegrad::backends::cpu {
namespace {

enum class Goal { kSoftmax, kLogSoftmax, kLogSumExp };

inline constexpr int64_t kStrip = 256;  // interleaved rows per strip

static_assert(kShortRow <= kFewestColumns);  // segments of captured steps do not divide short rows

/// Returns log(sum(exp)) from the maximum and the sum of exp(x - maximum).
template <typename V>
V log_sum(V largest, double sum) {
  return std::isinf(largest) ? largest : V(double(largest) + std::log(sum));
}

template <typename V>
void scale_row(V* x, int64_t n, V factor) {
  using B = xsimd::batch<V>;
  constexpr int64_t kSize = int64_t(B::size);
  int64_t i = 0;  // by whole registers, because the compiler uses half of each
  for (; i + kSize <= n; i += kSize) (B::load_unaligned(x + i) * factor).store_unaligned(x + i);
  for (; i < n; ++i) x[i] *= factor;
}

template <Goal kGoal, typename T>
void row_forward(const T* x, int64_t n, T* y) {
  using V = Compute<T>;
  alignas(64) V buffer[kBlock], e[kBlock];
  V largest = -std::numeric_limits<V>::infinity();
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    largest = std::max(largest, largest_number(load_values(x + i, 1, count, buffer), count));
  }
  constexpr bool kInPlace = kGoal == Goal::kSoftmax && !kIsHalf<T>;
  double sum = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    V* into = nullptr;
    if constexpr (kInPlace) into = y + i;
    const auto fetch_next_row = [&](int64_t j) {
      fetch(x + i + j + n);
      if (kGoal != Goal::kLogSumExp) fetch_to_write(y + i + j + n);
    };
    sum += double(
        exp_shifted(load_values(x + i, 1, count, buffer), count, largest, into, fetch_next_row));
  }
  if constexpr (kGoal == Goal::kLogSumExp) {
    if (std::isinf(largest))  // the sum is NaN for an infinite maximum, with or without NaN in x
      for (int64_t i = 0; i < n; ++i)
        if (const V value = V(x[i]); value != value) largest = value;
    *y = T(log_sum(largest, sum));
  } else {
    const V scale = V(1 / sum), log_total = V(std::log(sum));
    if constexpr (kInPlace) return scale_row(y, n, scale);
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      const V* values = load_values(x + i, 1, count, buffer);
      if constexpr (kGoal == Goal::kSoftmax) {
        exp_shifted(values, count, largest, e);
        for (int64_t j = 0; j < count; ++j) e[j] *= scale;
      } else {
        for (int64_t j = 0; j < count; ++j) e[j] = values[j] - largest - log_total;
      }
      narrow(e, count, y + i);
    }
  }
}

/// The forward pass for a strip: n rows of `count` <= kStrip elements, with stride `step`, belong
/// to `count` softmax rows.
template <Goal kGoal, typename T>
void strip_forward(const T* x, int64_t n, int64_t step, int64_t count, T* y) {
  using V = Compute<T>;
  using B = xsimd::batch<V>;
  constexpr int64_t kSize = int64_t(B::size);
  alignas(64) V buffer[kStrip], e[kStrip], largest[kStrip];
  double sum[kStrip];
  const ExtremeOf<T, true> extreme;
  const int64_t used = (count + kSize - 1) / kSize * kSize;  // whole registers are loaded
  std::fill_n(largest, used, extreme.kFirst);
  std::fill_n(sum, used, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    const V* values = load_values(x + i * step, 1, count, buffer);
    for (int64_t j = 0; j < count; ++j) largest[j] = extreme.add(largest[j], values[j]);
  }
  const auto exp_row = [&](int64_t i) {  // e = exp(x - largest)
    const V* values = load_values(x + i * step, 1, count, buffer);
    int64_t j = 0;
    for (; j + kSize <= count; j += kSize)
      functions::exp_of_negative(B::load_unaligned(values + j) - B::load_unaligned(largest + j))
          .store_unaligned(e + j);
    if (j < count) {
      const B shift = B::load_unaligned(largest + j);
      functions::exp_of_negative(load_first(values + j, count - j, shift) - shift)
          .store_unaligned(e + j);
    }
  };
  for (int64_t i = 0; i < n; ++i) {
    exp_row(i);
    for (int64_t j = 0; j < count; ++j) sum[j] += double(e[j]);
    if constexpr (kGoal == Goal::kSoftmax && !kIsHalf<T>) std::copy_n(e, count, y + i * step);
  }
  if constexpr (kGoal != Goal::kSoftmax) {
    using Doubles = xsimd::batch<double>;
    for (int64_t j = 0; j < count; j += int64_t(Doubles::size))
      functions::log(Doubles::load_unaligned(sum + j)).store_unaligned(sum + j);
  }
  if constexpr (kGoal == Goal::kLogSumExp) {
    for (int64_t j = 0; j < count; ++j)
      y[j] = T(std::isinf(largest[j]) ? largest[j] : V(double(largest[j]) + sum[j]));
    return;
  }
  alignas(64) V total[kStrip];
  for (int64_t j = 0; j < count; ++j) total[j] = V(kGoal == Goal::kSoftmax ? 1 / sum[j] : sum[j]);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kGoal == Goal::kLogSoftmax) {
      const V* values = load_values(x + i * step, 1, count, buffer);
      for (int64_t j = 0; j < count; ++j) e[j] = values[j] - largest[j] - total[j];
      narrow(e, count, y + i * step);
    } else if constexpr (kIsHalf<T>) {
      exp_row(i);
      for (int64_t j = 0; j < count; ++j) e[j] *= total[j];
      narrow(e, count, y + i * step);
    } else {
      for (int64_t j = 0; j < count; ++j) y[i * step + j] *= total[j];
    }
  }
}

/// Calls row(offset) for every contiguous row, or strip(offset, number of rows, index) for strips
/// of interleaved rows.
template <typename Row, typename Strip>
void for_each_strip(const Shape& shape, Row row, Strip strip) {
  const int64_t outer = shape[0], n = shape[1], inner = shape[2];
  const int64_t strips = (inner + kStrip - 1) / kStrip;
  share_tasks(outer * strips, outer * n * inner > kParallel / 4, [&](int64_t task) {
    if (inner == 1) return row(task);
    const int64_t first = task % strips * kStrip;
    strip(task / strips, first, std::min(kStrip, inner - first));
  });
}

template <Goal kGoal, typename T>
void softmax_forward(const Tensor& x, Tensor& y) {
  if (y.numel() == 0) return;  // there may be any number of rows
  const int64_t n = x.shape()[1], inner = x.shape()[2];
  const int64_t rows = kGoal == Goal::kLogSumExp ? 1 : n;  // rows of y
  const T* from = x.data<T>();
  T* to = y.data<T>();
  if constexpr (std::is_same_v<T, float>)
    if (n > 0 && (n < kShortRow || (inner == 1 && n <= kMiddleRow))) {
      constexpr auto kShort = kGoal == Goal::kSoftmax      ? softmax_short
                              : kGoal == Goal::kLogSoftmax ? log_softmax_short
                                                           : logsumexp_short;
      constexpr auto kMiddle = kGoal == Goal::kSoftmax      ? softmax_middle
                               : kGoal == Goal::kLogSoftmax ? log_softmax_middle
                                                            : logsumexp_middle;
      return (n < kShortRow ? kShort : kMiddle)(from, {x.shape()[0], n, inner}, to);
    }
  for_each_strip(
      x.shape(), [&](int64_t i) { row_forward<kGoal>(from + i * n, n, to + i * rows); },
      [&](int64_t i, int64_t first, int64_t count) {
        strip_forward<kGoal>(from + i * n * inner + first, n, inner, count,
                             to + i * rows * inner + first);
      });
}

/// The term whose sum the gradient needs: dy * y, or dy for log_softmax.
template <bool kLog>
struct SoftmaxRule {
  template <typename V>
  static V term(V y, V dy) {
    return kLog ? dy : y * dy;
  }
  /// Returns dx from y (exp(y) for log_softmax), dy and the sum of the terms.
  template <typename V>
  static V gradient(V y, V dy, V sum) {
    return kLog ? dy - y * sum : y * (dy - sum);
  }
};

/// Loads `count` values of y, or of exp(y) for log_softmax, into a buffer.
template <bool kLog, typename T>
const Compute<T>* load_probabilities(const T* y, int64_t count, Compute<T>* buffer) {
  const Compute<T>* values = load_values(y, 1, count, buffer);
  if constexpr (!kLog) return values;
  exp_shifted(values, count, Compute<T>(0), buffer);
  return buffer;
}

/// Returns the sum of n values of a, or of their products with b, in four registers.
template <bool kProducts, typename V>
double sum_of_row(const V* a, [[maybe_unused]] const V* b, int64_t n) {
  using B = xsimd::batch<V>;
  constexpr int64_t kSize = int64_t(B::size);
  B sums[4] = {V(0), V(0), V(0), V(0)};
  const auto term = [&](auto x, auto y) {
    if constexpr (kProducts)
      return x * y;
    else
      return x;
  };
  int64_t i = 0;
  for (; i + 4 * kSize <= n; i += 4 * kSize)
    unrolled<4>([&](auto k) {
      const int64_t at = i + k() * kSize;
      sums[k()] += term(B::load_unaligned(a + at), B::load_unaligned((kProducts ? b : a) + at));
    });
  for (; i + kSize <= n; i += kSize)
    sums[0] += term(B::load_unaligned(a + i), B::load_unaligned((kProducts ? b : a) + i));
  if (const int64_t rest = n - i; rest > 0) {
    const B zero(V(0));
    sums[1] += term(load_first(a + i, rest, zero), load_first((kProducts ? b : a) + i, rest, zero));
  }
  return double(xsimd::hadd((sums[0] + sums[1]) + (sums[2] + sums[3])));
}

template <bool kLog, typename T>
void softmax_row_backward(const T* y, const T* dy, int64_t n, T* dx) {
  using V = Compute<T>;
  using Rule = SoftmaxRule<kLog>;
  alignas(64) V y_buffer[kBlock], dy_buffer[kBlock];
  double total = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    const V* ys = kLog ? dy_buffer : load_values(y + i, 1, count, y_buffer);
    const V* dys = load_values(dy + i, 1, count, dy_buffer);
    total += sum_of_row<!kLog>(dys, ys, count);
  }
  const V sum = V(total);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    const V* ys = load_probabilities<kLog>(y + i, count, y_buffer);
    const V* dys = load_values(dy + i, 1, count, dy_buffer);
    alignas(64) V buffer[kIsHalf<T> ? kBlock : 1];
    V* results = place_values(dx + i, buffer);
#pragma omp simd  // dx may be dy
    for (int64_t j = 0; j < count; ++j) results[j] = Rule::gradient(ys[j], dys[j], sum);
    store_values(results, count, dx + i);
  }
}

template <bool kLog, typename T>
void strip_backward(const T* y, const T* dy, int64_t n, int64_t step, int64_t count, T* dx) {
  using V = Compute<T>;
  using Rule = SoftmaxRule<kLog>;
  alignas(64) V y_buffer[kStrip], dy_buffer[kStrip], results[kStrip];
  double sum[kStrip];
  std::fill_n(sum, count, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    const V* ys = load_values(y + i * step, 1, count, y_buffer);
    const V* dys = load_values(dy + i * step, 1, count, dy_buffer);
    for (int64_t j = 0; j < count; ++j) sum[j] += double(Rule::term(ys[j], dys[j]));
  }
  for (int64_t i = 0; i < n; ++i) {
    const V* ys = load_probabilities<kLog>(y + i * step, count, y_buffer);
    const V* dys = load_values(dy + i * step, 1, count, dy_buffer);
    for (int64_t j = 0; j < count; ++j) results[j] = Rule::gradient(ys[j], dys[j], V(sum[j]));
    narrow(results, count, dx + i * step);
  }
}

template <bool kLog, typename T>
void softmax_backward(const Tensor& y, const Tensor& dy, Tensor& dx) {
  if (y.numel() == 0) return;
  const int64_t n = y.shape()[1], inner = y.shape()[2];
  if constexpr (std::is_same_v<T, float>)
    if (n < kShortRow || (inner == 1 && n <= kMiddleRow)) {
      constexpr auto kShort = kLog ? log_softmax_short_backward : softmax_short_backward;
      constexpr auto kMiddle = kLog ? log_softmax_middle_backward : softmax_middle_backward;
      return (n < kShortRow ? kShort : kMiddle)(y.data<T>(), dy.data<T>(), {y.shape()[0], n, inner},
                                                dx.data<T>());
    }
  for_each_strip(
      y.shape(),
      [&](int64_t i) {
        softmax_row_backward<kLog>(y.data<T>() + i * n, dy.data<T>() + i * n, n,
                                   dx.data<T>() + i * n);
      },
      [&](int64_t i, int64_t first, int64_t count) {
        const int64_t at = i * n * inner + first;
        strip_backward<kLog>(y.data<T>() + at, dy.data<T>() + at, n, inner, count,
                             dx.data<T>() + at);
      });
}

}  // namespace

void register_softmax() {
  set<kernels::softmax>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) {
    softmax_forward<Goal::kSoftmax, T>(a...);
  });
  set<kernels::log_softmax>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) {
    softmax_forward<Goal::kLogSoftmax, T>(a...);
  });
  set<kernels::logsumexp>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) {
    softmax_forward<Goal::kLogSumExp, T>(a...);
  });
  set<kernels::softmax_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { softmax_backward<false, T>(a...); });
  set<kernels::log_softmax_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { softmax_backward<true, T>(a...); });

  constexpr auto kForward = [](const Tensor& x, const Tensor&) { return rows_along(x); };
  constexpr auto kBackward = [](const Tensor& y, const Tensor&, const Tensor&) {
    return rows_along(y);
  };
  set_independent_rows<kernels::softmax, 0b11, kForward>(kFloatTypes);
  set_independent_rows<kernels::log_softmax, 0b11, kForward>(kFloatTypes);
  set_independent_rows<kernels::logsumexp, 0b11, kForward>(kFloatTypes);
  set_independent_rows<kernels::softmax_backward, 0b111, kBackward>(kFloatTypes);
  set_independent_rows<kernels::log_softmax_backward, 0b111, kBackward>(kFloatTypes);
}

}  // namespace tapegrad::backends::cpu
