#include "core/autograd/internal/recorded_step.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "core/autograd/internal/memory_plan.h"
#include "core/base/allocator.h"
#include "core/base/context.h"
#include "core/base/error.h"
#include "core/base/internal/scope.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/autocast.h"
#include "core/tape/node.h"
#include "core/tape/recording.h"

namespace tapegrad {
namespace {

/// Storages of up to this size are small: those to which only calls refer have planned places, and
/// other small storages keep their memory between runs. A larger storage has separate memory while
/// it is needed: a single block for all would remain allocated while gradients of leaves, which
/// cannot be in the block, replace values.
constexpr size_t kSmallStorage = size_t(16) << 10;
/// Share of the memory of a step at which no further values are computed twice.
constexpr double kShareOfMemory = 0.6;

/// Returns the different ops of some calls, as in "linear_relu+sub+square and 3 more".
std::string names_of(const std::vector<StepCall>& calls, const std::vector<size_t>& numbers) {
  constexpr size_t kNamed = 4;
  std::vector<std::string_view> names;
  for (const size_t number : numbers)
    if (const std::string_view name = calls[number].op.name;
        std::ranges::find(names, name) == names.end())
      names.push_back(name);
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i)
    text.append(i > 0 ? "+" : "").append(names[i]);
  if (names.size() > kNamed) absl::StrAppend(&text, " and ", names.size() - kNamed, " more");
  return text;
}

}  // namespace

std::string text_of(const CalledOp& op) {
  std::string text;
  if (!op.name.empty()) text += ", by " + std::string(op.name);
  if (op.where.line() != 0)
    absl::StrAppend(&text, " at ", op.where.file_name(), ":", op.where.line());
  return text;
}

/// Registers the operands of a new call.
class RecordedStep::Operands final : public ArgumentVisitor {
 public:
  explicit Operands(RecordedStep& step) : step_(step) {}

  void on_tensor(Tensor& x, bool is_written) override {
    TensorStorage& storage = x.storage();
    storage.lend(1);
    if (storage.is_deferred() && !storage.has_memory()) step_.own_.emplace(&storage, &storage);
    if (storage.bytes() > 0) step_.on_operand(x);
    is_lasting |= is_written && storage.bytes() > 0 && !step_.is_own(x);
  }
  void on_draw(RandomState& state) override {
    const RandomState* base = step_.base_of(state);
    for (const Draw& draw : step_.draws_)
      if (draw.recorded.seed == state.seed) base = draw.base;
    if (base != nullptr) step_.draws_.push_back({&state, state, base, step_.calls_.size()});
  }

  bool is_lasting = false;  // whether the call writes to memory that exists before the step

 private:
  RecordedStep& step_;
};

RecordedStep::RecordedStep() : Capture(cpu), live_(kLiveBytes) {}

RecordedStep::~RecordedStep() {
  settle_owned();
  forget_calls();
}

/// Makes storages that have owners other than calls ordinary storages.
void RecordedStep::settle_owned() {
  for (const auto& [key, storage] : own_)
    if (!storage->is_only_lent()) storage->settle();
}

void RecordedStep::forget_calls() {
  groups_.clear();
  absorbed_.clear();
  lives_.clear();
  places_.clear();
  large_.clear();
  kept_.clear();
  own_.clear();
  draws_.clear();
  for (StepCall& step : calls_)
    each_tensor(*step.call, [](Tensor& x, bool) { x.storage().lend(-1); });
  calls_.clear();
  for (const ValuesRead& read : values_read_) read.x.storage().lend(-1);
  values_read_.clear();
  for (const Revised& revised : revised_) revised.x.storage().lend(-1);
  revised_.clear();
}

void RecordedStep::begin() {
  is_capturing_ = true;
  before_ = std::exchange(detail::context.recorder, this);
  detail::update_observed();
}

void RecordedStep::stop() {
  is_capturing_ = false;
  if (detail::context.recorder == this) detail::context.recorder = before_;
  detail::update_observed();
}

bool RecordedStep::end(bool repeats) {
  values_ahead_.clear();
  for (const Revised& revised : revised_) revised.restore();  // the calls are made again
  if (repeats && saves_memory())
    insert(plan_repetitions(calls_, kShareOfMemory, [&](const TensorStorage& storage) {
      return own_.contains(&storage) && storage.is_only_lent();
    }));
  stop();
  // Segments depend on the layouts that the first run finds.
  for (size_t i = 0; i < calls_.size(); ++i) groups_.push_back({{.calls = {i}}, nullptr});
  plan_storages();
  return true;
}

void RecordedStep::leave() { stop(); }

CalledOp RecordedStep::current_op() const {
  CalledOp op = ops_.empty() ? CalledOp{} : ops_.back();
  if (const TapeNode* running = running_node())
    op.where = running->where();
  else if (detail::context.error_line != nullptr)
    op.where = *detail::context.error_line;
  if (!detail::is_of_user(op.where) && detail::context.module_line != nullptr)
    op.where = *detail::context.module_line;
  return op;
}

bool RecordedStep::on_call(std::unique_ptr<RecordedCall> call) {
  if (is_preparing()) return true;
  if (!is_capturing_) return false;
  if (call->device() != device()) {
    give_up("a kernel runs on another device" + text_of(current_op()));
    return false;
  }
  if (call->returns_to_host()) {
    give_up("the host needs a value" + text_of(current_op()));
    return false;
  }
  Operands operands(*this);
  call->visit(operands);
  calls_.push_back({std::move(call), current_op(), calls_.size()});
  calls_.back().is_lasting = operands.is_lasting;
  return true;
}

std::string RecordedStep::maker_of(const TensorStorage& storage) const {
  const CalledOp* maker = nullptr;
  for (const StepCall& step : calls_)
    each_tensor(*step.call, [&](Tensor& x, bool is_written) {
      if (is_written && &x.storage() == &storage) maker = &step.op;
    });
  return maker != nullptr ? text_of(*maker) : std::string();
}

void RecordedStep::on_access(const TensorStorage& storage) {
  if (!is_capturing_) return;
  if (!own_.contains(&storage))
    return give_up("values are copied from the host" + text_of(current_op()));
  give_up("the host reads a value, made" + maker_of(storage));
}

void RecordedStep::on_read(const Tensor& x, const char* function) {
  if (!is_capturing_ || x.device() != device()) return;
  if (detail::context.is_making_constant && !own_.contains(&x.storage())) return;
  std::string who = maker_of(x.storage());
  if (who.empty()) {
    CalledOp reader;
    reader.where = current_op().where;
    who = text_of(reader);
  }
  give_up(std::string(function) + " reads a value on the host" + who);
}

void RecordedStep::run_part(const std::function<void()>& part, size_t calls) {
  const detail::UseRecorder use(this);
  next_update_ = 0;
  while (next_update_ < calls_.size() && calls_[next_update_].number < calls) ++next_update_;
  part();
}

/// Ignores the draws of a backward pass that repeat those of its forward pass.
std::optional<RandomState> RecordedStep::draw_from(uint64_t seed, size_t first) const {
  std::optional<uint64_t> drawn;  // offset of the last draw of the earlier calls
  for (const Draw& draw : draws_)
    if (draw.recorded.seed == seed && draw.call < first)
      drawn = std::max(drawn.value_or(0), draw.recorded.offset);
  std::optional<RandomState> next;
  for (const Draw& draw : draws_)
    if (draw.recorded.seed == seed && draw.call >= first &&
        (!drawn || draw.recorded.offset > *drawn) && (!next || draw.recorded.offset < next->offset))
      next = draw.recorded;
  return next;
}

RecordedCall* RecordedStep::call_to_update(const KernelTable& kernel) {
  if (!is_preparing()) return nullptr;
  for (; next_update_ < calls_.size(); ++next_update_)
    if (calls_[next_update_].call->kernel() == &kernel) return calls_[next_update_++].call.get();
  return nullptr;
}

/// A large result keeps its memory, and the next run allocates new memory. Parts of storages, and
/// storages with further owners, such as another result, are copied.
Tensor RecordedStep::take(const Tensor& result) {
  const TensorStorage& storage = result.storage();
  const bool is_handed_over = own_.contains(&storage) && storage.has_memory() &&
                              storage.bytes() > kSmallStorage && result.is_sole_owner();
  return is_handed_over ? result.hand_over() : result.clone();
}

/// Inserts calls that compute some values again before a later use.
void RecordedStep::insert(const std::vector<Repetition>& plan) {
  using Tensors = std::unordered_map<const TensorStorage*, Tensor>;
  const auto add_like = [](Tensors& tensors, const Tensor& x) {
    const int64_t elements = int64_t(x.storage().bytes()) / size_of(x.dtype());
    tensors.try_emplace(&x.storage(), Tensor::empty({elements}, x.dtype()));
  };
  const auto replace = [](Tensor& x, const Tensors& by) {
    if (const auto found = by.find(&x.storage()); found != by.end())
      x = found->second.with_layout(x.layout());
  };
  Tensors again;  // the values of the inserted calls
  Operands operands(*this);
  std::vector<StepCall> calls;
  std::vector<RecordedCall*> made;
  for (const StepCall& step : calls_) made.push_back(step.call.get());
  auto next = plan.begin();
  for (StepCall& step : calls_) {
    for (; next != plan.end() && next->before == step.number; ++next) {
      Tensors results;
      for (const size_t number : next->calls) {
        std::unique_ptr<RecordedCall> call = made[number]->copy();
        each_tensor(*call, [&](Tensor& x, bool is_written) {
          if (is_written) add_like(results, x);
        });
        each_tensor(*call, [&](Tensor& x, bool) {
          replace(x, results);
          replace(x, again);
        });
        call->visit(operands);
        calls.push_back({std::move(call), step.op, step.number, /*is_repeated=*/true});
      }
      again.insert(results.extract(next->value));
    }
    each_tensor(*step.call, [&](Tensor& x, bool) {
      x.storage().lend(-1);
      replace(x, again);
      x.storage().lend(1);
    });
    calls.push_back(std::move(step));
  }
  calls_ = std::move(calls);
}

/// Joins calls to segments, after the first run.
void RecordedStep::plan_segments() {
  for (const Life& life : lives_)
    if (life.storage->is_only_lent()) life.storage->take_memory();
  groups_.clear(), lives_.clear(), places_.clear(), large_.clear(), kept_.clear();
  const auto is_own = [&](const TensorStorage& storage) {
    return own_.contains(&storage) && storage.is_only_lent();
  };
  std::vector<StepGroup> groups = plan_groups(calls_, is_own);
  if (!saves_memory())
    if (const auto plan = plan_recomputations(calls_, groups, is_own); !plan.empty()) {
      const detail::UseRecorder use(this);
      is_capturing_ = true;  // new storages get no memory
      insert(plan);
      is_capturing_ = false;
      groups = plan_groups(calls_, is_own);
    }
  absorbed_ = absorb_activations(calls_, groups, is_own);
  for (StepGroup& group : groups) groups_.push_back({std::move(group), nullptr});
  plan_storages();
  is_planned_ = true;
  Scratch scratch;
  for (Group& group : groups_)
    if (group.plan.calls.size() > 1) {
      group.ops = intern_scope(names_of(calls_, group.plan.calls));
      const auto is_inner = [&](const TensorStorage& storage) {
        return std::ranges::find(group.inner, &storage) != group.inner.end();
      };
      group.segment = std::make_unique<Segment>(calls_, group.plan, is_inner, scratch);
    }
}

void RecordedStep::plan_storages() {
  std::unordered_map<const TensorStorage*, size_t> numbers;
  for (size_t i = 0; i < groups_.size(); ++i)
    for (const size_t number : groups_[i].plan.calls) {
      RecordedCall& call = *calls_[number].call;
      const bool is_elementwise = call.parts() == Parts::kElements;
      const CallRows rows = groups_[i].plan.calls.size() > 1 && !is_elementwise
                                ? rows_of(calls_[number])
                                : CallRows();
      size_t next = 0;
      each_tensor(call, [&](Tensor& x, bool) {
        const size_t operand = next++;
        if (!own_.contains(&x.storage())) return;
        const size_t life = numbers.try_emplace(&x.storage(), lives_.size()).first->second;
        if (life == lives_.size()) lives_.push_back({&x.storage(), i, i, number});
        lives_[life].last = i;
        lives_[life].is_divided &=
            is_elementwise ||
            (operand < rows.operands.size() && rows.operands[operand].kind == OperandKind::kFull);
      });
    }
  std::vector<PlannedValue> values;
  for (Life& life : lives_) {
    TensorStorage* storage = life.storage;
    const size_t first = life.first, last = life.last;
    if (!storage->is_only_lent()) {
      kept_.push_back(storage);
      groups_[first].begins.push_back(storage);
      life.last = groups_.size() - 1;
    } else if (life.is_divided && first == last && groups_[first].plan.calls.size() > 1) {
      groups_[first].inner.push_back(storage);
      life.is_inner = true;
    } else if (storage->bytes() > kSmallStorage) {
      large_.push_back(storage);
      groups_[first].begins.push_back(storage);
      groups_[last].ends.push_back(storage);
    } else {
      values.push_back({storage->bytes(), first, last});
      places_.push_back({storage, 0});
      groups_[last].unpacked.push_back(storage);
    }
  }
  const MemoryPlan plan = plan_memory(values);
  for (size_t i = 0; i < places_.size(); ++i) places_[i].offset = plan.offsets[i];
  block_bytes_ = plan.bytes;
}

void RecordedStep::run(StepCall& step) const {
  running_call_ = step.number;
  const OpSpan span(step.op.name, step.op.pass, step.op.part);
  try {
    step.call->run();
  } catch (Error& error) {
    const Scope scope(step.op.part);
    detail::locate(error, step.op.where);
    throw;
  }
}

/// Runs a call and records its effect on packed storages.
void RecordedStep::observe_layouts(StepCall& step) const {
  step.packed.clear();
  each_tensor(*step.call, [&](Tensor& x, bool) {
    if (x.storage().is_packed()) step.packed.push_back(&x.storage());
  });
  run(step);
  step.unpacks.clear();
  for (const TensorStorage* storage : step.packed)
    if (!storage->is_packed()) step.unpacks.push_back(storage);
  step.takes_packed = step.unpacks.size() < step.packed.size();
}

void RecordedStep::run(const Group& group) {
  for (TensorStorage* storage : group.begins) storage->give_memory();
  if (group.segment) {
    running_call_ = calls_[group.plan.calls.front()].number;
    const CalledOp& op = calls_[group.plan.calls.front()].op;
    const OpSpan span(*group.ops, op.pass, op.part);
    if (!group.segment->run()) {
      for (TensorStorage* storage : group.inner) storage->give_memory();
      for (const size_t number : group.plan.calls) run(calls_[number]);
      for (TensorStorage* storage : group.inner) storage->take_memory();
    }
  } else if (StepCall& step = calls_[group.plan.calls.front()]; !is_planned_) {
    observe_layouts(step);
  } else {
    run(step);
  }
  for (TensorStorage* storage : group.ends) storage->take_memory();
  // A placed storage whose packed values were unpacked meanwhile has separate memory.
  for (TensorStorage* storage : group.unpacked)
    if (!storage->is_placed()) storage->take_memory();
}

void RecordedStep::launch(const std::vector<std::byte>& live) {
  std::ranges::copy(live, live_.begin());
  running_call_.reset();
  for (const Draw& draw : draws_)
    *draw.state = {draw.base->seed, draw.recorded.offset + draw.base->offset};
  // The values of the last run are no longer needed, and an error may have left it unfinished.
  for (TensorStorage* storage : large_) storage->take_memory();
  for (TensorStorage* storage : kept_)
    if (storage->bytes() > kSmallStorage || storage->is_packed()) storage->take_memory();
  auto* block = block_bytes_ == 0
                    ? nullptr
                    : static_cast<std::byte*>(allocator(cpu.type).allocate(block_bytes_, cpu));
  const absl::Cleanup free_block = [block, bytes = block_bytes_] {
    if (block != nullptr) allocator(cpu.type).deallocate(block, bytes, cpu);
  };
  for (const Place& place : places_) place.storage->place(block + place.offset);
  const NoGrad no_grad;
  const detail::AutocastOff as_recorded;
  for (Revised& revised : revised_) revised.save();
  try {
    for (const Group& group : groups_) run(group);
  } catch (const Changed&) {
    for (const Revised& revised : revised_) revised.restore();
    throw;
  }
  if (is_ready()) {
    if (!is_planned_) plan_segments();
    return;
  }
  settle_owned();
  forget_calls();
}

}  // namespace tapegrad
