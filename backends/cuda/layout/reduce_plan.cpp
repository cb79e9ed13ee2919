#include "backends/cuda/layout/reduce_plan.h"

#include <algorithm>

#include "backends/cuda/runtime/stream.h"
#include "backends/joint_layout.h"

namespace tapegrad::backends::cuda {
namespace {

Nest nest_of(const JointLayout<1>& joint) {
  Nest nest;
  nest.rank = joint.rank;
  for (int d = 0; d < joint.rank; ++d) {
    nest.sizes[d] = joint.sizes[size_t(d)];
    nest.steps[d] = joint.strides[0][size_t(d)];
  }
  return nest;
}

int64_t innermost_step(const Nest& nest) { return nest.rank > 0 ? nest.steps[nest.rank - 1] : 0; }

}  // namespace

ReductionPlan plan_reduction(const Tensor& x, const Tensor& y) {
  JointLayout<1> kept, reduced;
  ReductionPlan plan;
  plan.outputs = y.numel();
  plan.reduced_count = 1;
  for (int i = 0; i < x.rank(); ++i) {
    const bool is_kept = y.shape()[i] == x.shape()[i];
    (is_kept ? kept : reduced).add_dim(x.shape()[i], {x.strides()[i]});
    if (!is_kept) plan.reduced_count *= x.shape()[i];
  }
  plan.kept = nest_of(kept);
  plan.reduced = nest_of(reduced);
  // If neighbouring outputs are adjacent in memory, neighbouring threads compute them.
  const bool by_columns = plan.kept.rank > 0 && plan.reduced.rank > 0 &&
                          innermost_step(plan.kept) == 1 && innermost_step(plan.reduced) != 1;
  // Enough pieces to occupy the device, each with at least about a thousand elements (64 for
  // columns, because a single thread processes a piece).
  const int64_t least = by_columns ? 64 : 1024;
  const int64_t enough =
      int64_t(devices().multiprocessors[y.device().index]) * (by_columns ? 512 : 32);
  constexpr int64_t kMostPieces = 1024;
  if (plan.outputs > 0)
    plan.pieces = std::clamp<int64_t>(std::min(enough / plan.outputs, plan.reduced_count / least),
                                      1, kMostPieces);
  plan.lanes = by_columns || plan.reduced_count <= 4 ? 1 : 32;
  return plan;
}

}  // namespace tapegrad::backends::cuda
