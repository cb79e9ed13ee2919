#include "core/dispatch/internal/tasks.h"

namespace tapegrad::kernels {

constinit decltype(run_team) run_team{"run_team"};

}  // namespace tapegrad::kernels
