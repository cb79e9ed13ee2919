#include "core/autograd/internal/lane_worker.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>

#include "core/dispatch/kernels.h"

namespace tapegrad {
namespace {

constexpr int64_t kLaneBlockBytes = 56 * 1024;  // of the buffers, about the first-level cache
constexpr int64_t kFewestTileRows = 8;          // of a tile in a block
constexpr int64_t kTransposition = 4;           // vector operations for an element of each lane

/// Returns how many rows of a tile a block has; a power of two.
int64_t block_of(const Buffers& buffers, const LaneLayout& lanes) {
  const int64_t row = std::max<int64_t>(1, buffers.width() * lanes.lanes);
  const auto rows =
      int64_t(std::bit_floor(uint64_t(std::max(kLaneBlockBytes / row, kFewestTileRows))));
  return std::min(rows, lanes.tile);
}

}  // namespace

LaneLayout LaneWorker::lanes_of(const std::vector<StepCall>& calls, const StepGroup& group,
                                const Buffers& buffers) {
  LaneLayout all;
  for (const size_t number : group.calls) {
    RecordedCall& call = *calls[number].call;
    const bool is_divided = call.parts() != Parts::kElements;
    const CallRows rows = rows_of(calls[number]);
    if (is_divided) {
      LaneLayout answer;
      kernels::describe_lanes(LaneQuery{&call}, answer);
      const bool is_like_others =
          all.lanes == 0 || (all.lanes == answer.lanes && all.tile == answer.tile);
      if (answer.lanes == 0 || !is_like_others || rows.rows != group.rows) return {};
      answer.row_cost += all.row_cost;
      answer.lane_cost += all.lane_cost;
      all = answer;
    } else if (!rows.is_flat || has_draws(call)) {
      return {};
    }
    size_t next = 0;
    each_tensor(call, [&](Tensor& x, bool) {
      const bool is_full = rows.operands[next++].kind == OperandKind::kFull;
      if (is_full && buffers.of(x.storage()) == buffers.count())
        all.lane_cost += kTransposition * (x.numel() / group.rows);
    });
  }
  if (all.lanes == 0) return {};
  const bool pays = 4 * all.row_cost > 5 * all.lane_cost;
  const bool fits = group.rows >= all.lanes * all.tile && all.tile % group.unit == 0;
  return pays && fits ? all : LaneLayout();
}

LaneWorker::LaneWorker(const std::vector<StepCall>& calls, const StepGroup& group,
                       const Buffers& buffers, const LaneLayout& lanes, Scratch& scratch,
                       size_t thread)
    : rows_(group.rows),
      lanes_(lanes.lanes),
      tile_(lanes.tile),
      block_(block_of(buffers, lanes)),
      scratch_(scratch),
      thread_(thread) {
  for (size_t i = 0; i < buffers.count(); ++i) take(block_ * lanes_ * buffers.width(i));
  for (const size_t number : group.calls) {
    RecordedCall& recorded = *calls[number].call;
    const bool is_divided = recorded.parts() != Parts::kElements;
    calls_.push_back({recorded.copy(), is_divided, nullptr});
    RecordedCall& call = *calls_.back().call;
    const CallRows rows = rows_of(calls[number]);
    size_t next = 0;
    each_tensor(call, [&](Tensor& x, bool is_written) {
      const RowOperand& operand = rows.operands[next++];
      if (operand.kind == OperandKind::kFull)
        bind_full(x, is_written, /*is_flat=*/!is_divided, buffers);
      else if (is_divided)
        lend(x);
      else
        bind_repeated(x, operand.kind == OperandKind::kPeriod ? operand.period : 1,
                      result_of(recorded).numel() / rows_);
    });
  }
}

LaneWorker::~LaneWorker() {
  for (Tensor* x : lent_) x->storage().lend(-1);
  for (const Outer& outer : outers_) outer.memory.storage().lend(-1);
  for (const Repeated& repeated : repeated_) repeated.source.storage().lend(-1);
}

uint8_t* LaneWorker::take(int64_t bytes) {
  buffers_.push_back(scratch_.take(thread_, buffers_.size(), bytes));
  return buffers_.back().data<uint8_t>();
}

void LaneWorker::lend(Tensor& x) {
  x.storage().lend(1);
  lent_.push_back(&x);
}

void LaneWorker::bind_full(Tensor& x, bool is_written, bool is_flat, const Buffers& buffers) {
  const int64_t width = x.numel() / rows_, tile = tile_ * width;
  const Shape shape = is_flat ? Shape{block_ * width * lanes_} : Shape{block_, width, lanes_};
  if (const size_t number = buffers.of(x.storage()); number < buffers.count()) {
    x = Tensor::wrap(buffers_[number].data<uint8_t>(), shape, x.dtype());
    return;
  }
  const int64_t offset = x.layout().offset;
  auto outer = std::ranges::find_if(outers_, [&](const Outer& other) {
    return other.memory.shares_storage(x) && other.offset == offset && other.width == width &&
           other.memory.dtype() == x.dtype();
  });
  if (outer == outers_.end()) {
    const Tensor lanes =
        Tensor::wrap(take(tile * lanes_ * size_of(x.dtype())), {tile, lanes_}, x.dtype());
    outers_.push_back(
        {x.with_layout({{lanes_, tile}, {tile, 1}, offset}), lanes, offset, width, false});
    x.storage().lend(1);
    outer = std::prev(outers_.end());
  }
  outer->is_written |= is_written;
  x = outer->in_lanes.with_layout(contiguous_layout(shape));
  parts_.push_back({&x, width});
}

void LaneWorker::bind_repeated(Tensor& x, int64_t period, int64_t width) {
  const Tensor source = x.with_layout({{period, 1}, {1, 1}, x.layout().offset});
  source.storage().lend(1);
  const int64_t count = block_ * width;
  x = Tensor::wrap(take(count * lanes_ * size_of(x.dtype())), {count * lanes_}, x.dtype());
  repeated_.push_back(
      {source, x.with_layout({{count / period, period, lanes_}, {period * lanes_, lanes_, 1}, 0})});
}

void LaneWorker::run_tiles(int64_t first) {
  const auto transposed = [](const Tensor& x) {
    const auto& [shape, strides, offset] = x.layout();
    return x.with_layout({{shape[1], shape[0]}, {strides[1], strides[0]}, offset});
  };
  for (Outer& outer : outers_) {
    outer.memory.set_offset(outer.offset + first * outer.width);
    kernels::copy(transposed(outer.memory), outer.in_lanes);
  }
  for (int64_t at = 0; at < tile_; at += block_) {
    for (const Part& part : parts_) part.operand->set_offset(at * part.width * lanes_);
    for (const Call& call : calls_) {
      if (call.is_divided)
        call.call->run_rows({first + at, block_ * lanes_, rows_, call.sums});
      else
        call.call->run_part();
    }
  }
  for (Outer& outer : outers_)
    if (outer.is_written) kernels::copy(transposed(outer.in_lanes), outer.memory);
}

int64_t LaneWorker::run(int64_t first, int64_t last) {
  const int64_t rows = lanes_ * tile_;
  if (first + rows > last) return first;
  for (const Repeated& repeated : repeated_) {
    Tensor block = repeated.block;
    kernels::copy(repeated.source, block);
  }
  for (; first + rows <= last; first += rows) run_tiles(first);
  return first;
}

}  // namespace tapegrad
