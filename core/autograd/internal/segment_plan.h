// Plan of a captured step on the CPU: which elementwise calls are joined to segments, and the order
// in which segments and single calls run. A segment runs its calls on one block of elements after
// another (segment.h), so that values between its calls stay in the first-level cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/autograd/internal/step_call.h"

namespace tapegrad {

/// Calls that run together; a single call if there is one.
struct StepGroup {
  std::vector<size_t> calls;  // in the order of the step
  int64_t count = 0;          // elements of each result of a segment; 0 for a single call
  int64_t row = 0;            // elements of an operand that is repeated for all rows; 0 for none
  std::string alone;          // why an elementwise call is not in a segment
};

/// How an operand of an elementwise call corresponds to the elements of the results.
enum class OperandKind : unsigned char {
  kFull,    // one element each
  kSingle,  // one element for all
  kRow,     // a row that is repeated for all rows
  kOther,
};
struct OperandShape {
  OperandKind kind = OperandKind::kOther;
  int64_t row = 0;
};
OperandShape shape_of_operand(const Tensor& x, const Shape& result);

/// Returns the groups in the order in which they run. Every call depends only on calls of its own
/// or of earlier groups, and the calls of a group may run block by block.
std::vector<StepGroup> plan_groups(const std::vector<StepCall>& calls);

}  // namespace tapegrad
