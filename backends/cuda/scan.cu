// Cumulative ops. Sums and logarithms of sums are computed in double, integers in 64 bits.
#include "ops/scan.h"

#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/device/running_sums.cuh"
#include "backends/cuda/device/scan.cuh"
#include "backends/cuda/device/thrust.cuh"
#include "backends/cuda/register.h"
#include "core/dispatch/kernels.h"
#include "ops/reduce.h"

namespace tapegrad::backends::cuda {
namespace {

template <typename T>
using Wide = std::conditional_t<kIsFloat<T>, double, uint64_t>;
template <typename T>
using Out = std::conditional_t<kIsFloat<T>, T, int64_t>;

template <typename T, bool kProduct>
struct Running {
  using State = Wide<T>;
  // Float products are merged element by element: a product of large elements must not overflow
  // behind a zero.
  static constexpr bool kOneByOne = kProduct && kIsFloat<T>;
  const T* x;
  Out<T>* y;

  __device__ State none() const { return State(kProduct ? 1 : 0); }
  __device__ State load(int64_t at, int64_t) const { return State(widen(x[at])); }
  __device__ State merge(State a, State b) const { return kProduct ? a * b : a + b; }
  __device__ void store(int64_t at, State state) const {
    if constexpr (kIsFloat<T>)
      y[at] = narrow<T>(Compute<T>(state));
    else
      y[at] = int64_t(state);
  }
};

/// Computes log(sum) from the largest term and the sum relative to it.
struct LogSum {
  double largest, sum;
};
template <typename T>
struct RunningLogSum {
  using State = LogSum;
  static constexpr bool kOneByOne = false;
  const T* x;
  T* y;

  __device__ State none() const { return {-std::numeric_limits<double>::infinity(), 0}; }
  __device__ State load(int64_t at, int64_t) const { return {double(widen(x[at])), 1}; }
  __device__ State merge(State a, State b) const {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    // Includes infinities, whose difference is NaN.
    if (a.largest == b.largest) return {a.largest, a.sum + b.sum};
    if (a.largest > b.largest || a.largest != a.largest)  // NaN stays
      return {a.largest, a.sum + b.sum * std::exp(b.largest - a.largest)};
    return {b.largest, a.sum * std::exp(a.largest - b.largest) + b.sum};  // or NaN
  }
  __device__ void store(int64_t at, State state) const {
    const double largest = state.largest;
    const bool finite = largest - largest == 0 || largest != largest;
    y[at] = narrow<T>(Compute<T>(finite ? largest + std::log(state.sum) : largest));
  }
};

template <typename V>
struct Best {
  V value;
  int64_t where;  // position along the row; negative if there is none
};
template <typename T>
struct RunningExtreme {
  using State = Best<Compute<T>>;
  static constexpr bool kOneByOne = false;
  const T* x;
  int64_t* indices;
  bool largest;

  __device__ State none() const { return {Compute<T>(), -1}; }
  __device__ State load(int64_t at, int64_t i) const { return {widen(x[at]), i}; }
  __device__ State merge(State a, State b) const {
    if (a.where < 0 || b.where < 0) return a.where < 0 ? b : a;
    const bool stays = a.value != a.value && b.value == b.value;  // NaN stays
    const bool less = largest ? b.value < a.value : a.value < b.value;
    return stays || less ? a : b;
  }
  __device__ void store(int64_t at, State state) const { indices[at] = state.where; }
};

struct ElementOfRow {
  const uint64_t* values;
  int64_t n;
  TG_HD RangeSum operator()(int64_t i) const { return {values[i], uint64_t(i % n == 0)}; }
};

/// Replaces the elements of contiguous rows of n by their running sums. Sums of integers are exact
/// in any order, so Thrust may split rows as it likes.
void sum_along_rows(int64_t n, Tensor& y) {
  run_thrust(y, [values = reinterpret_cast<uint64_t*>(y.data<int64_t>()), count = y.numel(),
                 n](const auto& policy) {
    running_sums(policy, count, ElementOfRow{values, n}, values);
  });
}

template <typename T>
void cumsum(const Tensor& x, Tensor& y) {
  if constexpr (!kIsFloat<T>) {
    if (const Rows rows(x); rows.step == 1) {
      kernels::copy(x, y);
      return sum_along_rows(rows.n, y);
    }
  }
  run_scan(Running<T, false>{x.data<T>(), y.data<Out<T>>()}, x);
}

/// One thread per row, in order.
template <typename T>
struct Recurrence {
  const T *b, *a;
  T* y;
  Rows rows;
  bool reversed;
  __device__ void operator()(int64_t row) const {
    const int64_t step = reversed ? -rows.step : rows.step;
    int64_t at = rows.begin(row) + (reversed ? (rows.n - 1) * rows.step : 0);
    double value = 0;
    for (int64_t i = 0; i < rows.n; ++i, at += step) {
      value = i == 0 ? double(b[at]) : double(a[at]) * value + double(b[at]);
      y[at] = T(value);
    }
  }
};

template <typename T>
void recurrence(const Tensor& b, const Tensor& a, bool reversed, Tensor& y) {
  const Rows rows(b);
  for_each(rows.count, b, Recurrence<T>{b.data<T>(), a.data<T>(), y.data<T>(), rows, reversed});
}

}  // namespace

void register_scan() {
  set<kernels::cumsum>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { cumsum<T>(a...); });
  set<kernels::cumprod>(kAllTypes, []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
    run_scan(Running<T, true>{x.data<T>(), y.data<Out<T>>()}, x);
  });
  set<kernels::logcumsumexp>(kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
    run_scan(RunningLogSum<T>{x.data<T>(), y.data<T>()}, x);
  });
  set<kernels::running_extreme>(
      kAllTypes, []<typename T>(TypeTag<T>, const Tensor& x, bool largest, Tensor& indices) {
        run_scan(RunningExtreme<T>{x.data<T>(), indices.data<int64_t>(), largest}, x);
      });
  set<kernels::recurrence>(TypeList<float, double>{},
                           []<typename T>(TypeTag<T>, auto&... a) { recurrence<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
