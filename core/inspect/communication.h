// Communication with other ranks (dist/) in the results of a profiler (core/inspect/profiler.h).
#pragma once

#include <string_view>

namespace tapegrad {

/// Reports a collective that another thread has run to the profiler that observes this thread, if
/// there is one. Times are seconds of the steady clock. `waited` is the time in which this thread
/// waited for the end of the collective.
void note_communication(std::string_view name, double begin, double end, double waited);

}  // namespace tapegrad
