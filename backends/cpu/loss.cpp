#include "ops/loss.h"
#include "ops/activation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/map.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/reducers.h"
#include "core/base/error.h"

namespace tapegrad::backends::cpu {
namespace {

using formulas::Functions;

/// Calls visit(i, batch) for the batches of a row; lanes beyond its end hold `rest`.
template <typename T, typename Visit>
void for_each_batch(const T* row, int64_t count, Compute<T> rest, const Visit& visit) {
  int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) visit(i, load_batch(row + i));
  if (i == count) return;
  alignas(64) Compute<T> lanes[kLanes<T>];
  for (int64_t k = 0; k < kLanes<T>; ++k)
    lanes[k] = i + k < count ? static_cast<Compute<T>>(row[i + k]) : rest;
  visit(i, Batch<T>::load_aligned(lanes));
}

template <typename C>
C sum_lanes(xsimd::batch<C> values) {
  alignas(64) C lanes[xsimd::batch<C>::size];
  values.store_aligned(lanes);
  C sum = 0;
  for (const C lane : lanes) sum += lane;
  return sum;
}

/// Rows per task.
int64_t rows_per_block(int64_t classes) { return std::max<int64_t>(1, 8192 / (classes + 1)); }

/// The loss of a row is the sum of q_c (log sum - (x_c - top)), with q_c = w_c ((1 - smoothing)
/// [c = target] + smoothing / classes).
template <typename T>
void cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                   const CrossEntropySpec& spec, Tensor& losses, Tensor& statistics) {
  using C = Compute<T>;
  using B = Batch<T>;
  const int64_t rows = target.numel();
  if (rows == 0) return;
  const int64_t classes = x.shape()[x.rank() - 1];
  const T* in = x.data<T>();
  const int64_t* ids = target.data<int64_t>();
  const C* w = weight ? weight.data<C>() : nullptr;
  C *out = losses.data<C>(), *tops = statistics.data<C>(), *logs = tops + rows;
  const C hit(1 - spec.label_smoothing), share(spec.label_smoothing / double(classes));
  constexpr C kLow = -std::numeric_limits<C>::infinity();

  const auto row_loss = [&](int64_t r) {
    const T* row = in + r * classes;
    C buffer[kBlock], top = kLow;
    const ExtremeOf<T, true> extreme;  // NaN is the largest
    for (int64_t c = 0; c < classes; c += kBlock) {
      const int64_t count = std::min(kBlock, classes - c);
      top = extreme.join(top, reduce_block(extreme, load_values(row + c, 1, count, buffer), count));
    }
    B sums(C(0));
    for_each_batch(row, classes, kLow,
                   [&](int64_t, B v) { sums += Functions<B>::exp(v - B(top)); });
    const C log_sum = std::log(sum_lanes<C>(sums));
    tops[r] = top;
    logs[r] = log_sum;
    if (ids[r] == spec.ignore_index) {
      out[r] = 0;
      return;
    }
    const int64_t id = ids[r];
    C loss = hit * (w != nullptr ? w[id] : C(1)) * (log_sum - (C(row[id]) - top));
    if (share > 0)
      for (int64_t c = 0; c < classes; ++c)
        loss += share * (w != nullptr ? w[c] : C(1)) * (log_sum - (C(row[c]) - top));
    out[r] = loss;
  };
  for_each_block(rows, rows_per_block(classes), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) row_loss(r);
  });
}

/// dx_c = g (Q p_c - q_c), with p the softmax and Q the sum of q.
template <typename T>
void cross_entropy_backward(const Tensor& x, const Tensor& target, const Tensor& weight,
                            const CrossEntropySpec& spec, const Tensor& statistics,
                            const Tensor& dy, const Tensor& scale, Tensor& dx) {
  using C = Compute<T>;
  using B = Batch<T>;
  const int64_t rows = target.numel();
  if (rows == 0) return;
  const int64_t classes = x.shape()[x.rank() - 1];
  const T *in = x.data<T>(), *up = dy.data<T>();
  T* out = dx.data<T>();
  const int64_t* ids = target.data<int64_t>();
  const C* w = weight ? weight.data<C>() : nullptr;
  const C *tops = statistics.data<C>(), *logs = tops + rows;
  const C times = scale ? scale.data<C>()[0] : C(1);
  const int64_t up_step = scale || dy.rank() == 0 ? 0 : 1;
  const C hit(1 - spec.label_smoothing), share(spec.label_smoothing / double(classes));
  C all_shares = 0;
  for (int64_t c = 0; share > 0 && c < classes; ++c) all_shares += share * (w ? w[c] : C(1));

  const auto row_gradient = [&](int64_t r) {
    T* to = out + r * classes;
    if (ids[r] == spec.ignore_index) {
      std::fill_n(to, classes, T(0));
      return;
    }
    const T* row = in + r * classes;
    const C g = C(up[r * up_step]) * times, top = tops[r], log_sum = logs[r];
    const C hit_weight = hit * (w != nullptr ? w[ids[r]] : C(1));
    const B total((hit_weight + all_shares) * g);
    for_each_batch(row, classes, C(0), [&](int64_t i, B v) {
      const B p = total * Functions<B>::exp((v - B(top)) - B(log_sum));
      if (i + kLanes<T> <= classes)
        store_batch(to + i, p);
      else
        store_some(to + i, classes - i, p);
    });
    const C at_target = C(row[ids[r]]);
    if (share > 0)
      for (int64_t c = 0; c < classes; ++c)
        to[c] = T(C(to[c]) - g * share * (w != nullptr ? w[c] : C(1)));
    // Computed again from the softmax, because to[] is rounded for sixteen-bit types.
    const C p = std::exp((at_target - top) - log_sum);
    const C own = share * (w != nullptr ? w[ids[r]] : C(1));
    to[ids[r]] = T(g * ((hit_weight + all_shares) * p - hit_weight - own));
  };
  for_each_block(rows, rows_per_block(classes), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) row_gradient(r);
  });
}

/// Sums in double, in the order of the rows.
template <typename T>
void cross_entropy_reduce(Tensor& y, const Tensor& losses, const Tensor& target,
                          const Tensor& weight, int64_t ignore_index, Tensor& scale) {
  using C = Compute<T>;
  const C* in = losses.data<C>();
  const int64_t* ids = target.data<int64_t>();
  const C* w = weight ? weight.data<C>() : nullptr;
  double sum = 0, weights = 0;
  for (int64_t r = 0; r < losses.numel(); ++r) {
    sum += double(in[r]);
    if (ids[r] != ignore_index) weights += w != nullptr ? double(w[ids[r]]) : 1.0;
  }
  if (scale) {
    scale.data<C>()[0] = C(1 / weights);
    sum /= weights;
  }
  y.data<T>()[0] = T(C(sum));
}

struct BinaryCrossEntropy {
  template <typename V>
  V operator()(V x, V t) const {
    const V low(-100);
    const V hit = xsimd::max(Functions<V>::log(x), low);
    const V miss = xsimd::max(Functions<V>::log1p(Functions<V>::negative(x)), low);
    return Functions<V>::negative(t * hit + (V(1) - t) * miss);
  }
};

struct LogSigmoid {
  template <typename V>
  V operator()(V x) const {
    const V decayed = Functions<V>::exp(Functions<V>::negative(Functions<V>::abs(x)));
    return xsimd::min(x, V(0)) - Functions<V>::log1p(decayed);
  }
};

template <typename T>
void check_classes(const Tensor& target, std::string_view op, int64_t classes,
                   int64_t ignore_index) {
  const T* ids = target.data<T>();
  for (int64_t i = 0; i < target.numel(); ++i)
    if (ids[i] != ignore_index && (ids[i] < 0 || ids[i] >= classes)) [[unlikely]]
      fail<IndexError>(op, ": target ", i, " is ", ids[i], ", not one of ", classes, " classes");
}

template <typename T>
void check_unit(const Tensor& x, std::string_view op) {
  const Tensor dense = x.contiguous();
  const T* values = dense.data<T>();
  for (int64_t i = 0; i < dense.numel(); ++i) {
    const Compute<T> value(values[i]);
    if (!(value >= 0 && value <= 1)) [[unlikely]]
      fail<ArgumentError>(op, ": element ", i, " of the input is ", value, ", not a probability");
  }
}

}  // namespace

void register_loss() {
  set<kernels::check_classes>(TypeList<int64_t>{},
                              []<typename T>(Type<T>, auto&... a) { check_classes<T>(a...); });
  set<kernels::check_unit>(kFloatTypes,
                           []<typename T>(Type<T>, auto&... a) { check_unit<T>(a...); });
  set<kernels::cross_entropy>(kFloatTypes,
                              []<typename T>(Type<T>, auto&... a) { cross_entropy<T>(a...); });
  set<kernels::cross_entropy_backward>(
      kFloatTypes, []<typename T>(Type<T>, auto&... a) { cross_entropy_backward<T>(a...); });
  set<kernels::cross_entropy_reduce>(
      kFloatTypes, []<typename T>(Type<T>, auto&... a) { cross_entropy_reduce<T>(a...); });
  set<kernels::binary_cross_entropy>(
      kFloatTypes, []<typename T>(Type<T>, const Tensor& x, const Tensor& target, Tensor& y) {
        map<T>(BinaryCrossEntropy{}, y, x, target);
      });
  set<kernels::log_sigmoid>(kFloatTypes, []<typename T>(Type<T>, const Tensor& x, Tensor& y) {
    map<T>(LogSigmoid{}, y, x);
  });
}

}  // namespace tapegrad::backends::cpu
