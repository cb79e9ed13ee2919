// LaneWorker: runs the calls of a segment (segment.h) for one thread with a row in each lane of a
// vector (LaneLayout, core/dispatch/internal/tasks.h). Operands in memory are transposed to lanes
// before the calls and back after them. Values that only the segment uses are never in row order.
// Elementwise kernels need no change, because all their operands have the same order.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/autograd/internal/segment_buffers.h"
#include "core/dispatch/internal/tasks.h"

namespace tapegrad {

class LaneWorker {
 public:
  /// Returns the blocks with rows in lanes for a segment. LaneLayout::lanes is 0 if a call does not
  /// permit lanes or if they do not pay off.
  static LaneLayout lanes_of(const std::vector<StepCall>& calls, const StepGroup& group,
                             const Buffers& buffers);

  LaneWorker(const std::vector<StepCall>& calls, const StepGroup& group, const Buffers& buffers,
             const LaneLayout& lanes, Scratch& scratch, size_t thread);
  ~LaneWorker();
  LaneWorker(const LaneWorker&) = delete;
  LaneWorker& operator=(const LaneWorker&) = delete;

  /// Sets the memory of a call for sums over rows.
  void set_sums(size_t number, std::byte* sums) { calls_[number].sums = sums; }

  /// Runs complete lanes of rows from `first` on. Returns the first of the remaining rows before
  /// `last`, which do not fill the lanes.
  int64_t run(int64_t first, int64_t last);

 private:
  struct Call {
    std::unique_ptr<RecordedCall> call;
    bool is_divided;  // whether the call has RowFunctions; otherwise it is elementwise
    std::byte* sums;
  };
  /// An operand in memory, and its tiles in lanes.
  struct Outer {
    Tensor memory;    // [lanes, elements of a tile]
    Tensor in_lanes;  // [elements of a tile, lanes]
    int64_t offset;   // of the memory, in elements
    int64_t width;    // elements of a row
    bool is_written;
  };
  /// An operand of a call that is a part of an Outer.
  struct Part {
    Tensor* operand;
    int64_t width;  // elements of a row
  };
  /// An operand with the same elements in each block.
  struct Repeated {
    Tensor source, block;
  };

  uint8_t* take(int64_t bytes);
  void lend(Tensor& x);
  void bind_full(Tensor& x, bool is_written, bool is_flat, const Buffers& buffers);
  void run_tiles(int64_t first);
  void bind_repeated(Tensor& x, int64_t period, int64_t width);

  const int64_t rows_, lanes_, tile_;
  const int64_t block_;  // rows of a tile in one block
  Scratch& scratch_;     // used while the worker is constructed
  const size_t thread_;
  std::vector<Tensor> buffers_;
  std::vector<Call> calls_;
  std::vector<Outer> outers_;
  std::vector<Part> parts_;
  std::vector<Repeated> repeated_;
  std::vector<Tensor*> lent_;
};

}  // namespace tapegrad
