// Epilogues of a captured step on the CPU. The computation of an activation becomes part of the
// call that made its operand, if the kernel takes epilogues (RecordedCall::absorb) and nothing else
// uses the operand.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "core/autograd/internal/segment_plan.h"

namespace tapegrad {

struct AbsorbedCall {
  size_t maker;  // the call that also computes the activation
  size_t activation;
};

/// Removes the activations that become epilogues from the groups. The call of such an activation
/// and the call of its operand have to be in one group, or each alone in its group: an activation
/// that runs block by block with other calls needs no separate pass over memory. `is_own` returns
/// whether only calls refer to a storage.
std::vector<AbsorbedCall> absorb_activations(
    std::vector<StepCall>& calls, std::vector<StepGroup>& groups,
    const std::function<bool(const TensorStorage&)>& is_own);

}  // namespace tapegrad
