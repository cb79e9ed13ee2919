// Division of a kernel's work among threads.
#pragma once

#include <cstdint>

namespace tapegrad::backends::cpu {

/// Calls run(task) for each of `count` tasks, on several threads if `pays`. Otherwise OpenMP is not
/// used: its team of one thread takes longer than a kernel for a few rows. run must not throw.
template <typename Run>
void share_tasks(int64_t count, bool pays, const Run& run) {
  if (!pays) {
    for (int64_t task = 0; task < count; ++task) run(task);
    return;
  }
#pragma omp parallel for
  for (int64_t task = 0; task < count; ++task) run(task);
}

}  // namespace tapegrad::backends::cpu
