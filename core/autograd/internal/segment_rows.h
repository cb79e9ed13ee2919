// The rows of a call of a captured step: how its operands are divided so that calls for blocks of
// rows give the bits of one call (segment.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/autograd/internal/step_call.h"

namespace tapegrad {

inline constexpr int64_t kLongestRow = 8192;  // elements

/// How an operand corresponds to the rows of a call.
enum class OperandKind : unsigned char {
  kFull,    // the same number of elements for each row
  kSingle,  // one element for all elements
  kPeriod,  // of a flat elementwise call: elements that are repeated
  kWhole,   // read by all rows; of an elementwise call, rows may read other elements of it
  kSum,     // written after the last row
  kOther,
};

struct RowOperand {
  OperandKind kind = OperandKind::kOther;
  int64_t period = 0;  // kPeriod: elements
  /// kFull: the elements [base, base + span) of the storage belong to the rows, in their order, and
  /// each row to as many of them. The operand may skip or repeat elements of its row.
  int64_t base = 0, span = 0;
  // Unless the call is flat:
  int64_t pitch = 0;     // elements between rows of a group
  Shape row = {};        // of a row
  Strides strides = {};  // of a row
  Strides outer = {};    // kWhole: of CallRows::outer
};

struct CallRows {
  int64_t rows = 0;       // into which the call can be divided, or into a divisor; 0: not at all
  bool is_flat = false;   // a row is some elements; blocks have one dimension
  bool is_fixed = false;  // the call must be divided into exactly these rows
  /// A block is within one of the groups of so many rows, whose indices have the sizes `outer`; 0:
  /// a block may be anywhere.
  int64_t group = 0;
  Shape outer = {};
  std::vector<RowOperand> operands = {};  // in the order of each_tensor()
};

/// The result of an elementwise call.
Tensor result_of(RecordedCall& call);

/// Whether the call draws random numbers.
bool has_draws(RecordedCall& call);

CallRows rows_of(const StepCall& step);

}  // namespace tapegrad
