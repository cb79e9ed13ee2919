// batch_norm over x [n, channels, size].
#include "ops/norm.h"

#include "backends/cuda/map.cuh"
#include "backends/cuda/reduce.cuh"
#include "backends/cuda/reducers.cuh"
#include "backends/cuda/register.h"
#include "backends/formulas.h"

namespace tapegrad::backends::cuda {
namespace {

/// Numbers of channels as a tensor that broadcasts to x.
Tensor of_channels(const Tensor& x) {
  const int64_t channels = x.numel();
  return x.with_layout({{1, channels, 1}, {channels, 1, 1}, x.layout().offset});
}

/// weight * invstd
template <typename V>
Tensor scale_of(const Tensor& weight, const Tensor& invstd) {
  if (!weight) return invstd;
  Tensor scale = invstd.empty_like();
  map<V>(formulas::Mul{}, scale, weight, invstd);
  return scale;
}

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

/// For each channel the sum of dy, and of dy * (x - mean) * invstd; and what follows from them.
template <typename T>
struct ChannelSums {
  using V = Compute<T>;
  struct Part {
    V sum, product;
  };
  const T *x, *dy;
  const V *mean, *invstd;
  double count;
  bool training;
  V *shift, *slope;
  V *dweight, *dbias;  // null when not wanted

  __device__ static Part first() { return {0, 0}; }
  __device__ Part add(Part part, int64_t at, int64_t channel) const {
    const V up = widen(dy[at]);
    return {part.sum + up, part.product + up * ((widen(x[at]) - mean[channel]) * invstd[channel])};
  }
  __device__ static Part merge(Part a, Part b) { return {a.sum + b.sum, a.product + b.product}; }
  __device__ void finish(int64_t channel, Part part) const {
    shift[channel] = training ? part.sum / V(count) : V(0);
    slope[channel] = training ? part.product / V(count) * invstd[channel] : V(0);
    if (dweight != nullptr) dweight[channel] = part.product;
    if (dbias != nullptr) dbias[channel] = part.sum;
  }
};

template <typename T>
void batch_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& mean,
                         const Tensor& invstd, const Tensor& weight, bool training, Tensor& dx,
                         Tensor& dweight, Tensor& dbias) {
  using V = Compute<T>;
  Tensor shift = mean.empty_like(), slope = mean.empty_like();
  reduce(ChannelSums<T>{x.data<T>(), dy.data<T>(), mean.data<V>(), invstd.data<V>(),
                        double(x.shape()[0] * x.shape()[2]), training, shift.data<V>(),
                        slope.data<V>(), dweight ? dweight.data<V>() : nullptr,
                        dbias ? dbias.data<V>() : nullptr},
         x, of_channels(mean));
  if (!dx) return;
  map_types(Type<T>{}, TypeList<T, T, V, V, V, V>{}, InputGradient{}, dx, x, dy, of_channels(mean),
            of_channels(scale_of<V>(weight, invstd)), of_channels(shift), of_channels(slope));
}

}  // namespace

void register_norm() {
  set<kernels::channel_moments>(kFloatTypes, []<typename T>(Type<T>, const Tensor& x, Tensor& mean,
                                                            Tensor& var) {
    using V = Compute<T>;
    reduce(MeanVarianceOf<T>{{x.data<T>()}, mean.data<V>(), var.data<V>()}, x, of_channels(mean));
  });
  set<kernels::batch_norm>(kFloatTypes, []<typename T>(Type<T>, const Tensor& x, const Tensor& mean,
                                                       const Tensor& invstd, const Tensor& weight,
                                                       const Tensor& bias, Tensor& y) {
    using V = Compute<T>;
    const Tensor shift = bias ? bias : Tensor::full(mean.shape(), 0.0, kDTypeOf<V>, x.device());
    map_types(Type<T>{}, TypeList<T, V, V, V>{}, Normalize{}, y, x, of_channels(mean),
              of_channels(scale_of<V>(weight, invstd)), of_channels(shift));
  });
  set<kernels::batch_norm_backward>(
      kFloatTypes, []<typename T>(Type<T>, const Tensor& x, const Tensor& dy, const Tensor& mean,
                                  const Tensor& invstd, const Tensor& weight, bool training,
                                  Tensor& dx, Tensor& dweight, Tensor& dbias) {
        batch_norm_backward<T>(x, dy, mean, invstd, weight, training, dx, dweight, dbias);
      });
}

}  // namespace tapegrad::backends::cuda
