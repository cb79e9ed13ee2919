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
        memory_(size_t(floats_ * omp_get_max_threads() + kAlign)) {
    const auto past = reinterpret_cast<uintptr_t>(memory_.data()) / sizeof(float) % kAlign;
    first_ = memory_.data() + (kAlign - past) % kAlign;
  }
  /// Returns the workspace of this thread, which begins at a cache line.
  float* mine() { return first_ + omp_get_thread_num() * floats_; }

 private:
  static constexpr int64_t kAlign = 16;  // floats of a cache line
  int64_t floats_;
  std::vector<float> memory_;
  float* first_;
};

}  // namespace tapegrad::backends::cpu
