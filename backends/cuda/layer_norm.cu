// layer_norm over the rows of x [rows, n].
#include "backends/cuda/device/reduce_frame.cuh"
#include "backends/cuda/device/reducers.cuh"
#include "backends/cuda/register.h"
#include "ops/norm.h"

namespace tapegrad::backends::cuda {
namespace {

/// Null if the tensor is empty.
template <typename T>
T* data_or_null(const Tensor& x) {
  return x ? x.data<T>() : nullptr;
}

/// Least numbers of blocks on a multiprocessor; 0: none. Without a number, ptxas spills registers
/// of these kernels to have room for more blocks.
template <typename Team, typename T>
[[maybe_unused]] constexpr int kForwardBlocks = sizeof(T) < 8 && Team::kSize == kThreads ? 5 : 0;
template <typename Team, typename T>
[[maybe_unused]] constexpr int kGradientBlocks = sizeof(T) == 8 && Team::kSize == kWarp ? 5 : 0;

template <typename Team, typename T>
__global__ void __launch_bounds__(kThreads, kForwardBlocks<Team, T>)
    forward_kernel(int64_t rows, int64_t n, const T* x, const T* weight, const T* bias, double eps,
                   T* y, Compute<T>* means, Compute<T>* invstds) {
  using V = Compute<T>;
  const MomentsOf<T> moments{x};
  for (int64_t row = Team::first(); row < rows; row += Team::step()) {
    auto part = MomentsOf<T>::first();
    for (int64_t i = Team::rank(); i < n; i += Team::kSize)
      part = moments.add(part, row * n + i, row);
    part = Team::reduce(part, Merge<MomentsOf<T>>{});
    const V mean = part.mean, invstd = V(1) / std::sqrt(part.squares / V(n) + V(eps));
    for (int64_t i = Team::rank(); i < n; i += Team::kSize) {
      const V scale = weight != nullptr ? widen(weight[i]) : V(1);
      const V shift = bias != nullptr ? widen(bias[i]) : V(0);
      y[row * n + i] = narrow<T>((widen(x[row * n + i]) - mean) * invstd * scale + shift);
    }
    if (Team::rank() == 0) {
      means[row] = mean;
      invstds[row] = invstd;
    }
  }
}

template <typename V>
struct Two {
  V a, b;
};
struct PlusTwo {
  template <typename V>
  __device__ Two<V> operator()(Two<V> x, Two<V> y) const {
    return {x.a + y.a, x.b + y.b};
  }
};

/// Computes dx = invstd * (g - mean(g) - x_hat * mean(g * x_hat)), g = dy * weight.
template <typename Team, typename T>
__global__ void __launch_bounds__(kThreads, kGradientBlocks<Team, T>)
    input_gradient(int64_t rows, int64_t n, const T* x, const T* dy, const Compute<T>* means,
                   const Compute<T>* invstds, const T* weight, T* dx) {
  using V = Compute<T>;
  for (int64_t row = Team::first(); row < rows; row += Team::step()) {
    const V mean = means[row], invstd = invstds[row];
    const auto g_of = [&](int64_t i) {
      return widen(dy[row * n + i]) * (weight != nullptr ? widen(weight[i]) : V(1));
    };
    Two<V> sums{0, 0};
    for (int64_t i = Team::rank(); i < n; i += Team::kSize) {
      const V g = g_of(i);
      sums.a += g;
      sums.b += g * ((widen(x[row * n + i]) - mean) * invstd);
    }
    sums = Team::reduce(sums, PlusTwo{});
    const V shift = sums.a / V(n), slope = sums.b / V(n);
    for (int64_t i = Team::rank(); i < n; i += Team::kSize) {
      const V x_hat = (widen(x[row * n + i]) - mean) * invstd;
      dx[row * n + i] = narrow<T>(invstd * (g_of(i) - shift - x_hat * slope));
    }
  }
}

/// The sums over rows of dy * x_hat and of dy.
template <typename T>
struct ParameterGradients {
  using V = Compute<T>;
  using Part = Two<V>;
  const T *x, *dy;
  const V *means, *invstds;
  int64_t n;
  T *dweight, *dbias;  // null if not needed

  __device__ static Part first() { return {0, 0}; }
  __device__ Part add(Part part, int64_t at, int64_t) const {
    const int64_t row = at / n;
    const V up = widen(dy[at]);
    return {part.a + up * ((widen(x[at]) - means[row]) * invstds[row]), part.b + up};
  }
  __device__ static Part merge(Part a, Part b) { return PlusTwo{}(a, b); }
  __device__ void finish(int64_t output, Part part) const {
    if (dweight != nullptr) dweight[output] = narrow<T>(part.a);
    if (dbias != nullptr) dbias[output] = narrow<T>(part.b);
  }
};

template <typename T>
void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                Tensor& mean, Tensor& invstd) {
  using V = Compute<T>;
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  if (rows == 0) return;
  with_team(n, 1, [&]<typename Team>(Team) {
    launch(teams_for<Team>(rows, x), &forward_kernel<Team, T>, rows, n, x.data<T>(),
           data_or_null<T>(weight), data_or_null<T>(bias), eps, y.data<T>(), mean.data<V>(),
           invstd.data<V>());
  });
}

template <typename T>
void layer_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& mean,
                         const Tensor& invstd, const Tensor& weight, Tensor& dx, Tensor& dweight,
                         Tensor& dbias) {
  using V = Compute<T>;
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  if (dx && dx.numel() > 0)
    with_team(n, 1, [&]<typename Team>(Team) {
      launch(teams_for<Team>(rows, x), &input_gradient<Team, T>, rows, n, x.data<T>(), dy.data<T>(),
             mean.data<V>(), invstd.data<V>(), data_or_null<T>(weight), dx.data<T>());
    });
  if (!dweight && !dbias) return;
  const Tensor& gradient = dweight ? dweight : dbias;
  reduce(ParameterGradients<T>{x.data<T>(), dy.data<T>(), mean.data<V>(), invstd.data<V>(), n,
                               data_or_null<T>(dweight), data_or_null<T>(dbias)},
         x, gradient.with_layout({{1, n}, {n, 1}, gradient.layout().offset}));
}

}  // namespace

void register_layer_norm() {
  set<kernels::layer_norm>(kFloatTypes,
                           []<typename T>(TypeTag<T>, auto&... a) { layer_norm<T>(a...); });
  set<kernels::layer_norm_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { layer_norm_backward<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
