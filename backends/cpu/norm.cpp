#include "ops/norm.h"

#include <cmath>

#include "backends/cpu/fast/norm_packed.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/reducers.h"

namespace tapegrad::backends::cpu {
namespace {

template <typename T>
void channel_moments(const Tensor& x, Tensor& mean, Tensor& var) {
  using V = Compute<T>;
  if constexpr (std::is_same_v<T, float>)
    if (const auto values = packed_values(x))
      return channel_moments_packed(*values, mean.data<V>(), var.data<V>());
  const int64_t channels = x.shape()[1];
  const double count = double(x.shape()[0] * x.shape()[2]);
  const Tensor shape = mean.with_layout({{1, channels, 1}, {channels, 1, 1}, 0});
  std::vector<double> means(channels);
  reduce<T>(WideSumOf<T>{}, x, shape, [&, out = mean.data<V>()](int64_t i, double total) {
    means[i] = total / count;
    out[i] = V(means[i]);
  });
  reduce<T>(
      SquaresOf<T>{}, x, shape,
      [=, out = var.data<V>()](int64_t i, double total) { out[i] = V(total / count); },
      means.data());
}

/// Splits x [n, channels, size] into runs of one channel each or, if size is 1, of many channels.
/// Calls run(offset, first channel, count) with at most kBlock elements.
template <typename Run>
void for_each_run(const Shape& shape, Run run) {
  const int64_t channels = shape[1], size = shape[2];
  const int64_t row = size == 1 ? channels : size;  // consecutive elements that form a run
  const int64_t rows = size == 1 ? shape[0] : shape[0] * channels;
#pragma omp parallel for if (rows * row > kParallel)
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < row; j += kBlock)
      run(i * row + j, size == 1 ? j : i % channels, std::min(kBlock, row - j));
}

/// A channel's value: one for the whole run, or one for each element.
template <bool kColumns, typename V>
V at(const V* numbers, int64_t j) {
  return kColumns ? numbers[j] : *numbers;
}

template <bool kColumns, typename T>
void normalize(const Tensor& x, const Compute<T>* mean, const Compute<T>* scale,
               const Compute<T>* shift, Tensor& y) {
  using V = Compute<T>;
  for_each_run(x.shape(), [=, from = x.data<T>(), to = y.data<T>()](int64_t offset, int64_t channel,
                                                                    int64_t count) {
    V buffer[kBlock], results[kBlock];
    const V* xs = load_values(from + offset, 1, count, buffer);
    const V *m = mean + channel, *s = scale + channel, *b = shift + channel;
    for (int64_t j = 0; j < count; ++j)
      results[j] = (xs[j] - at<kColumns>(m, j)) * at<kColumns>(s, j) + at<kColumns>(b, j);
    narrow(results, count, to + offset);
  });
}

template <typename T>
void batch_norm(const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& weight,
                const Tensor& bias, Tensor& y) {
  using V = Compute<T>;
  const int64_t channels = x.shape()[1];
  std::vector<V> scale = numbers_of<V>(weight, channels, 1);
  const std::vector<V> shift = numbers_of<V>(bias, channels, 0);
  for (int64_t c = 0; c < channels; ++c) scale[c] *= invstd.data<V>()[c];
  if constexpr (std::is_same_v<T, float>)
    if (const auto values = packed_values(x); values && can_be_packed(y, values->packing.block)) {
      normalize_packed(*values, mean.data<V>(), scale.data(), shift.data(), y.data<T>());
      return y.storage().set_packed(values->packing);
    }
  const auto run = x.shape()[2] == 1 ? normalize<true, T> : normalize<false, T>;
  run(x, mean.data<V>(), scale.data(), shift.data(), y);
}

/// For each channel, the sum of dy and the sum of dy * (x - mean) * invstd.
template <typename T>
void channel_sums(const Tensor& x, const Tensor& dy, const Compute<T>* mean,
                  const Compute<T>* invstd, double* sums, double* products) {
  using V = Compute<T>;
  constexpr int64_t kStrip = 256;
  const int64_t n = x.shape()[0], channels = x.shape()[1], size = x.shape()[2];
  const T *xs = x.data<T>(), *dys = dy.data<T>();
  if (size == 1) {
#pragma omp parallel for if (x.numel() > kParallel)
    for (int64_t first = 0; first < channels; first += kStrip) {
      const int64_t count = std::min(kStrip, channels - first);
      V x_buffer[kStrip], dy_buffer[kStrip];
      for (int64_t i = 0; i < n; ++i) {
        const V* xv = load_values(xs + i * channels + first, 1, count, x_buffer);
        const V* dyv = load_values(dys + i * channels + first, 1, count, dy_buffer);
        for (int64_t j = 0; j < count; ++j) {
          sums[first + j] += double(dyv[j]);
          products[first + j] += double(dyv[j] * ((xv[j] - mean[first + j]) * invstd[first + j]));
        }
      }
    }
    return;
  }
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t c = 0; c < channels; ++c) {
    V x_buffer[kBlock], dy_buffer[kBlock], terms[kBlock];
    double sum = 0, product = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t start = 0; start < size; start += kBlock) {
        const int64_t count = std::min(kBlock, size - start);
        const int64_t offset = (i * channels + c) * size + start;
        const V* xv = load_values(xs + offset, 1, count, x_buffer);
        const V* dyv = load_values(dys + offset, 1, count, dy_buffer);
        for (int64_t j = 0; j < count; ++j) terms[j] = dyv[j] * ((xv[j] - mean[c]) * invstd[c]);
        sum += reduce_block(SumOf<V>{}, dyv, count);
        product += reduce_block(SumOf<V>{}, terms, count);
      }
    }
    sums[c] = sum;
    products[c] = product;
  }
}

/// dx = scale * (dy - shift - (x - mean) * slope)
template <bool kColumns, typename T>
void input_gradient(const Tensor& x, const Tensor& dy, const Compute<T>* mean,
                    const Compute<T>* scale, const Compute<T>* shift, const Compute<T>* slope,
                    Tensor& dx) {
  using V = Compute<T>;
  for_each_run(x.shape(), [=, xs = x.data<T>(), dys = dy.data<T>(), to = dx.data<T>()](
                              int64_t offset, int64_t c, int64_t count) {
    V x_buffer[kBlock], dy_buffer[kBlock], results[kBlock];
    const V* xv = load_values(xs + offset, 1, count, x_buffer);
    const V* dyv = load_values(dys + offset, 1, count, dy_buffer);
    const V *m = mean + c, *s = scale + c, *b = shift + c, *k = slope + c;
    for (int64_t j = 0; j < count; ++j)
      results[j] = at<kColumns>(s, j) * (dyv[j] - at<kColumns>(b, j) -
                                         (xv[j] - at<kColumns>(m, j)) * at<kColumns>(k, j));
    narrow(results, count, to + offset);
  });
}

template <typename T>
void batch_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& mean_tensor,
                         const Tensor& invstd_tensor, const Tensor& weight, bool training,
                         Tensor& dx, Tensor& dweight, Tensor& dbias) {
  using V = Compute<T>;
  const int64_t channels = x.shape()[1];
  const double count = double(x.shape()[0] * x.shape()[2]);
  const V *mean = mean_tensor.data<V>(), *invstd = invstd_tensor.data<V>();
  // Both as one of them lies, if dx may too.
  std::optional<PackedValues> packed_x, packed_dy;
  if constexpr (std::is_same_v<T, float>) {
    packed_x = packed_values(x), packed_dy = packed_values(dy);
    const auto& known = packed_x ? packed_x : packed_dy;
    if (known && (!dx || can_be_packed(dx, known->packing.block))) {
      if (!packed_x) packed_x = pack(x, known->packing);
      if (!packed_dy) packed_dy = pack(dy, known->packing);
    }
  }
  const bool packed = packed_x && packed_dy && packed_x->packing == packed_dy->packing &&
                      (!dx || can_be_packed(dx, packed_x->packing.block));
  std::vector<double> sums(channels), products(channels);
  if (dweight || dbias || training) {
    if constexpr (std::is_same_v<T, float>) {
      if (packed)
        channel_sums_packed(*packed_x, *packed_dy, mean, invstd, sums.data(), products.data());
    }
    if (!packed) channel_sums<T>(x, dy, mean, invstd, sums.data(), products.data());
  }
  for (int64_t c = 0; c < channels; ++c) {
    if (dweight) dweight.data<V>()[c] = V(products[c]);
    if (dbias) dbias.data<V>()[c] = V(sums[c]);
  }
  if (!dx) return;
  std::vector<V> scale = numbers_of<V>(weight, channels, 1), shift(channels), slope(channels);
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] *= invstd[c];
    if (!training) continue;
    shift[c] = V(sums[c] / count);
    slope[c] = V(products[c] / count * double(invstd[c]));
  }
  if constexpr (std::is_same_v<T, float>)
    if (packed) {
      input_gradient_packed(*packed_x, *packed_dy, mean, scale.data(), shift.data(), slope.data(),
                            dx.data<T>());
      return dx.storage().set_packed(packed_x->packing);
    }
  const auto run = x.shape()[2] == 1 ? input_gradient<true, T> : input_gradient<false, T>;
  run(x, dy, mean, scale.data(), shift.data(), slope.data(), dx);
}

}  // namespace

void register_layer_norm();  // defined in layer_norm.cpp

void register_norm() {
  constexpr DeviceType kCpu = DeviceType::kCpu;
  kernels::channel_moments.set_takes_packed();
  kernels::batch_norm.set_takes_packed();
  kernels::batch_norm_backward.set_takes_packed();
  set_kernel(kernels::channel_moments, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& x, Tensor& mean, Tensor& var) {
               channel_moments<T>(x, mean, var);
             });
  set_kernel(kernels::batch_norm, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                            const Tensor& weight, const Tensor& bias,
                            Tensor& y) { batch_norm<T>(x, mean, invstd, weight, bias, y); });
  set_kernel(kernels::batch_norm_backward, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& x, const Tensor& dy, const Tensor& mean,
                            const Tensor& invstd, const Tensor& weight, bool training, Tensor& dx,
                            Tensor& dweight, Tensor& dbias) {
               batch_norm_backward<T>(x, dy, mean, invstd, weight, training, dx, dweight, dbias);
             });
  register_layer_norm();
}

}  // namespace tapegrad::backends::cpu
