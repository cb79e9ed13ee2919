// Threads for code outside of the backends, from the backend whose kernels it calls.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad {

/// A function that every thread of a team calls, with its number and the size of the team. It must
/// not throw.
struct TeamTask {
  void (*run)(void* object, int64_t thread, int64_t threads);
  void* object;
  bool is_alone;  // a team of one thread

  Device device() const { return cpu; }
  DType dtype() const { return f32; }
};

namespace kernels {

extern Kernel<void(const TeamTask&)> run_team;

}  // namespace kernels

/// Calls run(thread, threads) on every thread of a team.
template <typename Run>
void run_on_threads(bool is_alone, Run& run) {
  kernels::run_team({[](void* object, int64_t thread, int64_t threads) {
                       (*static_cast<Run*>(object))(thread, threads);
                     },
                     &run, is_alone});
}

/// Returns the number of threads of a team.
inline int64_t team_size() {
  int64_t size = 1;
  auto store = [&](int64_t thread, int64_t threads) {
    if (thread == 0) size = threads;
  };
  run_on_threads(/*is_alone=*/false, store);
  return size;
}

}  // namespace tapegrad
