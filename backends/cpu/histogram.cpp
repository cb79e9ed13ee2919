// Counts of elements in equal parts of a range.
#include <algorithm>
#include <vector>

#include <omp.h>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/share.h"
#include "ops/internal/kernels/histogram.h"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kBinsAhead = 1024;  // elements whose bins are found before they are counted
constexpr int64_t kTables = 4;  // neighbours, often in one bin, are counted in different tables

/// Bins of [min, max]. Elements outside and NaN belong to an extra bin behind the last one.
struct Bins {
  double min, max, count;

  double operator()(double x) const {
    const double bin = std::min((x - min) * (count / (max - min)), count - 1);
    return ((x >= min) & (x <= max)) ? bin : count;
  }
};

template <typename T>
void histogram(const Tensor& x, const Tensor& min, const Tensor& max, Tensor& counts) {
  const T* from = x.data<T>();
  int64_t* to = counts.data<int64_t>();
  const int64_t n = x.numel(), bins = counts.numel();
  const Bins bin_of{*min.data<double>(), *max.data<double>(), double(bins)};
  const int64_t threads = n > kParallel ? omp_get_max_threads() : 1;
  const int64_t tables = bins <= kBinsAhead ? kTables : 1, table = bins + 1;
  std::vector<int64_t> found(size_t(threads * tables * table));
#pragma omp parallel for if (n > kParallel) num_threads(int(threads))
  for (int64_t first = 0; first < n; first += kBinsAhead) {
    const int64_t count = std::min(kBinsAhead, n - first);
    int64_t* mine = found.data() + omp_get_thread_num() * tables * table;
    int32_t bin[kBinsAhead];
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      bin[i] = int32_t(bin_of(double(Compute<T>(from[first + i]))));
    for (int64_t i = 0; i < count; ++i) ++mine[i % tables * table + bin[i]];
  }
  std::fill_n(to, bins, int64_t(0));
  for (int64_t k = 0; k < threads * tables; ++k)
    for (int64_t i = 0; i < bins; ++i) to[i] += found[size_t(k * table + i)];
}

}  // namespace

void register_histogram() {
  set<kernels::histogram>(kFloatTypes,
                          []<typename T>(TypeTag<T>, auto&... a) { histogram<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
