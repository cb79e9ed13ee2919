// Functions that captured steps (core/autograd/internal/segment.h) need from the CPU backend.
#include <omp.h>

#include "backends/cpu/fast/linear_lanes.h"
#include "backends/cpu/register.h"
#include "core/dispatch/internal/tasks.h"

namespace tapegrad::backends::cpu {

void register_team() {
  set<kernels::run_team>(TypeList<float>{}, [](auto, const TeamTask& task) {
    if (task.is_alone || omp_get_max_threads() == 1) return task.run(task.object, 0, 1);
#pragma omp parallel
    task.run(task.object, omp_get_thread_num(), omp_get_num_threads());
  });
  set<kernels::describe_lanes>(TypeList<float>{},
                               [](auto, const LaneQuery& query, LaneLayout& layout) {
                                 layout = describe_lanes(*query.call);
                               });
}

}  // namespace tapegrad::backends::cpu
