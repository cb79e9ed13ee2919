// Whether the tape will have a node for a call.
#pragma once

#include "core/tape/recording.h"
#include "core/tape/variable.h"

namespace tapegrad::detail {

/// Returns whether an op with these operands is recorded. Undefined operands are permitted.
template <typename... Operands>
bool is_recorded(const Operands&... x) {
  return is_recording() && (x.requires_grad() || ...);
}

}  // namespace tapegrad::detail
