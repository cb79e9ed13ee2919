// Runs the parallel regions of a program by one thread, the members of a team one after another in
// a chosen order. If a member writes into the part of another one, the results depend on the order,
// which real threads show only now and then.
#pragma once

#include <cstdint>

namespace tapegrad::testing {

enum class TeamOrder { kThreads, kAscending, kDescending };

/// Sets the order for regions that begin later. kThreads: real threads, as without this file.
void set_team_order(TeamOrder order);

/// Returns the number of regions that ran in a chosen order.
int64_t regions_in_order();

}  // namespace tapegrad::testing
