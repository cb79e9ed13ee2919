// Registers kernels for integer dtypes and bool for which a backend compiles none: the operands are
// converted to a wider dtype, the kernel of that dtype runs, and its results are narrowed. Results
// wrap around as in PyTorch, because the low bits of integer arithmetic depend only on the low bits
// of the operands. Kernels that take every dtype (comparisons, copies, indexing) are not listed.
#include <array>
#include <initializer_list>
#include <utility>

#include "core/dispatch/internal/backends.h"
#include "core/dispatch/kernels.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/internal/kernels/running_extreme.h"
#include "ops/internal/kernels/scatter.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/scatter.h"
#include "ops/unary.h"

namespace tapegrad::backends {
namespace {

template <typename Argument>
constexpr bool kIsTensor = std::is_same_v<std::remove_cvref_t<Argument>, Tensor>;

/// Effect of a kernel on the former values of its results.
enum class Results { kOverwritten, kChanged };

/// The tensors of one kernel call. Wide tensors take the place of tensors of the narrow dtype.
class WideTensors {
 public:
  static constexpr size_t kMost = 4;

  WideTensors(DType narrow, DType wide, Results results)
      : narrow_(narrow), wide_(wide), is_overwritten_(results == Results::kOverwritten) {}

  template <typename Argument>
  Argument of(Argument given) {
    if constexpr (std::is_same_v<Argument, const Tensor&>)
      return converts(given) ? add(given.to(wide_), nullptr) : given;
    else if constexpr (std::is_same_v<Argument, Tensor&>)
      return converts(given) ? add_result(given) : given;
    else
      return given;
  }
  /// Copies the results of the kernel to the tensors that were replaced.
  void write_back() {
    for (int i = 0; i < count_; ++i)
      if (Tensor* result = results_[size_t(i)])
        kernels::copy(is_float(wide_) ? tensors_[size_t(i)].to(i64) : tensors_[size_t(i)], *result);
  }

 private:
  bool converts(const Tensor& x) const { return x && x.dtype() == narrow_; }
  [[gnu::noinline]] Tensor& add(Tensor wide, Tensor* result) {
    results_[size_t(count_)] = result;
    return tensors_[size_t(count_++)] = std::move(wide);
  }
  Tensor& add_result(Tensor& y) {
    return add(is_overwritten_ ? Tensor::empty(y.shape(), wide_, y.device()) : y.to(wide_), &y);
  }

  DType narrow_, wide_;
  bool is_overwritten_;
  int count_ = 0;
  std::array<Tensor, kMost> tensors_{};
  std::array<Tensor*, kMost> results_{};
};

/// Runs the function that a kernel has for the dtype `wide`.
template <auto& kKernel, DType wide, Results results, typename First, typename... Rest>
[[gnu::cold]] void run_wide(First first, Rest... rest) {
  static_assert((kIsTensor<First> + ... + kIsTensor<Rest>) <= WideTensors::kMost);
  WideTensors tensors(first.dtype(), wide, results);
  kKernel.at(first.device().type, wide)(tensors.of<First>(first), tensors.of<Rest>(rest)...);
  tensors.write_back();
}

struct Entry {
  KernelTable* kernel;
  KernelTable::AnyFunction function;
};

template <auto& kKernel, DType wide, Results results, typename... Arguments>
Entry entry(const Kernel<void(Arguments...)>&) {
  return {&kKernel, reinterpret_cast<KernelTable::AnyFunction>(
                        &run_wide<kKernel, wide, results, Arguments...>)};
}

template <DType wide, Results results, auto&... kKernels>
void set_wide(DeviceType device, std::initializer_list<DType> dtypes) {
  for (const Entry& each : {entry<kKernels, wide, results>(kKernels)...})
    for (const DType dtype : dtypes)
      if (each.kernel->has(device, wide) && !each.kernel->has(device, dtype))
        each.kernel->set(device, dtype, each.function);
}

}  // namespace

void register_narrow_integers(DeviceType device) {
  namespace k = kernels;
  using enum Results;
  set_wide<i32, kOverwritten, k::neg, k::abs, k::sign, k::square, k::step, k::clamp, k::add, k::sub,
           k::mul, k::pow, k::fmod, k::remainder, k::floor_divide, k::maximum, k::minimum,
           k::cumsum, k::cumprod, k::running_values, k::amax, k::amin, k::extreme, k::matmul,
           k::linear>(device, {i8, i16});
  set_wide<i64, kOverwritten, k::sum, k::prod>(device, {i8, i16, u8, i32});
  set_wide<i32, kChanged, k::index_add, k::index_accumulate, k::scatter_add, k::scatter_reduce>(
      device, {i8, i16});
  set_wide<i32, kOverwritten, k::maximum, k::minimum, k::extreme, k::sign>(device, {boolean});
  set_wide<i32, kChanged, k::index_add, k::scatter_add, k::scatter_reduce>(device, {boolean});
  // Sums of products of these types are exact in float64.
  set_wide<f64, kOverwritten, k::conv2d, k::max_pool2d>(device, {i8, i16, u8});
}

}  // namespace tapegrad::backends
