// Checks of values, which wait for a GPU. In a captured step on the CPU, every replay makes the
// checks.
#pragma once

#include <string_view>

#include "core/base/context.h"
#include "core/base/error.h"
#include "core/dispatch/recorded_call.h"
#include "core/tape/variable.h"

namespace tapegrad::detail {

/// Calls check(x), which throws an error for a wrong value. `check` must not refer to local
/// variables.
template <typename Check>
void check_values(const Tensor& x, const Check& check) {
  if (context.recorder != nullptr && record_check(x, check)) return;
  check(x);
}

/// Throws ArgumentError with `message`, a literal, unless `no_error`, a single bool, is true.
inline void require_value(const Variable& no_error, std::string_view message) {
  check_values(no_error.value(), [message](const Tensor& x) {
    if (x.item() == 0) fail<ArgumentError>(message);
  });
}

}  // namespace tapegrad::detail
