// Values of a captured step that are computed twice: the memory that they would occupy between two
// of their uses, or the time to write and read it, costs more than a cheap kernel.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "core/autograd/internal/segment_plan.h"
#include "core/autograd/internal/step_call.h"

namespace tapegrad {

/// Calls that are repeated before a later use of the value that they compute.
struct Repetition {
  TensorStorage* value;
  std::vector<size_t> calls;  // only they write the value
  size_t before;              // the use; it and later uses read the value of the repeated calls
};

/// Chooses values by the memory in use during their lifetimes. Stops when the largest sum of memory
/// is at most `share` of the initial one, or when no cheap kernel has operands that are needed
/// until then anyway. `is_temporary` returns whether only calls refer to a storage. The result is
/// in the order of insertion.
std::vector<Repetition> plan_repetitions(
    const std::vector<StepCall>& calls, double share,
    const std::function<bool(const TensorStorage& storage)>& is_temporary);

/// Chooses values that one segment computes and another one uses, if the other segment can compute
/// them from operands that it reads anyway or that are much smaller. Neither segment then writes
/// the value to memory. `groups` is the plan without repetitions.
std::vector<Repetition> plan_recomputations(
    const std::vector<StepCall>& calls, const std::vector<StepGroup>& groups,
    const std::function<bool(const TensorStorage& storage)>& is_temporary);

}  // namespace tapegrad
