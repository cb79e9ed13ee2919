#include "core/autograd/internal/segment.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/dispatch/internal/tasks.h"
#include "core/dispatch/kernels.h"

namespace tapegrad {
namespace {

// Bytes of all buffers for which the calls of a block are fast, and for which they are not slow:
// the buffers should stay in the first-level cache, at least in the second-level cache.
constexpr int64_t kCacheBytes = 32 * 1024, kMostBytes = 256 * 1024;
constexpr int64_t kOperandBytes = 32 * 1024;  // of one operand
constexpr int64_t kFewestElements = 512;      // of each result of a block, if the cache permits
constexpr int64_t kSharedElements = 65536;    // elements for which a second thread pays off
constexpr int64_t kFewestBlockRows = 8;       // of a block with kernels of whole rows, if possible
// Elements of the widest operand of a block with operands that are not contiguous, whose calls take
// longer to begin than those of contiguous operands, and blocks of each thread, if there are as
// many.
constexpr int64_t kRowElements = 6144, kFewestBlocks = 4;

/// Sizes of the operands of a segment's calls, by which the size of a block is chosen.
struct OperandSizes {
  int64_t elements = 0;                                     // of all results
  int64_t narrowest = std::numeric_limits<int64_t>::max();  // elements of a row of a result
  int64_t widest = 1;                                       // bytes of a row of an operand
  bool has_columns = false;  // results of one element for a row are not worth a large block

  void add(const RowOperand& operand, DType dtype, bool is_written, int64_t rows) {
    if (is_written) elements += operand.span;
    if (is_written) narrowest = std::min(narrowest, operand.span / rows);
    widest = std::max(widest, operand.span / rows * size_of(dtype));
  }
  /// Returns the rows of a block, a multiple of `unit`. A row needs `width` bytes of buffers.
  int64_t block(int64_t rows, int64_t width, int64_t unit) const {
    int64_t fewest = kFewestElements / narrowest;
    if (has_columns)
      fewest = std::max(std::min(fewest, kFewestBlockRows),
                        std::min(kRowElements * int64_t(sizeof(float)) / widest,
                                 rows / (kFewestBlocks * team_size())));
    fewest = std::min(kMostBytes / width, fewest);
    const int64_t block =
        std::max({std::min(kCacheBytes / width, kOperandBytes / widest), fewest, int64_t(1)});
    return std::max(int64_t(1), block / unit) * unit;
  }
};

}  // namespace

/// The copies of the calls of one thread.
class Segment::Worker {
 public:
  Worker(const std::vector<StepCall>& calls, const StepGroup& group, const Buffers& buffers,
         int64_t block, Scratch& scratch, size_t thread)
      : rows_(group.rows), block_(block), scratch_(scratch), thread_(thread) {
    for (size_t i = 0; i < buffers.count(); ++i)
      take(block * buffers.width(i) + kRowSlack * int64_t(sizeof(float)));
    for (const size_t number : group.calls) {
      RecordedCall& recorded = *calls[number].call;
      const CallRows rows = rows_of(calls[number]);
      const bool is_divided = recorded.parts() != Parts::kElements;
      calls_.push_back({recorded.copy(), is_divided, rows.rows / rows_, nullptr});
      RecordedCall& call = *calls_.back().call;
      size_t next = 0;
      each_tensor(call, [&](Tensor& x, bool) {
        const RowOperand& operand = rows.operands[next++];
        if (operand.kind == OperandKind::kFull)
          bind_full(x, operand, rows, buffers);
        else if (is_divided)
          lend(x);
        else if (rows.is_flat)
          bind_repeated(x, operand, result_of(recorded).numel() / rows_);
        else
          bind_whole(x, operand, rows);
      });
      if (!is_divided) bind_draws(call, recorded);
    }
  }

  ~Worker() {
    for (Tensor* x : lent_) x->storage().lend(-1);
    for (const Repeated& repeated : repeated_) repeated.source.storage().lend(-1);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Sets the memory of the next sum over rows.
  void set_sums(size_t number, std::byte* sums) { calls_[number].sums = sums; }

  /// Runs the blocks of rows [first, last).
  void run(int64_t first, int64_t last) {
    for (const Repeated& repeated : repeated_) {
      Tensor block = repeated.block;
      kernels::copy(repeated.source, block);
    }
    for (int64_t count; first < last; first += count) {
      count = std::min(block_, last - first);
      for (const int64_t group : groups_) count = std::min(count, group - first % group);
      if (count != length_) set_length(count);
      for (const Part& part : parts_) part.operand->set_offset(part.offset + first * part.width);
      for (const Whole& whole : wholes_) whole.operand->set_offset(whole.offset_at(first));
      for (const Draw& draw : draws_)
        *draw.state = {draw.recorded->seed,
                       draw.recorded->offset + uint64_t(first * draw.width) / 4};
      for (const Call& call : calls_) {
        if (call.is_divided)
          call.call->run_rows(
              {first * call.elements, count * call.elements, rows_ * call.elements, call.sums});
        else
          call.call->run_part();
      }
    }
  }

 private:
  struct Call {
    std::unique_ptr<RecordedCall> call;
    bool is_divided;   // by its RowFunctions; otherwise it is elementwise
    int64_t elements;  // its own rows in each row of the segment
    std::byte* sums;
  };
  /// An operand whose blocks have [rows of the call, sizes of a row].
  struct Full {
    Tensor* operand;
    int64_t times;  // rows of the call in a row of the segment
    int64_t pitch;
    Shape row;
    Strides strides;  // of a row
  };
  /// A full operand in memory.
  struct Part {
    Tensor* operand;
    int64_t offset, width;
  };
  /// An operand with the same elements in each block.
  struct Repeated {
    Tensor source;  // with the shape of the operand, or of a period
    Tensor block;
  };
  /// An operand in memory of which rows read different elements.
  struct Whole {
    Tensor* operand;
    int64_t offset, times, pitch, group;
    Shape sizes;  // of the indices of groups
    Strides strides;

    int64_t offset_at(int64_t first) const {
      const int64_t row = first * times;
      int64_t at = offset + row % group * pitch, index = row / group;
      for (int i = sizes.rank() - 1; i >= 0; --i) {
        at += index % sizes[i] * strides[i];
        index /= sizes[i];
      }
      return at;
    }
  };
  struct Draw {
    RandomState* state;
    const RandomState* recorded;
    int64_t width;
  };

  void bind_full(Tensor& x, const RowOperand& operand, const CallRows& rows,
                 const Buffers& buffers) {
    const int64_t width = operand.span / rows_;
    if (rows.is_flat)
      full_.push_back({&x, width, 1, {}, {}});
    else
      full_.push_back({&x, rows.rows / rows_, operand.pitch, operand.row, operand.strides});
    const size_t number = buffers.of(x.storage());
    if (number < buffers.count()) {
      const int64_t offset = x.layout().offset - operand.base;
      x = Tensor::wrap(buffers_[number].data<uint8_t>(), {block_ * width}, x.dtype());
      x.set_offset(offset);
    } else {
      lend(x);
      parts_.push_back({&x, x.layout().offset, width});
    }
  }
  void bind_whole(Tensor& x, const RowOperand& operand, const CallRows& rows) {
    lend(x);
    if (operand.kind == OperandKind::kSingle) {
      x = x.with_layout({{}, {}, x.layout().offset});
      return;
    }
    const int64_t times = rows.rows / rows_, group = rows.group > 0 ? rows.group : rows.rows;
    full_.push_back({&x, times, operand.pitch, operand.row, operand.strides});
    wholes_.push_back(
        {&x, x.layout().offset, times, operand.pitch, group, rows.outer, operand.outer});
    if (rows.group > 0 && std::ranges::find(groups_, group / times) == groups_.end())
      groups_.push_back(group / times);
  }
  uint8_t* take(int64_t bytes) {
    buffers_.push_back(scratch_.take(thread_, buffers_.size(), bytes));
    return buffers_.back().data<uint8_t>();
  }
  void lend(Tensor& x) {
    x.storage().lend(1);
    lent_.push_back(&x);
  }

  void bind_repeated(Tensor& x, const RowOperand& operand, int64_t width) {
    const bool is_period = operand.kind == OperandKind::kPeriod;
    const Tensor source = x.with_layout({is_period ? Shape{operand.period} : Shape{},
                                         is_period ? Strides{1} : Strides{}, x.layout().offset});
    source.storage().lend(1);
    uint8_t* buffer = take(block_ * width * size_of(x.dtype()));
    x = Tensor::wrap(buffer, {block_ * width}, x.dtype());
    full_.push_back({&x, width, 1, {}, {}});
    const int64_t times = is_period ? block_ * width / operand.period : block_ * width;
    repeated_.push_back(
        {source, is_period ? x.with_layout({{times, operand.period}, {operand.period, 1}, 0}) : x});
  }

  void bind_draws(RecordedCall& call, RecordedCall& recorded) {
    struct Draws final : ArgumentVisitor {
      void on_tensor(Tensor&, bool) override {}
      void on_draw(RandomState& state) override { states.push_back(&state); }
      std::vector<RandomState*> states;
    } mine, given;
    call.visit(mine);
    recorded.visit(given);
    const int64_t width = mine.states.empty() ? 0 : result_of(recorded).numel() / rows_;
    for (size_t i = 0; i < mine.states.size(); ++i)
      draws_.push_back({mine.states[i], given.states[i], width});
  }

  /// Sets the number of rows of all operands.
  void set_length(int64_t length) {
    for (const Full& full : full_) {
      Shape shape{length * full.times};
      Strides strides{full.pitch};
      for (int i = 0; i < full.row.rank(); ++i) {
        shape.push_back(full.row[i]);
        strides.push_back(full.strides[i]);
      }
      *full.operand = full.operand->with_layout({shape, strides, full.operand->layout().offset});
    }
    length_ = length;
  }

  const int64_t rows_, block_;
  int64_t length_ = 0;
  Scratch& scratch_;  // exists while the worker is made
  const size_t thread_;
  std::vector<Tensor> buffers_;
  std::vector<Call> calls_;
  std::vector<Full> full_;
  std::vector<Part> parts_;
  std::vector<Whole> wholes_;
  std::vector<int64_t> groups_;  // rows; a block is within one of each
  std::vector<Tensor*> lent_;
  std::vector<Repeated> repeated_;
  std::vector<Draw> draws_;
};

Segment::Segment(const std::vector<StepCall>& calls, const StepGroup& group,
                 const std::function<bool(const TensorStorage&)>& is_inner, Scratch& scratch)
    : rows_(group.rows) {
  const Buffers buffers(calls, group, is_inner);
  saved_bytes_ = buffers.bytes();
  OperandSizes sizes;
  for (const size_t number : group.calls) {
    RecordedCall& call = *calls[number].call;
    const CallRows rows = rows_of(calls[number]);
    size_t next = 0;
    each_tensor(call, [&](Tensor& x, bool is_written) {
      const RowOperand& operand = rows.operands[next++];
      if (buffers.of(x.storage()) == buffers.count()) add_outer(calls[number], x);
      if (operand.kind == OperandKind::kFull) sizes.add(operand, x.dtype(), is_written, rows_);
    });
    sizes.has_columns |= !rows.is_flat && !rows.is_fixed;
    if (RowDivision division = call.divide_rows(); division.sum_bytes > 0)
      sums_.push_back({&call, std::move(division)});
  }
  block_ = sizes.block(rows_, std::max<int64_t>(1, buffers.width()), group.unit);

  const LaneLayout lanes = LaneWorker::lanes_of(calls, group, buffers);
  const int64_t blocks = (rows_ + block_ - 1) / block_;
  const int64_t threads = sizes.elements < kSharedElements ? 1 : std::min(team_size(), blocks);
  for (size_t i = 0; i < sums_.size(); ++i) {
    auto& [call, division, memory] = sums_[i];
    if (lanes.lanes == 0) division.lane_bytes = 0;
    const size_t bytes = division.sum_bytes + division.work_bytes + division.lane_bytes;
    memory = scratch.take(size_t(threads), i, int64_t(bytes));  // of no thread
  }
  for (int64_t i = 0; i < threads; ++i) {
    int64_t start = i * blocks / threads * block_;
    if (!group.starts.empty()) {
      const auto next = std::ranges::lower_bound(group.starts, i * rows_ / threads);
      start = next == group.starts.end() ? rows_ : *next;
    }
    starts_.push_back(start);
    workers_.push_back(std::make_unique<Worker>(calls, group, buffers, block_, scratch, size_t(i)));
    if (lanes.lanes > 0)
      lane_workers_.push_back(
          std::make_unique<LaneWorker>(calls, group, buffers, lanes, scratch, size_t(i)));
    size_t sum = 0;
    for (size_t k = 0; k < group.calls.size(); ++k) {
      if (sum == sums_.size() || sums_[sum].call != calls[group.calls[k]].call.get()) continue;
      workers_.back()->set_sums(k, sums_[sum].data());
      if (lanes.lanes > 0) lane_workers_.back()->set_sums(k, sums_[sum].data());
      ++sum;
    }
  }
  starts_.push_back(rows_);
}

Segment::~Segment() = default;

void Segment::add_outer(const StepCall& step, const Tensor& x) {
  if (std::ranges::find(outer_, &x.storage(), &Outer::storage) != outer_.end()) return;
  const bool was_packed = std::ranges::find(step.packed, &x.storage()) != step.packed.end();
  outer_.push_back({&x.storage(), was_packed});
}

bool Segment::run() {
  for (const Outer& outer : outer_)
    if (outer.storage->is_packed() && !outer.was_packed) return false;
  for (const Outer& outer : outer_)
    outer.storage->data();  // in row-major order, as for single calls
  run_blocks();
  return true;
}

void Segment::run_blocks() {
  for (const Sum& sum : sums_) {
    const RowDivision& division = sum.division;
    std::memset(sum.data(), 0, division.sum_bytes);
    std::memset(sum.data() + division.sum_bytes + division.work_bytes, 0, division.lane_bytes);
  }
  const auto workers = int64_t(workers_.size());
  auto run_some = [&](int64_t thread, int64_t threads) {
    for (auto i = size_t(thread); i < size_t(workers); i += size_t(threads)) {
      int64_t first = starts_[i];
      if (has_lanes()) first = lane_workers_[i]->run(first, starts_[i + 1]);
      if (first < starts_[i + 1]) workers_[i]->run(first, starts_[i + 1]);
    }
  };
  run_on_threads(workers == 1, run_some);
  for (Sum& sum : sums_) sum.call->finish_rows(sum.data());
}

}  // namespace tapegrad
