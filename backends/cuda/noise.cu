#include "ops/noise.h"

#include "backends/cuda/device/draw_base.cuh"
#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/find.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/register.h"
#include "backends/formulas_poisson.h"
#include "core/base/error.h"

namespace tapegrad::backends::cuda {
namespace {

/// Draws the same bits as the CPU: must not be contracted (-fmad=false).
template <typename T, typename R = Compute<T>>
struct Exponential {
  T* y;
  R rate;
  DrawState state;

  __device__ uint32_t word(uint64_t i) const {
    const RandomState now = state.now();
    return philox(now.seed, now.offset + i / 4)[i % 4];
  }
  __device__ void operator()(int64_t i) const {
    R u;
    if constexpr (std::is_same_v<R, double>)
      u = formulas::positive_double(word(2 * uint64_t(i)), word(2 * uint64_t(i) + 1));
    else
      u = formulas::positive_float(word(uint64_t(i)));
    // For u = 1 the logarithm is 0; half of the smallest step below 1 is used instead.
    constexpr R kLeast = std::numeric_limits<R>::epsilon() / 4;
    const R e = -formulas::random_log(u);
    y[i] = narrow<T>((e < kLeast ? kLeast : e) / rate);
  }
};

struct NotARate {
  template <typename V>
  __device__ bool operator()(V rate) const {
    return !(rate >= V(0) && rate - rate == V(0));
  }
};

template <typename T>
struct Poisson {
  const T* rate;
  T* y;
  DrawState state;
  __device__ void operator()(int64_t i) const {
    const formulas::ElementStream stream(state.now(), i);
    y[i] = narrow<T>(Compute<T>(formulas::poisson(double(widen(rate[i])), stream)));
  }
};

template <typename T>
void poisson(const Tensor& rate, RandomState state, Tensor& y) {
  const auto bad = find_first<T>(rate, NotARate{});
  if (bad.index >= 0)
    fail<ArgumentError>("poisson: a rate must be finite and not negative: element ", bad.index,
                        " is ", bad.value);
  for_each(y.numel(), y, Poisson<T>{rate.data<T>(), y.data<T>(), DrawState(state)});
}

}  // namespace

void register_noise() {
  set<kernels::exponential>(
      kFloatTypes, []<typename T>(Type<T>, Tensor& y, double lambd, RandomState state) {
        for_each(y.numel(), y, Exponential<T>{y.data<T>(), Compute<T>(lambd), DrawState(state)});
      });
  set<kernels::poisson>(kFloatTypes, []<typename T>(Type<T>, auto&... a) { poisson<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
