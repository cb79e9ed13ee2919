// Segment: calls of a captured step that run together, on one block of rows after another. Threads
// share the blocks. Each thread has copies of the calls, whose operands are parts of the recorded
// operands. A value that only the segment uses is never in memory: a thread keeps it in a buffer of
// one block. Narrow layers are computed with a row in each lane of a vector if that pays off
// (lane_worker.h).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "core/autograd/internal/lane_worker.h"
#include "core/autograd/internal/segment_buffers.h"

namespace tapegrad {

class Segment {
 public:
  /// `is_inner` returns whether only the segment uses a storage.
  Segment(const std::vector<StepCall>& calls, const StepGroup& group,
          const std::function<bool(const TensorStorage&)>& is_inner, Scratch& scratch);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Runs the calls. Returns false without computing if an operand is packed that was not packed in
  /// the first run.
  bool run();
  /// Bytes of the values that need no memory.
  int64_t saved_bytes() const { return saved_bytes_; }
  /// Returns whether a vector holds an element of many rows instead of many elements of one row.
  bool has_lanes() const { return !lane_workers_.empty(); }

 private:
  class Worker;
  /// A storage that is in memory.
  struct Outer {
    TensorStorage* storage;
    bool was_packed;  // before the first call, in the first run
  };
  /// A call that adds up rows.
  struct Sum {
    RecordedCall* call;
    RowDivision division;
    Tensor memory = {};
    std::byte* data() const { return reinterpret_cast<std::byte*>(memory.data<uint8_t>()); }
  };

  void add_outer(const StepCall& step, const Tensor& x);
  void run_blocks();

  const int64_t rows_;
  int64_t block_;                                          // rows of a block
  std::vector<int64_t> starts_;                            // first rows of the threads, and the end
  std::vector<Outer> outer_;                               // operands in memory
  std::vector<std::unique_ptr<Worker>> workers_;           // one for each thread
  std::vector<std::unique_ptr<LaneWorker>> lane_workers_;  // one for each thread, or empty
  std::vector<Sum> sums_;
  int64_t saved_bytes_ = 0;
};

}  // namespace tapegrad
