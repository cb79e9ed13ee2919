#include "core/dispatch/internal/tasks.h"

namespace tapegrad::kernels {

constinit decltype(run_team) run_team{"run_team"};
constinit decltype(describe_lanes) describe_lanes{"describe_lanes"};

}  // namespace tapegrad::kernels
