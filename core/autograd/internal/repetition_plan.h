// Values of a captured step that are computed twice. The memory that they would occupy between two
// of their uses costs more than the time of a cheap kernel.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

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

}  // namespace tapegrad
