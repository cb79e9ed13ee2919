// batch_norm over x [n, channels, size], or over the pixels of packed images.
#include "ops/norm.h"

#include "backends/cuda/cudnn/norm.h"
#include "backends/cuda/device/columns.cuh"
#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/map.cuh"
#include "backends/cuda/device/reduce_frame.cuh"
#include "backends/cuda/device/reducers.cuh"
#include "backends/cuda/layout/packed.h"
#include "backends/cuda/register.h"
#include "backends/formulas.h"
#include "ops/internal/running_statistics.h"

namespace tapegrad::backends::cuda {
namespace {

/// Views one number per channel as a tensor that broadcasts to x.
Tensor of_channels(const Tensor& x) {
  const int64_t channels = x.numel();
  return x.with_layout({{1, channels, 1}, {channels, 1, 1}, x.layout().offset});
}

/// Returns the values of a tensor that may be empty.
template <typename V>
V* data_or_null(const Tensor& x) {
  return x ? x.data<V>() : nullptr;
}

/// The statistics of each channel in training, and scale = weight * invstd.
template <typename T>
struct BatchStatistics : MomentsOf<T> {
  using V = Compute<T>;
  V eps;
  const V* weight;  // null: scale is not needed, as it would be invstd
  V *mean, *var, *invstd, *scale;

  __device__ void finish(int64_t channel, Moments<V> part) const {
    mean[channel] = part.mean;
    var[channel] = part.squares / part.count;
    invstd[channel] = V(1) / std::sqrt(var[channel] + eps);
    if (weight != nullptr) scale[channel] = weight[channel] * invstd[channel];
  }
};

struct Normalize {
  template <typename V>
  __device__ V operator()(V x, V mean, V scale, V shift) const {
    return (x - mean) * scale + shift;
  }
};

/// dx = scale * (dy - shift - (x - mean) * slope)
struct InputGradient {
  template <typename V>
  __device__ V operator()(V x, V dy, V mean, V scale, V shift, V slope) const {
    return scale * (dy - shift - (x - mean) * slope);
  }
};

/// Sums of each channel, of dy and of dy * (x - mean) * invstd, and values derived from the sums.
template <typename T>
struct ChannelSums {
  using V = Compute<T>;
  struct Part {
    V sum, product;
  };
  const T *x, *dy;
  const V *mean, *invstd;
  const V* weight;  // null: ones
  double count;
  bool training;
  V *scale, *shift, *slope;
  V *dweight, *dbias;  // null if not needed

  __device__ static Part first() { return {0, 0}; }
  __device__ Part add(Part part, int64_t at, int64_t channel) const {
    const V up = widen(dy[at]);
    return {part.sum + up, part.product + up * ((widen(x[at]) - mean[channel]) * invstd[channel])};
  }
  __device__ static Part merge(Part a, Part b) { return {a.sum + b.sum, a.product + b.product}; }
  __device__ void finish(int64_t channel, Part part) const {
    scale[channel] = weight != nullptr ? weight[channel] * invstd[channel] : invstd[channel];
    shift[channel] = training ? part.sum / V(count) : V(0);
    slope[channel] = training ? part.product / V(count) * invstd[channel] : V(0);
    if (dweight != nullptr) dweight[channel] = part.product;
    if (dbias != nullptr) dbias[channel] = part.sum;
  }
};

/// The images of a gradient: all row-major, or all as pixels.
struct Images {
  Tensor x, dy, dx;
  double count;  // elements per channel
  bool packed = false;

  /// Uses x's packed layout if dx may have it, too.
  Images(const Tensor& x, const Tensor& dy, const Tensor& dx)
      : x(x), dy(dy), dx(dx), count(double(x.shape()[0] * x.shape()[2])) {
    if (!pixels_of(x) || (dx && !can_be_packed(dx))) return;
    packed = true;
    this->x = pixels_or_copy(x);
    this->dy = pixels_or_copy(dy);
    if (dx) this->dx = pixels_to_write(dx);
  }
  Tensor of_channels(const Tensor& numbers) const {
    return packed ? numbers : cuda::of_channels(numbers);
  }
};

struct BatchNormBackwardCudnn {
  static constexpr std::string_view kName = "cudnn";
  static constexpr bool kTakesPacked = true;
  static std::optional<Images> accepts(const Tensor& x, const Tensor& dy, const Tensor&,
                                       const Tensor&, const Tensor&, bool training,
                                       const Tensor& dx, const Tensor&, const Tensor&) {
    if (!dx || !training || !pixels_of(x)) return std::nullopt;
    Images images(x, dy, dx);
    return images.packed ? std::optional(std::move(images)) : std::nullopt;
  }
  static bool run(OneOf<float16, bfloat16>, Images images, const Tensor&, const Tensor&,
                  const Tensor& mean, const Tensor& invstd, const Tensor& weight, bool, Tensor& dx,
                  Tensor& dweight, Tensor& dbias) {
    if (!cudnn_batch_norm_backward(images.x, images.dy, mean, invstd, weight, images.dx, dweight,
                                   dbias))
      return false;
    set_packed(dx);
    return true;
  }
};

struct BatchNormBackward {
  static constexpr std::string_view kName = "sums";
  static constexpr bool kTakesPacked = true;
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const Tensor& dy, const Tensor& mean,
                  const Tensor& invstd, const Tensor& weight, bool training, Tensor& dx,
                  Tensor& dweight, Tensor& dbias) {
    using V = Compute<T>;
    Images images(x, dy, dx);
    const Tensor scale = mean.empty_like(), shift = mean.empty_like(), slope = mean.empty_like();
    const ChannelSums<T> sums{images.x.data<T>(), images.dy.data<T>(),      mean.data<V>(),
                              invstd.data<V>(),   data_or_null<V>(weight),  images.count,
                              training,           scale.data<V>(),          shift.data<V>(),
                              slope.data<V>(),    data_or_null<V>(dweight), data_or_null<V>(dbias)};
    if (images.packed)
      reduce_columns(sums, images.x);
    else
      reduce(sums, x, of_channels(mean));
    if (!dx) return;
    const auto broadcast = [&](const Tensor& numbers) { return images.of_channels(numbers); };
    map<T, T, T, V, V, V, V>(InputGradient{}, images.dx, images.x, images.dy, broadcast(mean),
                             broadcast(scale), broadcast(shift), broadcast(slope));
    if (images.packed) set_packed(dx);
  }
};

struct BatchNormCudnn {
  static constexpr std::string_view kName = "cudnn";
  static constexpr bool kTakesPacked = true;
  static std::optional<Tensor> accepts(const Tensor& x, const Tensor&, const Tensor&, double,
                                       const Tensor& y, const Tensor&, const Tensor&,
                                       const Tensor&) {
    return can_be_packed(y) ? pixels_of(x) : std::nullopt;
  }
  static bool run(OneOf<float16, bfloat16>, const Tensor& pixels, const Tensor&,
                  const Tensor& weight, const Tensor& bias, double eps, Tensor& y, Tensor& mean,
                  Tensor& var, Tensor& invstd) {
    Tensor to = pixels_to_write(y);
    if (!cudnn_batch_norm(pixels, weight, bias, eps, to, mean, var, invstd)) return false;
    set_packed(y);
    return true;
  }
};

template <typename T>
void normalize(const Tensor& x, const Tensor& mean, const Tensor& scale, const Tensor& bias,
               Tensor& y) {
  using V = Compute<T>;
  const Tensor shift = bias ? bias : Tensor::full(mean.shape(), 0.0, kDTypeOf<V>, x.device());
  map<T, T, V, V, V>(Normalize{}, y, x, of_channels(mean), of_channels(scale), of_channels(shift));
}

struct BatchNormByParts {
  static constexpr std::string_view kName = "parts";
  static constexpr bool kTakesPacked = true;
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  Tensor& y, Tensor& mean, Tensor& var, Tensor& invstd) {
    using V = Compute<T>;
    const Tensor scale = weight ? mean.empty_like() : invstd;
    const auto statistics = [&](const Tensor& x) {
      return BatchStatistics<T>{{x.data<T>()},  V(eps),        data_or_null<V>(weight),
                                mean.data<V>(), var.data<V>(), invstd.data<V>(),
                                scale.data<V>()};
    };
    if (const auto pixels = pixels_of(x))
      reduce_columns(statistics(*pixels), *pixels);
    else
      reduce(statistics(x), x, of_channels(mean));
    normalize<T>(x, mean, scale, bias, y);
  }
};

/// Moves running statistics of type T of a channel towards those of a batch.
template <typename V, typename T>
struct MoveStatistics {
  const V *mean, *var;
  T *running_mean, *running_var;
  double momentum, correction;

  __device__ void operator()(int64_t i) const {
    move(running_mean[i], mean[i]);
    move(running_var[i], var[i] * V(correction));
  }
  __device__ void move(T& running, V batch) const {
    const V moved = kernels::move_statistic(V(widen(running)), batch, momentum);
    running = narrow<T>(convert<Compute<T>>(moved));
  }
};

template <typename V, typename T>
void move_statistics(Tensor& running_mean, Tensor& running_var, const Tensor& mean,
                     const Tensor& var, double momentum, double correction) {
  for_each(mean.numel(), mean,
           MoveStatistics<V, T>{mean.data<V>(), var.data<V>(), running_mean.data<T>(),
                                running_var.data<T>(), momentum, correction});
}

}  // namespace

void register_norm() {
  set<kernels::batch_norm>(
      kFloatTypes,
      []<typename T>(TypeTag<T>, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                     const Tensor& weight, const Tensor& bias, Tensor& y) {
        using V = Compute<T>;
        Tensor scale = weight ? invstd.empty_like() : invstd;
        if (weight) map<V>(formulas::Mul{}, scale, weight, invstd);
        normalize<T>(x, mean, scale, bias, y);
      },
      {.takes_packed = true});
  set_implementations<kernels::batch_norm_training, BatchNormCudnn, BatchNormByParts>(kFloatTypes);
  set_implementations<kernels::batch_norm_backward, BatchNormBackwardCudnn, BatchNormBackward>(
      kFloatTypes);
  set<kernels::move_statistics>(kFloatTypes, []<typename T>(TypeTag<T>, Tensor& running_mean,
                                                            Tensor& running_var, const Tensor& mean,
                                                            auto&... a) {
    const auto move = mean.dtype() == f64 ? move_statistics<double, T> : move_statistics<float, T>;
    move(running_mean, running_var, mean, a...);
  });
}

}  // namespace tapegrad::backends::cuda
