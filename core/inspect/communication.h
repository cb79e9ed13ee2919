// Communication with other ranks (dist/), as a profiler (core/inspect/profiler.h) sees it.
#pragma once

#include <string_view>

namespace tapegrad {

/// Tells the profiler that observes this thread, if there is one, of a collective that another
/// thread has run. Times are seconds of the steady clock. `waited` are the seconds in which this
/// thread waited for the end of the collective.
void note_communication(std::string_view name, double begin, double end, double waited);

}  // namespace tapegrad
