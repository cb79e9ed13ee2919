// Plan of a captured step on the CPU: the calls that are joined to segments, and the order in which
// segments and single calls run. A segment runs its calls on one block of rows after another
// (segment.h), so that values between its calls stay in the cache. The calls of a segment are
// elementwise (Parts::kElements) or have RowFunctions; segment_rows.h computes their rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/autograd/internal/segment_rows.h"
#include "core/autograd/internal/step_call.h"

namespace tapegrad {

/// Calls that run together, or a single call.
struct StepGroup {
  std::vector<size_t> calls = {};  // in the order of the step
  int64_t rows = 0;                // of each full operand of a segment; 0 for a call of no segment
  bool is_fixed = false;           // whether a call requires division into exactly these rows
  int64_t unit = 1;                // a block begins at a multiple of this number of rows
  std::vector<int64_t> starts = {};  // rows at which a thread may begin; empty: any
  std::string alone = {};            // reason why an elementwise call is not in a segment
};

/// Returns the groups in the order in which they run. Every call depends only on calls of its own
/// or of earlier groups, and the calls of a group may run block by block. `is_own` tells whether
/// only calls of the step use a storage.
std::vector<StepGroup> plan_groups(const std::vector<StepCall>& calls,
                                   const std::function<bool(const TensorStorage&)>& is_own);

}  // namespace tapegrad
