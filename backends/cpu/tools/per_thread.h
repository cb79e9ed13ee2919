// Workspace of the threads of a parallel loop.
#pragma once

#include <cstdint>
#include <vector>

#include <omp.h>

namespace tapegrad::backends::cpu {

/// Workspace for each thread, allocated before the threads start, because they must not throw.
class PerThread {
 public:
  explicit PerThread(int64_t floats)
      : floats_((floats + kAlign - 1) / kAlign * kAlign),
        memory_(size_t(floats_ * omp_get_max_threads())) {}
  float* mine() { return memory_.data() + omp_get_thread_num() * floats_; }

 private:
  static constexpr int64_t kAlign = 16;  // floats of a cache line
  int64_t floats_;
  std::vector<float> memory_;
};

}  // namespace tapegrad::backends::cpu
