// softmax, log_softmax, logsumexp and their gradients over [outer, n, inner].
#include "ops/softmax.h"

#include "backends/cuda/device/reducers.cuh"
#include "backends/cuda/device/rows.cuh"
#include "backends/cuda/device/team.cuh"
#include "backends/cuda/register.h"
#include "ops/reduce.h"

namespace tapegrad::backends::cuda {
namespace {

enum class Goal { kSoftmax, kLogSoftmax, kLogSumExp };

struct Plus {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Larger {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return holds_against<true>(a, b) ? a : b;
  }
};

/// Calls f(i) for the elements i of a row that this thread computes in V. The loop over doubles is
/// not unrolled, because ptxas spills registers of several exponentials at a time.
template <typename Team, typename V, typename F>
__device__ void for_own(int64_t n, const F& f) {
  if constexpr (std::is_same_v<V, double>) {
#pragma unroll 1
    for (int64_t i = Team::rank(); i < n; i += Team::kSize) f(i);
  } else {
    for (int64_t i = Team::rank(); i < n; i += Team::kSize) f(i);
  }
}

template <typename Team, Goal kGoal, typename T>
__global__ void __launch_bounds__(kThreads) forward_kernel(Rows rows, const T* x, T* y) {
  using V = Compute<T>;
  for (int64_t row = Team::first(); row < rows.count; row += Team::step()) {
    const int64_t begin = rows.begin(row);
    V largest = least_extreme<true, V>();
    for (int64_t i = Team::rank(); i < rows.n; i += Team::kSize)
      largest = Larger{}(largest, widen(x[begin + i * rows.step]));
    largest = Team::reduce(largest, Larger{});
    V sum = 0;
    for_own<Team, V>(
        rows.n, [&](int64_t i) { sum += std::exp(widen(x[begin + i * rows.step]) - largest); });
    sum = Team::reduce(sum, Plus{});
    if constexpr (kGoal == Goal::kLogSumExp) {
      const bool finite = largest - largest == V(0);  // otherwise the maximum is the result, or NaN
      if (Team::rank() == 0) y[row] = narrow<T>(finite ? largest + std::log(sum) : largest);
    } else {
      const V log_sum = std::log(sum), scale = V(1) / sum;
      for_own<Team, V>(rows.n, [&](int64_t i) {
        const V value = widen(x[begin + i * rows.step]) - largest;
        y[begin + i * rows.step] =
            narrow<T>(kGoal == Goal::kSoftmax ? std::exp(value) * scale : value - log_sum);
      });
    }
  }
}

template <Goal kGoal, typename T>
void forward(const Tensor& x, Tensor& y) {
  const Rows rows(x);
  if (rows.count == 0) return;
  with_team(rows.n, rows.step, [&]<typename Team>(Team) {
    launch(teams_for<Team>(rows.count, x), &forward_kernel<Team, kGoal, T>, rows, x.data<T>(),
           y.data<T>());
  });
}

/// Computes dx = y (dy - sum(y dy)), or for log_softmax dx = dy - exp(y) sum(dy).
template <typename Team, bool kLog, typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(Rows rows, const T* y, const T* dy, T* dx) {
  using V = Compute<T>;
  for (int64_t row = Team::first(); row < rows.count; row += Team::step()) {
    const int64_t begin = rows.begin(row);
    V sum = 0;
    for (int64_t i = Team::rank(); i < rows.n; i += Team::kSize) {
      const V up = widen(dy[begin + i * rows.step]);
      sum += kLog ? up : up * widen(y[begin + i * rows.step]);
    }
    sum = Team::reduce(sum, Plus{});
    for (int64_t i = Team::rank(); i < rows.n; i += Team::kSize) {
      const V up = widen(dy[begin + i * rows.step]), value = widen(y[begin + i * rows.step]);
      dx[begin + i * rows.step] = narrow<T>(kLog ? up - std::exp(value) * sum : value * (up - sum));
    }
  }
}

template <bool kLog, typename T>
void backward(const Tensor& y, const Tensor& dy, Tensor& dx) {
  const Rows rows(y);
  if (rows.count == 0) return;
  with_team(rows.n, rows.step, [&]<typename Team>(Team) {
    launch(teams_for<Team>(rows.count, y), &backward_kernel<Team, kLog, T>, rows, y.data<T>(),
           dy.data<T>(), dx.data<T>());
  });
}

}  // namespace

void register_softmax() {
  set<kernels::softmax>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { forward<Goal::kSoftmax, T>(a...); });
  set<kernels::log_softmax>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { forward<Goal::kLogSoftmax, T>(a...); });
  set<kernels::logsumexp>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { forward<Goal::kLogSumExp, T>(a...); });
  set<kernels::softmax_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { backward<false, T>(a...); });
  set<kernels::log_softmax_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { backward<true, T>(a...); });
}

}  // namespace tapegrad::backends::cuda
