// Number sequences. Every element is computed from its index, so the result does not depend on
// threads.
#include "ops/create.h"
#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kParallelSequence = 1 << 16;  // elements

template <typename T, typename F>
void fill_by_index(Tensor& y, F f) {
  T* to = y.data<T>();
  const int64_t count = y.numel();
#pragma omp parallel for if (count > kParallelSequence)
  for (int64_t i = 0; i < count; ++i) to[i] = convert<T>(f(i));
}

template <typename T>
void arange(Tensor& y, Number start, Number step) {
  if (start.kind() == f64 || step.kind() == f64) {
    const double from = start.real(), by = step.real();
    fill_by_index<T>(y, [=](int64_t i) { return from + double(i) * by; });
  } else {
    // Unsigned, because i * step may exceed 2^63 even if the sum does not.
    const auto from = uint64_t(start.to<int64_t>()), by = uint64_t(step.to<int64_t>());
    fill_by_index<T>(y, [=](int64_t i) { return int64_t(from + uint64_t(i) * by); });
  }
}

template <typename T>
void linspace(Tensor& y, double start, double end) {
  // Computed from the nearer end, so that both ends are exact.
  const int64_t last = y.numel() - 1;
  const double by = last > 0 ? (end - start) / double(last) : 0;
  fill_by_index<T>(y, [=](int64_t i) {
    return 2 * i <= last ? start + double(i) * by : end - double(last - i) * by;
  });
}

}  // namespace

void register_create() {
  set<kernels::arange>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { arange<T>(a...); });
  set<kernels::linspace>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { linspace<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
