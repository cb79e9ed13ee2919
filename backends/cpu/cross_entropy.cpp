// Cross entropy with class ids, of rows of classes and of planes of pixels.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/map.h"
#include "backends/cpu/tools/reduce_block.h"
#include "backends/cpu/tools/reducers.h"
#include "backends/cpu/tools/short_rows.h"
#include "ops/loss.h"

namespace tapegrad::backends::cpu {
namespace {

using formulas::Functions;

/// Returns exp(x) for x <= 0 as a factor of a gradient: 0 below exp(-80) in float, so that the
/// product with a small gradient, such as that of a mean, is not subnormal either.
template <typename C>
xsimd::batch<C> share_of(xsimd::batch<C> x) {
  using B = xsimd::batch<C>;
  if constexpr (std::is_same_v<C, float>)
    x = xsimd::select(x < B(-80.0f), B(-std::numeric_limits<float>::infinity()), x);
  return functions::exp_of_negative(x);
}

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

/// Returns the sum over the classes of w_c (log sum - (x_c - top)).
template <typename T, typename C = Compute<T>>
C sum_of_losses(const T* row, int64_t classes, const C* w, C top, C log_sum) {
  using B = Batch<T>;
  B sums(C(0));
  int64_t c = 0;
  for (; c + kLanes<T> <= classes; c += kLanes<T>) {
    const B losses = B(log_sum) - (load_batch(row + c) - B(top));
    sums += w != nullptr ? losses * B::load_unaligned(w + c) : losses;
  }
  C sum = sum_lanes<C>(sums);
  for (; c < classes; ++c) sum += (w != nullptr ? w[c] : C(1)) * (log_sum - (C(row[c]) - top));
  return sum;
}

/// Computes the losses and statistics of up to kTileOfRows short rows, whose lanes are independent.
void loss_of_tile(const float* x, const int64_t* ids, int64_t rows, int64_t classes, const float* w,
                  int64_t ignored, float* losses, float* tops, float* logs) {
  using B = Batch<float>;
  B columns[kShortRow], top(-std::numeric_limits<float>::infinity()), sums(0.0f);
  load_columns(x, rows, classes, columns);
  for (int64_t c = 0; c < classes; ++c)  // NaN is the largest
    top = xsimd::select(!(columns[c] <= top) && top == top, columns[c], top);
  for (int64_t c = 0; c < classes; ++c) sums += functions::exp_of_negative(columns[c] - top);
  const B log_sum = Functions<B>::log(sums);
  alignas(64) float lanes[2][kTileOfRows];
  top.store_aligned(lanes[0]), log_sum.store_aligned(lanes[1]);
  for (int64_t r = 0; r < rows; ++r) {
    tops[r] = lanes[0][r], logs[r] = lanes[1][r];
    const int64_t id = ids[r];
    losses[r] = id == ignored
                    ? 0.0f
                    : (w != nullptr ? w[id] : 1.0f) * (logs[r] - (x[r * classes + id] - tops[r]));
  }
}

/// Rows per task.
int64_t rows_per_block(int64_t classes) { return std::max<int64_t>(1, 8192 / (classes + 1)); }

/// The loss of a row is the sum of q_c (log sum - (x_c - top)), with q_c = w_c ((1 - smoothing)
/// [c = target] + smoothing / classes).
template <typename T>
void of_rows(const Tensor& x, const Tensor& target, const Tensor& weight,
             const CrossEntropySpec& spec, Tensor& losses, Tensor& statistics) {
  using C = Compute<T>;
  using B = Batch<T>;
  const int64_t rows = target.numel(), classes = x.shape()[2];
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
                   [&](int64_t, B v) { sums += functions::exp_of_negative(v - B(top)); });
    const C log_sum = std::log(sum_lanes<C>(sums));
    tops[r] = top;
    logs[r] = log_sum;
    if (ids[r] == spec.ignore_index) {
      out[r] = 0;
      return;
    }
    const int64_t id = ids[r];
    C loss = hit * (w != nullptr ? w[id] : C(1)) * (log_sum - (C(row[id]) - top));
    if (share > 0) loss += share * sum_of_losses(row, classes, w, top, log_sum);
    out[r] = loss;
  };
  if constexpr (std::is_same_v<T, float>)
    if (classes < kShortRow && share == 0)
      return for_each_tile_of_rows(rows, classes, kParallel, [&](int64_t first, int64_t count) {
        loss_of_tile(in + first * classes, ids + first, count, classes, w, spec.ignore_index,
                     out + first, tops + first, logs + first);
      });
  for_each_block(rows, rows_per_block(classes), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) row_loss(r);
  });
}

/// Computes dx_c = g (Q p_c - q_c), with p the softmax and Q the sum of q.
template <typename T>
void gradient_of_rows(const Tensor& x, const Tensor& target, const Tensor& weight,
                      const CrossEntropySpec& spec, const Tensor& statistics, const Tensor& dy,
                      const Tensor& scale, Tensor& dx) {
  using C = Compute<T>;
  using B = Batch<T>;
  const int64_t rows = target.numel(), classes = x.shape()[2];
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
      const B p = total * share_of<C>((v - B(top)) - B(log_sum));
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

// Classes as planes, [examples, classes, pixels]: the lanes of a vector are neighbouring pixels.

/// Batches per block of pixels. The block of one class is a few cache lines.
constexpr int64_t kBatches = 4;

/// The pixels of a block: those from `first` on of one example, at most kBatches * kLanes.
template <typename T>
struct PixelBlock {
  int64_t first, count;   // rows
  int64_t start, stride;  // in elements: of the block in class 0, from class to class
};

/// Calls visit(block) for all blocks, in parallel.
template <typename T, typename Visit>
void for_each_pixel_block(const Tensor& x, const Visit& visit) {
  constexpr int64_t kPixels = kBatches * kLanes<T>;
  const int64_t pixels = x.shape()[1], classes = x.shape()[2];
  const int64_t blocks = (pixels + kPixels - 1) / kPixels;
  for_each_block(
      x.shape()[0] * blocks, std::max<int64_t>(1, 8192 / (kPixels * (classes + 1))),
      [&](int64_t from, int64_t to) {
        for (int64_t b = from; b < to; ++b) {
          const int64_t example = b / blocks, pixel = b % blocks * kPixels;
          visit(PixelBlock<T>{example * pixels + pixel, std::min(kPixels, pixels - pixel),
                              example * pixels * classes + pixel, pixels});
        }
      });
}

/// Calls visit(k, batch) for batch k of the pixels of a class. Lanes beyond the block are 0.
template <typename T, typename Visit>
void for_each_lanes(const T* from, int64_t count, const Visit& visit) {
  for (int64_t k = 0; k * kLanes<T> < count; ++k) {
    const int64_t left = count - k * kLanes<T>;
    visit(k, left >= kLanes<T> ? load_batch(from + k * kLanes<T>)
                               : load_some(from + k * kLanes<T>, left));
  }
}

template <typename T>
void of_planes(const Tensor& x, const Tensor& target, const Tensor& weight,
               const CrossEntropySpec& spec, Tensor& losses, Tensor& statistics) {
  using C = Compute<T>;
  using B = Batch<T>;
  const int64_t classes = x.shape()[2];
  const T* in = x.data<T>();
  const int64_t* ids = target.data<int64_t>();
  const C* w = weight ? weight.data<C>() : nullptr;
  C *out = losses.data<C>(), *tops = statistics.data<C>(), *logs = tops + target.numel();
  const C hit(1 - spec.label_smoothing), share(spec.label_smoothing / double(classes));

  for_each_pixel_block<T>(x, [&](const PixelBlock<T>& block) {
    const T* from = in + block.start;
    B top[kBatches], sum[kBatches], shared[kBatches];
    for (int64_t k = 0; k < kBatches; ++k) {
      top[k] = B(-std::numeric_limits<C>::infinity());
      sum[k] = shared[k] = B(C(0));
    }
    for (int64_t c = 0; c < classes; ++c)  // NaN is the largest
      for_each_lanes(from + c * block.stride, block.count, [&](int64_t k, B v) {
        top[k] = xsimd::select(v > top[k] || v != v, v, top[k]);
      });
    for (int64_t c = 0; c < classes; ++c)
      for_each_lanes(from + c * block.stride, block.count,
                     [&](int64_t k, B v) { sum[k] += functions::exp_of_negative(v - top[k]); });
    for (B& s : sum) s = Functions<B>::log(s);
    for (int64_t c = 0; share > 0 && c < classes; ++c) {
      const B part(share * (w != nullptr ? w[c] : C(1)));
      for_each_lanes(from + c * block.stride, block.count,
                     [&](int64_t k, B v) { shared[k] += part * (sum[k] - (v - top[k])); });
    }
    alignas(64) C lanes[3][kBatches * kLanes<T>];
    for (int64_t k = 0; k < kBatches; ++k) {
      top[k].store_aligned(lanes[0] + k * kLanes<T>);
      sum[k].store_aligned(lanes[1] + k * kLanes<T>);
      shared[k].store_aligned(lanes[2] + k * kLanes<T>);
    }
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t r = block.first + i, id = ids[r];
      tops[r] = lanes[0][i];
      logs[r] = lanes[1][i];
      if (id == spec.ignore_index) {
        out[r] = 0;
        continue;
      }
      const C at_target(from[id * block.stride + i]);
      out[r] = hit * (w != nullptr ? w[id] : C(1)) * (lanes[1][i] - (at_target - lanes[0][i])) +
               lanes[2][i];
    }
  });
}

template <typename T>
void gradient_of_planes(const Tensor& x, const Tensor& target, const Tensor& weight,
                        const CrossEntropySpec& spec, const Tensor& statistics, const Tensor& dy,
                        const Tensor& scale, Tensor& dx) {
  using C = Compute<T>;
  using B = Batch<T>;
  const int64_t classes = x.shape()[2];
  const T *in = x.data<T>(), *up = dy.data<T>();
  T* out = dx.data<T>();
  const int64_t* ids = target.data<int64_t>();
  const C* w = weight ? weight.data<C>() : nullptr;
  const C *tops = statistics.data<C>(), *logs = tops + target.numel();
  const C times = scale ? scale.data<C>()[0] : C(1);
  const int64_t up_step = scale || dy.rank() == 0 ? 0 : 1;
  const C hit(1 - spec.label_smoothing), share(spec.label_smoothing / double(classes));
  C all_shares = 0;
  for (int64_t c = 0; share > 0 && c < classes; ++c) all_shares += share * (w ? w[c] : C(1));

  for_each_pixel_block<T>(x, [&](const PixelBlock<T>& block) {
    alignas(64) C top[kBatches * kLanes<T>] = {}, log_sum[kBatches * kLanes<T>] = {};
    alignas(64) C g[kBatches * kLanes<T>] = {}, total[kBatches * kLanes<T>] = {};
    bool ignores = false;
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t r = block.first + i;
      top[i] = tops[r];
      log_sum[i] = logs[r];
      if (ids[r] == spec.ignore_index) {
        ignores = true;
        continue;
      }
      g[i] = C(up[r * up_step]) * times;
      total[i] = (hit * (w != nullptr ? w[ids[r]] : C(1)) + all_shares) * g[i];
    }
    const int64_t start = block.start;
    for (int64_t c = 0; c < classes; ++c) {
      const B part(share * (w != nullptr ? w[c] : C(1)));
      T* to = out + start + c * block.stride;
      for_each_lanes(in + start + c * block.stride, block.count, [&](int64_t k, B v) {
        const int64_t i = k * kLanes<T>;
        const B shifted = (v - B::load_aligned(top + i)) - B::load_aligned(log_sum + i);
        const B p =
            B::load_aligned(total + i) * share_of<C>(shifted) - part * B::load_aligned(g + i);
        if (block.count - i >= kLanes<T>)
          store_batch(to + i, p);
        else
          store_some(to + i, block.count - i, p);
      });
    }
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t id = ids[block.first + i];
      if (id == spec.ignore_index) continue;
      const C weighted = w != nullptr ? w[id] : C(1), hit_weight = hit * weighted;
      const int64_t at = start + id * block.stride + i;
      const C p = std::exp((C(in[at]) - top[i]) - log_sum[i]);
      out[at] = T(g[i] * ((hit_weight + all_shares) * p - hit_weight - share * weighted));
    }
    for (int64_t i = 0; ignores && i < block.count; ++i)
      for (int64_t c = 0; ids[block.first + i] == spec.ignore_index && c < classes; ++c)
        out[start + c * block.stride + i] = T(0);
  });
}

/// Returns whether the classes of an example are planes of pixels, and not neighbours.
bool has_planes(const Tensor& x) { return x.shape()[1] > 1 && x.strides()[2] != 1; }

template <typename T>
void cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                   const CrossEntropySpec& spec, Tensor& losses, Tensor& statistics) {
  if (target.numel() == 0) return;
  (has_planes(x) ? of_planes<T> : of_rows<T>)(x, target, weight, spec, losses, statistics);
}

template <typename T>
void cross_entropy_backward(const Tensor& x, const Tensor& target, const Tensor& weight,
                            const CrossEntropySpec& spec, const Tensor& statistics,
                            const Tensor& dy, const Tensor& scale, Tensor& dx) {
  if (target.numel() == 0) return;
  (has_planes(x) ? gradient_of_planes<T> : gradient_of_rows<T>)(x, target, weight, spec, statistics,
                                                                dy, scale, dx);
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

}  // namespace

void register_cross_entropy() {
  set<kernels::cross_entropy>(kFloatTypes,
                              []<typename T>(TypeTag<T>, auto&... a) { cross_entropy<T>(a...); });
  set<kernels::cross_entropy_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { cross_entropy_backward<T>(a...); });
  set<kernels::cross_entropy_reduce>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { cross_entropy_reduce<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
