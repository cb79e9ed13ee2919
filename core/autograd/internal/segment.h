// Segment: elementwise calls of a captured step that run together, on one block of elements after
// another. Threads share the blocks; each has its own copies of the calls, whose operands are parts
// of the recorded ones. A value that only the segment uses is never in memory: a thread keeps it in
// a buffer of one block.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/autograd/internal/segment_plan.h"

namespace tapegrad {

class Segment {
 public:
  /// is_inner: whether only the segment uses a storage.
  Segment(const std::vector<StepCall>& calls, const StepGroup& group,
          const std::function<bool(const Storage&)>& is_inner);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Returns false, and does nothing, if an operand has a packed layout now.
  bool run();
  /// Bytes of the values that need no memory.
  int64_t saved_bytes() const { return saved_bytes_; }

 private:
  class Worker;

  const int64_t count_;                           // elements of each result
  int64_t block_, share_;                         // elements of a block and of a thread
  std::vector<const Storage*> outer_;             // operands in memory
  std::vector<std::unique_ptr<Worker>> workers_;  // one for each thread
  int64_t saved_bytes_ = 0;
};

}  // namespace tapegrad
