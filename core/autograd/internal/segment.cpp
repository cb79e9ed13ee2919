#include "core/autograd/internal/segment.h"

#include <algorithm>
#include <unordered_map>

#include "core/dispatch/internal/tasks.h"
#include "core/dispatch/kernels.h"

namespace tapegrad {
namespace {

constexpr int64_t kBlockBytes = 8192;       // of one operand
constexpr int64_t kCacheBytes = 32 * 1024;  // of all buffers
constexpr int64_t kFewestElements = 512;    // of a block

int64_t thread_count() {
  int64_t count = 1;
  auto store = [&](int64_t thread, int64_t threads) {
    if (thread == 0) count = threads;
  };
  run_on_threads(/*is_alone=*/false, store);
  return count;
}

/// Lifetimes of the values that only the segment uses: a buffer is free after its last call.
class Buffers {
 public:
  Buffers(const std::vector<StepCall>& calls, const StepGroup& group,
          const std::function<bool(const Storage&)>& is_inner) {
    for (size_t i = 0; i < group.calls.size(); ++i)
      each_tensor(*calls[group.calls[i]].call, [&](Tensor& x, bool) {
        if (is_inner(x.storage())) last_[&x.storage()] = i;
      });
    std::vector<size_t> free;
    for (size_t i = 0; i < group.calls.size(); ++i) {
      std::vector<const Storage*> ending;
      each_tensor(*calls[group.calls[i]].call, [&](Tensor& x, bool) {
        const Storage* storage = &x.storage();
        const auto last = last_.find(storage);
        if (last == last_.end()) return;
        if (!number_.contains(storage)) {
          if (free.empty()) free.push_back(count_++);
          number_[storage] = free.back();
          free.pop_back();
          elements_.resize(count_);
        }
        int64_t& element = elements_[number_[storage]];
        element = std::max(element, size_of(x.dtype()));
        if (last->second == i && std::ranges::find(ending, storage) == ending.end())
          ending.push_back(storage);
      });
      for (const Storage* storage : ending) free.push_back(number_.at(storage));
    }
  }

  size_t count() const { return count_; }
  /// Bytes of the largest element that a buffer holds.
  int64_t element(size_t number) const { return elements_[number]; }
  /// Returns the number of the storage's buffer, or count() if it has none.
  size_t of(const Storage& storage) const {
    const auto found = number_.find(&storage);
    return found == number_.end() ? count_ : found->second;
  }
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const auto& [storage, number] : number_) bytes += int64_t(storage->bytes());
    return bytes;
  }

 private:
  std::unordered_map<const Storage*, size_t> last_, number_;
  std::vector<int64_t> elements_;
  size_t count_ = 0;
};

}  // namespace

/// The copies of the calls of one thread.
class Segment::Worker {
 public:
  Worker(const std::vector<StepCall>& calls, const StepGroup& group, const Buffers& buffers,
         int64_t block)
      : block_(block) {
    for (size_t i = 0; i < buffers.count(); ++i)
      buffers_.push_back(Tensor::empty({block * buffers.element(i)}, u8));
    for (const size_t number : group.calls) {
      calls_.push_back(calls[number].call->copy());
      recorded_.push_back(calls[number].call.get());
      Shape result;
      each_tensor(*recorded_.back(), [&](Tensor& x, bool is_written) {
        if (is_written) result = x.shape();
      });
      each_tensor(*calls_.back(), [&](Tensor& x, bool) { bind(x, result, buffers); });
    }
    struct Draws final : ArgumentVisitor {
      void on_tensor(Tensor&, bool) override {}
      void on_draw(RandomState& state) override { states.push_back(&state); }
      std::vector<RandomState*> states;
    } mine, given;
    for (size_t i = 0; i < calls_.size(); ++i) {
      calls_[i]->visit(mine);
      recorded_[i]->visit(given);
    }
    draws_ = std::move(mine.states);
    recorded_draws_.assign(given.states.begin(), given.states.end());
  }

  ~Worker() {
    for (const Part& part : parts_) part.operand->storage().lend(-1);
    for (const Repeated& repeated : repeated_) repeated.source.storage().lend(-1);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Runs the blocks of elements [first, last).
  void run(int64_t first, int64_t last) {
    for (const Repeated& repeated : repeated_) {
      Tensor block = repeated.block;
      kernels::copy(repeated.source, block);
    }
    for (; first < last; first += block_) {
      const int64_t count = std::min(block_, last - first);
      if (count != length_) set_length(count);
      for (const Part& part : parts_) part.operand->set_offset(part.offset + first);
      for (size_t i = 0; i < draws_.size(); ++i)
        *draws_[i] = {recorded_draws_[i]->seed, recorded_draws_[i]->offset + uint64_t(first) / 4};
      for (const auto& call : calls_) call->run_part();
    }
  }

 private:
  /// An operand with one element for each result.
  struct Part {
    Tensor* operand;
    int64_t offset;
  };
  /// An operand with the same elements in each block.
  struct Repeated {
    Tensor source;  // with the shape of the operand, or of a row
    Tensor block;
  };

  void bind(Tensor& x, const Shape& result, const Buffers& buffers) {
    const OperandShape shape = shape_of_operand(x, result);
    operands_.push_back(&x);
    if (shape.kind == OperandKind::kFull) {
      const size_t number = buffers.of(x.storage());
      if (number < buffers.count()) {
        x = Tensor::wrap(buffers_[number].data<uint8_t>(), {block_}, x.dtype());
      } else {
        x.storage().lend(1);
        parts_.push_back({&x, x.layout().offset});
      }
      return;
    }
    const bool is_row = shape.kind == OperandKind::kRow;
    Layout layout{is_row ? Shape{shape.row} : Shape{}, is_row ? Strides{1} : Strides{},
                  x.layout().offset};
    const Tensor source = x.with_layout(layout);
    source.storage().lend(1);
    x = Tensor::empty({block_}, x.dtype());
    const int64_t rows = is_row ? block_ / shape.row : block_;
    repeated_.push_back(
        {source, is_row ? x.with_layout({{rows, shape.row}, {shape.row, 1}, 0}) : x});
  }

  /// Sets the number of elements of all operands.
  void set_length(int64_t length) {
    for (Tensor* x : operands_) *x = x->with_layout({{length}, {1}, x->layout().offset});
    length_ = length;
  }

  const int64_t block_;
  int64_t length_ = 0;
  std::vector<Tensor> buffers_;
  std::vector<std::unique_ptr<RecordedCall>> calls_;
  std::vector<RecordedCall*> recorded_;
  std::vector<Tensor*> operands_;
  std::vector<Part> parts_;
  std::vector<Repeated> repeated_;
  std::vector<RandomState*> draws_;
  std::vector<const RandomState*> recorded_draws_;
};

Segment::Segment(const std::vector<StepCall>& calls, const StepGroup& group,
                 const std::function<bool(const Storage&)>& is_inner)
    : count_(group.count) {
  const Buffers buffers(calls, group, is_inner);
  saved_bytes_ = buffers.bytes();
  for (const size_t number : group.calls)
    each_tensor(*calls[number].call, [&](Tensor& x, bool) {
      if (buffers.of(x.storage()) == buffers.count() &&
          std::ranges::find(outer_, &x.storage()) == outer_.end())
        outer_.push_back(&x.storage());
    });
  block_ = std::clamp(kCacheBytes / int64_t(4 * std::max<size_t>(1, buffers.count())),
                      kFewestElements, kBlockBytes / 4) /
           64 * 64;
  if (group.row > 0) {  // a block is a number of rows and, for random numbers, divisible by 4
    const int64_t unit = group.row % 4 == 0 ? group.row : 4 * group.row;
    block_ = std::max<int64_t>(1, block_ / unit) * unit;
  }
  const int64_t blocks = (count_ + block_ - 1) / block_;
  const int64_t threads = std::min(thread_count(), blocks);
  share_ = (blocks + threads - 1) / threads * block_;
  for (int64_t i = 0; i < threads; ++i)
    workers_.push_back(std::make_unique<Worker>(calls, group, buffers, block_));
}

Segment::~Segment() = default;

bool Segment::run() {
  for (const Storage* storage : outer_)
    if (storage->is_packed()) return false;
  const auto workers = int64_t(workers_.size());
  auto run_some = [&](int64_t thread, int64_t threads) {
    for (int64_t i = thread; i < workers; i += threads)
      workers_[size_t(i)]->run(i * share_, std::min(count_, (i + 1) * share_));
  };
  run_on_threads(workers == 1, run_some);
  return true;
}

}  // namespace tapegrad
