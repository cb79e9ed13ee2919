#include "ops/norm.h"

#include <algorithm>

#include "backends/cpu/fast/norm_packed.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/map.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/reducers.h"
#include "core/dispatch/implementations.h"
#include "ops/internal/running_statistics.h"

namespace tapegrad::backends::cpu {
namespace {

template <Packable T>
struct ChannelMomentsPacked {
  static constexpr std::string_view kName = "packed";
  static bool is_available() { return is_packable(kDTypeOf<T>); }
  static constexpr bool kTakesPacked = true;
  static std::optional<PackedValues> accepts(const Tensor& x, const Tensor&, const Tensor&) {
    return packed_values(x);
  }
  static void run(TypeTag<T>, const PackedValues& x, const Tensor&, Tensor& mean, Tensor& var) {
    channel_moments_packed<T>(x, mean.data<float>(), var.data<float>());
  }
};

struct ChannelMoments {
  static constexpr std::string_view kName = "plain";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, Tensor& mean, Tensor& var) {
    using V = Compute<T>;
    const int64_t channels = x.shape()[1];
    const double count = double(x.shape()[0] * x.shape()[2]);
    const Tensor shape = mean.with_layout({{1, channels, 1}, {channels, 1, 1}, 0});
    std::vector<double> means(channels);
    reduce<T>(WideSumOf<V>{}, x, shape, [&, out = mean.data<V>()](int64_t i, double total) {
      means[i] = total / count;
      out[i] = V(means[i]);
    });
    reduce<T>(
        SquaresOf<V>{}, x, shape,
        [=, out = var.data<V>()](int64_t i, double total) { out[i] = V(total / count); },
        means.data());
  }
};

/// Splits x [n, channels, size] into runs of one channel each or, if size is 1, of many channels.
/// Calls run(offset, first channel, count) with at most kBlock elements.
template <typename Run>
void for_each_channel_run(const Shape& shape, Run run) {
  const int64_t channels = shape[1], size = shape[2];
  const int64_t row = size == 1 ? channels : size;  // consecutive elements that form a run
  const int64_t rows = size == 1 ? shape[0] : shape[0] * channels;
#pragma omp parallel for if (rows * row > kParallel)
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < row; j += kBlock)
      run(i * row + j, size == 1 ? j : i % channels, std::min(kBlock, row - j));
}

/// Returns a channel's value: one for the whole run, or one for each element.
template <bool kColumns, typename V>
V at(const V* numbers, int64_t j) {
  return kColumns ? numbers[j] : *numbers;
}

template <bool kColumns, typename T>
void normalize(const Tensor& x, const Compute<T>* mean, const Compute<T>* scale,
               const Compute<T>* shift, Tensor& y) {
  using V = Compute<T>;
  for_each_channel_run(x.shape(), [=, from = x.data<T>(), to = y.data<T>()](
                                      int64_t offset, int64_t channel, int64_t count) {
    alignas(64) V buffer[kBlock], results[kBlock];
    const V* xs = load_values(from + offset, 1, count, buffer);
    V* ys = place_values(to + offset, results);
    const V *m = mean + channel, *s = scale + channel, *b = shift + channel;
#pragma omp simd
    for (int64_t j = 0; j < count; ++j)
      ys[j] = (xs[j] - at<kColumns>(m, j)) * at<kColumns>(s, j) + at<kColumns>(b, j);
    store_values(ys, count, to + offset);
  });
}

/// Factor and summand of each channel: scale = weight * invstd, shift = bias.
template <typename V>
struct ScaleShift {
  std::vector<V> scale, shift;

  ScaleShift(const Tensor& weight, const Tensor& bias, const Tensor& invstd)
      : scale(numbers_of<V>(weight, invstd.numel(), 1)),
        shift(numbers_of<V>(bias, invstd.numel(), 0)) {
    for (size_t c = 0; c < scale.size(); ++c) scale[c] *= invstd.data<V>()[c];
  }
};

template <Packable T>
struct BatchNormPacked {
  static constexpr std::string_view kName = "packed";
  static bool is_available() { return is_packable(kDTypeOf<T>); }
  static constexpr bool kTakesPacked = true;
  static std::optional<PackedValues> accepts(const Tensor& x, const Tensor&, const Tensor&,
                                             const Tensor&, const Tensor&, const Tensor& y) {
    auto values = packed_values(x);
    if (values && !can_be_packed(y, values->packing.block)) values.reset();
    return values;
  }
  static void run(TypeTag<T>, const PackedValues& values, const Tensor&, const Tensor& mean,
                  const Tensor& invstd, const Tensor& weight, const Tensor& bias, Tensor& y) {
    const ScaleShift<float> by(weight, bias, invstd);
    normalize_packed(values, mean.data<float>(), by.scale.data(), by.shift.data(), y.data<T>());
    y.storage().set_packed(values.packing);
  }
};

/// Writes n elements of x with stride `step`.
template <typename V>
void copy_strided(const V* x, int64_t step, int64_t n, V* to) {
  if (step == 0) return void(std::fill_n(to, n, *x));
  for (int64_t i = 0; i < n; ++i) to[i] = x[i * step];
}

/// Normalizes contiguous elements; the other operands (mean, invstd, weight and bias) broadcast to
/// their shape.
template <typename T>
void normalize_elements(const Tensor& x, const std::array<const Tensor*, 4>& others, Tensor& y) {
  using V = Compute<T>;
  static constexpr V kStandard[] = {0, 1, 1, 0};
  Shape shape = y.shape();
  std::array<const V*, 4> numbers;
  std::array<Strides, 4> strides;
  for (size_t i = 0; i < 4; ++i) {
    const Tensor& other = *others[i];
    numbers[i] = other ? other.data<V>() : &kStandard[i];
    strides[i] = broadcast_strides(other ? other.layout() : StridedLayout{}, shape);
  }
  // In a packed layout, the numbers of a few channels are repeated for each pixel.
  int64_t repeats = 1;
  const int middle = shape.rank() - 2;
  if (middle >= 0 && shape[middle + 1] <= kBlock &&
      std::ranges::all_of(strides, [&](const Strides& each) { return each[middle] == 0; })) {
    repeats = shape[middle];
    const auto without_middle = [&](const Dims& dims) {
      Dims rest{};
      for (int i = 0; i < dims.rank(); ++i)
        if (i != middle) rest.push_back(dims[i]);
      return rest;
    };
    shape = without_middle(shape);
    for (Strides& each : strides) each = without_middle(each);
  }
  const T* from = x.data<T>();
  T* to = y.data<T>();
  for_each_row(shape, strides, [&](const auto& at, const auto& step, int64_t count) {
    for (int64_t first = 0; first < count; first += kBlock) {
      alignas(64) V mean[kBlock], scale[kBlock], shift[kBlock], x_buffer[kBlock], y_buffer[kBlock];
      int64_t n = std::min(kBlock, count - first);
      const auto row = [&](size_t i) { return numbers[i] + at[i] + first * step[i]; };
      if (repeats == 1 && std::ranges::all_of(step, [](int64_t each) { return each == 1; })) {
        const V *m = row(0), *s = row(1), *w = row(2), *b = row(3);
        const V* xs = load_values(from, 1, n, x_buffer);
        V* ys = place_values(to, y_buffer);
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) ys[j] = (xs[j] - m[j]) * (s[j] * w[j]) + b[j];
        store_values(ys, n, to);
        from += n, to += n;
        continue;
      }
      const auto take = [&](size_t i, V* to) { copy_strided(row(i), step[i], n, to); };
      take(0, mean), take(1, scale), take(2, y_buffer), take(3, shift);
      for (int64_t j = 0; j < n; ++j) scale[j] *= y_buffer[j];
      const int64_t all = n * repeats;
      if constexpr (Packable<T>)
        if (n == 16 || n == 8) {
          normalize_pixels(n, repeats, from, mean, scale, shift, to);
          from += all, to += all;
          continue;
        }
      for (; 2 * n <= std::min(kBlock, all); n *= 2)
        for (V* each : {mean, scale, shift}) std::copy_n(each, n, each + n);
      for (int64_t i = 0, size; i < all; i += size, from += size, to += size) {
        size = std::min(n, all - i);
        const V* xs = load_values(from, 1, size, x_buffer);
        V* ys = place_values(to, y_buffer);
        for (int64_t j = 0; j < size; ++j) ys[j] = (xs[j] - mean[j]) * scale[j] + shift[j];
        store_values(ys, size, to);
      }
    }
  });
}

struct BatchNorm {
  static constexpr std::string_view kName = "plain";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                  const Tensor& weight, const Tensor& bias, Tensor& y) {
    using V = Compute<T>;
    const bool is_whole = x.rank() == 3 && mean.rank() == 2;
    if (!is_whole)  // a block of a captured step (Parts::kElements)
      return normalize_elements<T>(x, {&mean, &invstd, &weight, &bias}, y);
    const ScaleShift<V> by(weight, bias, invstd);
    const auto run = x.shape()[2] == 1 ? normalize<true, T> : normalize<false, T>;
    run(x, mean.data<V>(), by.scale.data(), by.shift.data(), y);
  }
};

/// Registers implementations of batch_norm, which is elementwise if the statistics are given.
template <typename... Ts>
void register_batch_norm(TypeList<Ts...>) {
  using List = ImplementationList<kernels::batch_norm, BatchNormPacked<float>,
                                  BatchNormPacked<bfloat16>, BatchNorm>;
  const auto traits = []<typename T>(TypeTag<T>) {
    SlotTraits traits = List::template traits<T>();
    traits.parts = Parts::kElements;
    return traits;
  };
  (kernels::batch_norm.set_for<Ts>(DeviceType::kCpu, List{}, traits(TypeTag<Ts>{})), ...);
}

/// Moves running statistics of type T towards those of a batch.
template <typename V, typename T>
void move_statistics(Tensor& running_mean, Tensor& running_var, const Tensor& mean,
                     const Tensor& var, double momentum, double correction) {
  const V *means = mean.data<V>(), *vars = var.data<V>();
  T *running_means = running_mean.data<T>(), *running_vars = running_var.data<T>();
  for (int64_t c = 0; c < mean.numel(); ++c) {
    const auto move = [&](T& running, V batch) {
      running = convert<T>(kernels::move_statistic(convert<V>(running), batch, momentum));
    };
    move(running_means[c], means[c]);
    move(running_vars[c], vars[c] * V(correction));
  }
}

/// Computes two sums of each channel: of dy, and of dy * (x - mean) * invstd.
template <typename T>
void channel_sums(const Tensor& x, const Tensor& dy, const Compute<T>* mean,
                  const Compute<T>* invstd, double* sums, double* products) {
  using V = Compute<T>;
  constexpr int64_t kStrip = 256;
  constexpr int kRows = 4;  // that are added before the sums are stored
  const int64_t n = x.shape()[0], channels = x.shape()[1], size = x.shape()[2];
  const T *xs = x.data<T>(), *dys = dy.data<T>();
  if (size == 1) {
#pragma omp parallel for if (x.numel() > kParallel)
    for (int64_t first = 0; first < channels; first += kStrip) {
      const int64_t count = std::min(kStrip, channels - first);
      alignas(64) V x_buffer[kRows][kStrip], dy_buffer[kRows][kStrip];
      const V *m = mean + first, *s = invstd + first;
      double *sum = sums + first, *product = products + first;
      const auto add = [&]<int kCount>(std::integral_constant<int, kCount>, int64_t i) {
        const V *xv[kCount], *dyv[kCount];
        for (int k = 0; k < kCount; ++k) {
          xv[k] = load_values(xs + (i + k) * channels + first, 1, count, x_buffer[k]);
          dyv[k] = load_values(dys + (i + k) * channels + first, 1, count, dy_buffer[k]);
        }
#pragma omp simd
        for (int64_t j = 0; j < count; ++j) {
          double a = sum[j], b = product[j];
          for (int k = 0; k < kCount; ++k) {
            a += double(dyv[k][j]);
            b += double(dyv[k][j] * ((xv[k][j] - m[j]) * s[j]));
          }
          sum[j] = a, product[j] = b;
        }
      };
      int64_t i = 0;
      for (; i + kRows <= n; i += kRows) add(std::integral_constant<int, kRows>(), i);
      for (; i < n; ++i) add(std::integral_constant<int, 1>(), i);
    }
    return;
  }
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t c = 0; c < channels; ++c) {
    alignas(64) V x_buffer[kBlock], dy_buffer[kBlock], terms[kBlock];
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

/// Computes dx = scale * (dy - shift - (x - mean) * slope).
template <bool kColumns, typename T>
void norm_input_gradient(const Tensor& x, const Tensor& dy, const Compute<T>* mean,
                         const Compute<T>* scale, const Compute<T>* shift, const Compute<T>* slope,
                         Tensor& dx) {
  using V = Compute<T>;
  for_each_channel_run(x.shape(), [=, xs = x.data<T>(), dys = dy.data<T>(), to = dx.data<T>()](
                                      int64_t offset, int64_t c, int64_t count) {
    alignas(64) V x_buffer[kBlock], dy_buffer[kBlock], results[kBlock];
    const V* xv = load_values(xs + offset, 1, count, x_buffer);
    const V* dyv = load_values(dys + offset, 1, count, dy_buffer);
    V* dxv = place_values(to + offset, results);
    const V *m = mean + c, *s = scale + c, *b = shift + c, *k = slope + c;
#pragma omp simd
    for (int64_t j = 0; j < count; ++j)
      dxv[j] = at<kColumns>(s, j) *
               (dyv[j] - at<kColumns>(b, j) - (xv[j] - at<kColumns>(m, j)) * at<kColumns>(k, j));
    store_values(dxv, count, to + offset);
  });
}

/// Computes the gradients of batch_norm. sum(sums, products) has the results of channel_sums(),
/// write(scale, shift, slope) computes dx as norm_input_gradient() does.
template <typename V, typename Sum, typename Write>
void batch_norm_backward(const Shape& shape, const Tensor& invstd_tensor, const Tensor& weight,
                         bool training, const Tensor& dx, Tensor& dweight, Tensor& dbias,
                         const Sum& sum, const Write& write) {
  const int64_t channels = shape[1];
  const double count = double(shape[0] * shape[2]);
  const V* invstd = invstd_tensor.data<V>();
  std::vector<double> sums(channels), products(channels);
  if (dweight || dbias || training) sum(sums.data(), products.data());
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
  write(scale.data(), shift.data(), slope.data());
}

template <Packable T>
struct BatchNormBackwardPacked {
  static constexpr std::string_view kName = "packed";
  static bool is_available() { return is_packable(kDTypeOf<T>); }
  static constexpr bool kTakesPacked = true;

  struct Operands {
    PackedValues x, dy;
  };
  /// Packs x or dy if only the other one is packed.
  static std::optional<Operands> accepts(const Tensor& x, const Tensor& dy, const Tensor&,
                                         const Tensor&, const Tensor&, bool, const Tensor& dx,
                                         const Tensor&, const Tensor&) {
    const auto packed_x = packed_values(x), packed_dy = packed_values(dy);
    const auto& known = packed_x ? packed_x : packed_dy;
    if (!known || (dx && !can_be_packed(dx, known->packing.block))) return {};
    if (packed_x && packed_dy && packed_x->packing != packed_dy->packing) return {};
    return Operands{packed_x ? *packed_x : pack(x, known->packing),
                    packed_dy ? *packed_dy : pack(dy, known->packing)};
  }
  static void run(TypeTag<T>, const Operands& o, const Tensor& x, const Tensor&,
                  const Tensor& mean_tensor, const Tensor& invstd, const Tensor& weight,
                  bool training, Tensor& dx, Tensor& dweight, Tensor& dbias) {
    const float* mean = mean_tensor.data<float>();
    batch_norm_backward<float>(
        x.shape(), invstd, weight, training, dx, dweight, dbias,
        [&](double* sums, double* products) {
          channel_sums_packed<T>(o.x, o.dy, mean, invstd.data<float>(), sums, products);
        },
        [&](const float* scale, const float* shift, const float* slope) {
          input_gradient_packed(o.x, o.dy, mean, scale, shift, slope, dx.data<T>());
          dx.storage().set_packed(o.x.packing);
        });
  }
};

struct BatchNormBackward {
  static constexpr std::string_view kName = "plain";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const Tensor& dy, const Tensor& mean_tensor,
                  const Tensor& invstd, const Tensor& weight, bool training, Tensor& dx,
                  Tensor& dweight, Tensor& dbias) {
    using V = Compute<T>;
    const V* mean = mean_tensor.data<V>();
    batch_norm_backward<V>(
        x.shape(), invstd, weight, training, dx, dweight, dbias,
        [&](double* sums, double* products) {
          channel_sums<T>(x, dy, mean, invstd.data<V>(), sums, products);
        },
        [&](const V* scale, const V* shift, const V* slope) {
          const auto run =
              x.shape()[2] == 1 ? norm_input_gradient<true, T> : norm_input_gradient<false, T>;
          run(x, dy, mean, scale, shift, slope, dx);
        });
  }
};

}  // namespace

void register_layer_norm();  // defined in layer_norm.cpp

void register_norm() {
  constexpr DeviceType kCpu = DeviceType::kCpu;
  set_implementations<kernels::channel_moments, ChannelMomentsPacked<float>,
                      ChannelMomentsPacked<bfloat16>, ChannelMoments>(kCpu, kFloatTypes);
  register_batch_norm(kFloatTypes);
  set_implementations<kernels::batch_norm_backward, BatchNormBackwardPacked<float>,
                      BatchNormBackwardPacked<bfloat16>, BatchNormBackward>(kCpu, kFloatTypes);
  set<kernels::move_statistics>(kFloatTypes, []<typename T>(TypeTag<T>, Tensor& running_mean,
                                                            Tensor& running_var, const Tensor& mean,
                                                            auto&... a) {
    const auto move = mean.dtype() == f64 ? move_statistics<double, T> : move_statistics<float, T>;
    move(running_mean, running_var, mean, a...);
  });
  register_layer_norm();
}

}  // namespace tapegrad::backends::cpu
