// Running results along the middle one of three dimensions: a thread for every column, which goes
// along it in order, in double (whole numbers in 64 bits).
#include "ops/scan.h"

#include "backends/cuda/each.cuh"
#include "backends/cuda/numeric.cuh"
#include "backends/cuda/register.h"
#include "backends/cuda/rows.cuh"
#include "ops/reduce.h"

namespace tapegrad::backends::cuda {
namespace {

template <typename T>
inline constexpr bool kIsReal = kIsFloat<T>;
template <typename T>
using Wide = std::conditional_t<kIsReal<T>, double, uint64_t>;
template <typename T>
using Out = std::conditional_t<kIsReal<T>, T, int64_t>;

template <typename T, bool kProduct>
struct Running {
  const T* x;
  Out<T>* y;
  Rows rows;
  __device__ void operator()(int64_t row) const {
    Wide<T> total(kProduct ? 1 : 0);
    int64_t at = rows.begin(row);
    for (int64_t i = 0; i < rows.n; ++i, at += rows.step) {
      const Wide<T> value(widen(x[at]));
      total = kProduct ? total * value : total + value;
      if constexpr (kIsReal<T>)
        y[at] = narrow<T>(Compute<T>(total));
      else
        y[at] = int64_t(total);
    }
  }
};

/// log(sum) as the largest term and the sum relative to it.
template <typename T>
struct RunningLogSum {
  const T* x;
  T* y;
  Rows rows;
  __device__ void operator()(int64_t row) const {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    int64_t at = rows.begin(row);
    for (int64_t i = 0; i < rows.n; ++i, at += rows.step) {
      const double value = double(widen(x[at]));
      if (value == largest) {  // also of infinities, whose difference is not a number
        sum += 1;
      } else if (value < largest) {
        sum += std::exp(value - largest);
      } else {  // larger, or NaN
        sum = sum * std::exp(largest - value) + 1;
        largest = value;
      }
      const bool finite = largest - largest == 0 || largest != largest;
      y[at] = narrow<T>(Compute<T>(finite ? largest + std::log(sum) : largest));
    }
  }
};

template <typename T>
struct RunningExtreme {
  const T* x;
  int64_t* indices;
  Rows rows;
  bool largest;
  __device__ void operator()(int64_t row) const {
    Compute<T> best{};
    int64_t where = 0, at = rows.begin(row);
    for (int64_t i = 0; i < rows.n; ++i, at += rows.step) {
      const Compute<T> value = widen(x[at]);
      const bool stays = best != best && value == value;  // NaN
      const bool less = largest ? value < best : best < value;
      if (i == 0 || !(stays || less)) {
        best = value;
        where = i;
      }
      indices[at] = where;
    }
  }
};

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

}  // namespace

void register_scan() {
  set<kernels::cumsum>(kAllTypes, []<typename T>(Type<T>, const Tensor& x, Tensor& y) {
    const Rows rows(x);
    for_each(rows.count, x, Running<T, false>{x.data<T>(), y.data<Out<T>>(), rows});
  });
  set<kernels::cumprod>(kAllTypes, []<typename T>(Type<T>, const Tensor& x, Tensor& y) {
    const Rows rows(x);
    for_each(rows.count, x, Running<T, true>{x.data<T>(), y.data<Out<T>>(), rows});
  });
  set<kernels::logcumsumexp>(kFloatTypes, []<typename T>(Type<T>, const Tensor& x, Tensor& y) {
    const Rows rows(x);
    for_each(rows.count, x, RunningLogSum<T>{x.data<T>(), y.data<T>(), rows});
  });
  set<kernels::running_extreme>(kAllTypes, []<typename T>(Type<T>, const Tensor& x, bool largest,
                                                          Tensor& indices) {
    const Rows rows(x);
    for_each(rows.count, x, RunningExtreme<T>{x.data<T>(), indices.data<int64_t>(), rows, largest});
  });
  set<kernels::recurrence>(TypeList<float, double>{}, []<typename T>(Type<T>, const Tensor& b,
                                                                     const Tensor& a, bool reversed,
                                                                     Tensor& y) {
    const Rows rows(b);
    for_each(rows.count, b, Recurrence<T>{b.data<T>(), a.data<T>(), y.data<T>(), rows, reversed});
  });
}

}  // namespace tapegrad::backends::cuda
