// The rows of a call of a captured step: how its operands are divided such that calls for blocks of
// rows give the same bits as one call (segment.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/autograd/internal/step_call.h"

namespace tapegrad {

inline constexpr int64_t kLongestRow = 8192;  // elements

/// Correspondence between the elements of an operand and the rows of a call.
enum class OperandKind : unsigned char {
  kFull,    // the same number of elements for each row
  kSingle,  // one element for all elements
  kPeriod,  // of a flat elementwise call: elements that are repeated
  kWhole,   // read by all rows; rows of an elementwise call may read different elements
  kSum,     // written after the last row
  kOther,
};

struct RowOperand {
  OperandKind kind = OperandKind::kOther;
  int64_t period = 0;  // kPeriod: elements
  /// For kFull: the elements [base, base + span) of the storage belong to the rows, in their order,
  /// with the same number of elements for each row. The operand may skip or repeat elements of its
  /// row.
  int64_t base = 0, span = 0;
  // Layout of an operand, unless the call is flat:
  int64_t pitch = 0;     // elements between rows of a group
  Shape row = {};        // of a row
  Strides strides = {};  // of a row
  Strides outer = {};    // kWhole: of CallRows::outer
};

struct CallRows {
  int64_t rows = 0;       // largest number of rows; a divisor is permitted; 0: not divisible
  bool is_flat = false;   // a row is a fixed number of elements; blocks have one dimension
  bool is_fixed = false;  // the call must be divided into exactly these rows
  /// Number of rows in a group, whose indices have the sizes `outer`. A block does not cross the
  /// end of a group; 0: no groups.
  int64_t group = 0;
  Shape outer = {};
  std::vector<RowOperand> operands = {};  // in the order of each_tensor()
};

/// Returns the result of an elementwise call.
Tensor result_of(RecordedCall& call);

/// Returns whether the call draws random numbers.
bool has_draws(RecordedCall& call);

CallRows rows_of(const StepCall& step);

}  // namespace tapegrad
