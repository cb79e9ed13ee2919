#include "backends/cuda/device/reduce_frame.cuh"

#include "backends/cuda/device/reducers.cuh"
#include "backends/cuda/device/rows.cuh"
#include "backends/cuda/register.h"
#include "ops/reduce.h"

namespace tapegrad::backends::cuda {
namespace {

/// An extreme and its first position.
template <typename V>
struct Found {
  V value;
  int64_t index;
};

/// Returns whether a is at least as extreme as b.
template <typename V>
__device__ bool holds(bool largest, V a, V b) {
  return largest ? holds_against<true>(a, b) : holds_against<false>(a, b);
}

struct FirstOfBoth {
  bool largest;
  template <typename V>
  __device__ Found<V> operator()(Found<V> a, Found<V> b) const {
    const bool a_holds = holds(largest, a.value, b.value),
               b_holds = holds(largest, b.value, a.value);
    if (a_holds && b_holds) return a.index < b.index ? a : b;
    return a_holds ? a : b;
  }
};

template <typename Team, typename T>
__global__ void __launch_bounds__(kThreads)
    find_extremes(Rows rows, bool largest, const T* x, T* values, int64_t* indices) {
  using V = Lane<Compute<T>>;
  for (int64_t row = Team::first(); row < rows.count; row += Team::step()) {
    const T* from = x + rows.begin(row);
    Found<V> best{V(widen(from[0])), 0};
    for (int64_t i = Team::rank(); i < rows.n; i += Team::kSize) {
      const V value = widen(from[i * rows.step]);
      if (i == Team::rank() || !holds(largest, best.value, value)) best = {value, i};
    }
    best = Team::reduce(best, FirstOfBoth{largest});
    if (Team::rank() != 0) continue;
    if (values != nullptr) values[row] = narrow<T>(best.value);
    indices[row] = best.index;
  }
}

template <typename T>
void extreme(const Tensor& x, bool largest, Tensor& values, Tensor& indices) {
  const Rows rows(x);
  if (rows.count == 0) return;
  with_team(rows.n, rows.step, [&]<typename Team>(Team) {
    launch(teams_for<Team>(rows.count, x), &find_extremes<Team, T>, rows, largest, x.data<T>(),
           values ? values.data<T>() : nullptr, indices.data<int64_t>());
  });
}

}  // namespace

void register_reduce() {
  set<kernels::sum>(kAllTypes,
                    []<typename T>(TypeTag<T>, const Tensor& x, double divisor, Tensor& y) {
                      reduce(SumOf<T>{x.data<T>(), y.data<SumType<T>>(), divisor}, x, y);
                    });
  set<kernels::prod>(kNumberTypes, []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
    reduce(ProductOf<T>{x.data<T>(), y.data<SumType<T>>()}, x, y);
  });
  set<kernels::amax>(kNumberTypes, []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
    reduce(ExtremeOf<T, true>{x.data<T>(), y.data<T>()}, x, y);
  });
  set<kernels::amin>(kNumberTypes, []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
    reduce(ExtremeOf<T, false>{x.data<T>(), y.data<T>()}, x, y);
  });
  set<kernels::contains>(
      kAllTypes, []<typename T>(TypeTag<T>, const Tensor& x, bool zero, bool yes, Tensor& y) {
        reduce(Contains<T>{x.data<T>(), y.data<bool>(), zero, yes}, x, y);
      });
  set<kernels::norm>(kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, double p, Tensor& y) {
    reduce(NormOf<T>{x.data<T>(), y.data<T>(), p}, x, y);
  });
  set<kernels::var>(kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, double divisor,
                                                bool root, Tensor& y) {
    reduce(VarianceOf<T>{{x.data<T>()}, y.data<T>(), divisor, root}, x, y);
  });
  set<kernels::extreme>(kNumberTypes, []<typename T>(TypeTag<T>, auto&... a) { extreme<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
