// Segment: calls of a captured step that run together, on one block of rows after another. Threads
// share the blocks; each has its own copies of the calls, whose operands are parts of the recorded
// ones. A value that only the segment uses is never in memory: a thread keeps it in a buffer of one
// block.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "core/autograd/internal/segment_plan.h"

namespace tapegrad {

/// Buffers of threads, which the segments of a step share because they run one after another.
class Scratch {
 public:
  /// Returns the buffer of the number, of at least so many bytes.
  Tensor take(size_t thread, size_t number, int64_t bytes);

 private:
  std::vector<std::vector<Tensor>> buffers_;
};

class Segment {
 public:
  /// is_inner: whether only the segment uses a storage.
  Segment(const std::vector<StepCall>& calls, const StepGroup& group,
          const std::function<bool(const Storage&)>& is_inner, Scratch& scratch);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Returns false, and does nothing, if an operand has a packed layout now.
  bool run();
  /// Bytes of the values that need no memory.
  int64_t saved_bytes() const { return saved_bytes_; }

 private:
  class Worker;
  /// A call that adds up rows.
  struct Sum {
    RecordedCall* call;
    std::vector<std::byte> memory;
  };

  const int64_t rows_;
  int64_t block_;                                 // rows
  std::vector<int64_t> starts_;                   // first rows of the threads, and the end
  std::vector<const Storage*> outer_;             // operands in memory
  std::vector<std::unique_ptr<Worker>> workers_;  // one for each thread
  std::vector<Sum> sums_;
  int64_t saved_bytes_ = 0;
};

}  // namespace tapegrad
