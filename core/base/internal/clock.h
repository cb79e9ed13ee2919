// The clock of the host's measurements.
#pragma once

#include <chrono>

namespace tapegrad::detail {

/// Returns the seconds of a clock that is never set. Times of the profiler and of collectives are
/// comparable, because both come from this clock.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tapegrad::detail
