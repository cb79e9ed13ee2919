#include "backends/cpu/tools/reduce_plan.h"

#include <algorithm>

namespace tapegrad::backends::cpu {
namespace {

/// Merges adjacent loops: two loops become one if the outer step equals the extent of the inner
/// loop.
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

}  // namespace tapegrad::backends::cpu
