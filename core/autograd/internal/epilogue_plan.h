// Epilogues of a captured step on the CPU: an activation computed from the result of the call
// before it becomes part of that call, if the kernel takes epilogues (RecordedCall::absorb) and
// nothing else uses the operand of the activation.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "core/autograd/internal/segment_plan.h"

namespace tapegrad {

struct AbsorbedCall {
  size_t maker;  // the call that computes the activation, too
  size_t activation;
};

/// Removes such activations from the groups. Both calls have to be in one group or alone in theirs:
/// an activation that runs block by block with other calls costs no pass over memory of its own.
/// is_own: whether only calls refer to a storage.
std::vector<AbsorbedCall> absorb_activations(
    std::vector<StepCall>& calls, std::vector<StepGroup>& groups,
    const std::function<bool(const TensorStorage&)>& is_own);

}  // namespace tapegrad
