#include "ops/reduce.h"

#include "backends/cpu/reduce.h"
#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {
namespace {

/// Two loops are one when a step of the outer is the whole of the inner.
void merge_loops(Nest& nest) {
  std::sort(nest.axes.begin(), nest.axes.begin() + nest.rank,
            [](const Axis& a, const Axis& b) { return a.step > b.step; });
  Nest merged;
  for (int i = 0; i < nest.rank; ++i) {
    const Axis& axis = nest.axes[i];
    if (merged.rank > 0) {
      Axis& outer = merged.axes[merged.rank - 1];
      if (outer.step == axis.size * axis.step && outer.out_step == axis.size * axis.out_step) {
        outer = {outer.size * axis.size, axis.step, axis.out_step};
        continue;
      }
    }
    merged.push(axis);
  }
  nest = merged;
}

/// Sums in double of sums in float: 2^24 + 8 ones are exact, and a sixteen-bit sum rounds once.
/// Integers wrap around, in int64.
template <typename T>
struct SumOf {
  using Value = Compute<T>;
  static constexpr bool kReal = std::is_floating_point_v<Value>;
  using Part = std::conditional_t<kReal, Value, uint64_t>;
  using Total = std::conditional_t<kReal, double, uint64_t>;
  static constexpr Part kFirst = 0;

  static Part add(Part part, Value value) { return part + Part(value); }
  static Part merge(Part a, Part b) { return a + b; }
  static Total join(Total a, Total b) { return a + b; }
  static Total repeat(Total total, int64_t n) { return n == 1 ? total : total * Total(n); }
};

}  // namespace

ReductionPlan plan_reduction(const Tensor& x, const Tensor& y) {
  ReductionPlan plan;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t size = x.shape()[i];
    if (size == 1) continue;
    if (y.shape()[i] == size)
      plan.kept.push({size, x.strides()[i], y.strides()[i]});
    else if (x.strides()[i] == 0)
      plan.repeats *= size;
    else
      plan.reduced.push({size, x.strides()[i], 0});
  }
  merge_loops(plan.kept);
  merge_loops(plan.reduced);
  if (plan.reduced.rank == 0) plan.reduced.push({1, 1, 0});
  plan.by_columns =
      plan.kept.rank > 0 && (plan.kept.inner().step < plan.reduced.inner().step ||
                             (plan.reduced.inner().size < 16 && plan.kept.inner().size >= 16));
  return plan;
}

void register_reduce() {
  constexpr DeviceType kCpu = DeviceType::kCpu;
  set_kernel(kernels::sum, kCpu, kAllTypes,
             []<typename T>(Type<T>, const Tensor& x, double divisor, Tensor& y) {
               using R = SumOf<T>;
               if constexpr (R::kReal)
                 reduce<R, T, T>(x, y, [=](double total) { return convert<T>(total / divisor); });
               else
                 reduce<R, T, int64_t>(x, y, [](uint64_t total) { return int64_t(total); });
             });
}

}  // namespace tapegrad::backends::cpu
