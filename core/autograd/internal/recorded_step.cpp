#include "core/autograd/internal/recorded_step.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "core/base/error.h"
#include "core/base/internal/scope.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/autocast.h"
#include "core/tape/node.h"
#include "core/tape/recording.h"

namespace tapegrad {
/// ", by mean at train.cpp:12"
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

  void on_tensor(Tensor& x, bool) override {
    Storage& storage = x.storage();
    storage.lend(1);
    if (storage.is_deferred() && !storage.has_memory()) step_.own_.emplace(&storage, &storage);
    if (storage.bytes() > 0) step_.on_operand(x);
  }
  void on_draw(RandomState& state) override {
    if (const RandomState* base = step_.base_of(state))
      step_.draws_.push_back({&state, state, base});
  }

 private:
  RecordedStep& step_;
};

RecordedStep::RecordedStep() : Capture(cpu), live_(kLiveBytes) {}

RecordedStep::~RecordedStep() {
  settle_owned();
  forget_calls();
}

/// Storages with owners other than calls become ordinary ones.
void RecordedStep::settle_owned() {
  for (const auto& [key, storage] : own_)
    if (!storage->is_only_lent()) storage->settle();
}

void RecordedStep::forget_calls() {
  groups_.clear();
  own_.clear();
  draws_.clear();
  for (StepCall& step : calls_)
    each_tensor(*step.call, [](Tensor& x, bool) { x.storage().lend(-1); });
  calls_.clear();
}

void RecordedStep::begin() {
  is_recording_ = true;
  detail::context.recorder = this;
  detail::update_observed();
}

void RecordedStep::stop() {
  is_recording_ = false;
  if (detail::context.recorder == this) detail::context.recorder = nullptr;
  detail::update_observed();
}

bool RecordedStep::end(bool repeats) {
  stop();
  plan(repeats);
  return true;
}

void RecordedStep::leave() { stop(); }

CalledOp RecordedStep::current_op() const {
  CalledOp op = ops_.empty() ? CalledOp{} : ops_.back();
  if (const Node* running = running_node())
    op.where = running->where();
  else if (detail::context.error_line != nullptr)
    op.where = *detail::context.error_line;
  return op;
}

bool RecordedStep::on_call(std::unique_ptr<RecordedCall> call) {
  if (is_preparing()) {
    update(*call);
    return true;
  }
  if (!is_recording_) return false;
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
  calls_.push_back({std::move(call), current_op()});
  return true;
}

std::string RecordedStep::maker_of(const Storage& storage) const {
  const CalledOp* maker = nullptr;
  for (const StepCall& step : calls_)
    each_tensor(*step.call, [&](Tensor& x, bool is_written) {
      if (is_written && &x.storage() == &storage) maker = &step.op;
    });
  return maker != nullptr ? text_of(*maker) : std::string();
}

void RecordedStep::on_access(const Storage& storage) {
  if (!is_recording_) return;
  if (!own_.contains(&storage))
    return give_up("values are copied from the host" + text_of(current_op()));
  give_up("the host reads a value, made" + maker_of(storage));
}

void RecordedStep::on_read(const Tensor& x, const char* function) {
  if (is_recording_ && x.device() == device())
    give_up(std::string(function) + " reads a value on the host" + maker_of(x.storage()));
}

void RecordedStep::run_part(const std::function<void()>& part, size_t calls) {
  const detail::UseRecorder use(this);
  next_update_ = calls;
  part();
}

void RecordedStep::update(const RecordedCall& call) {
  for (; next_update_ < calls_.size(); ++next_update_)
    if (calls_[next_update_].call->kernel() == call.kernel())
      return calls_[next_update_++].call->take_numbers(call);
}

/// Determines the groups, and when storages have memory. A step that runs once has no segments.
void RecordedStep::plan(bool repeats) {
  std::vector<StepGroup> plans;
  if (repeats) {
    plans = plan_groups(calls_);
  } else {
    for (size_t i = 0; i < calls_.size(); ++i) plans.push_back({{i}, 0, 0, {}});
  }
  struct Life {
    size_t first, last;  // groups
  };
  std::unordered_map<const Storage*, Life> lives;
  for (size_t i = 0; i < plans.size(); ++i)
    for (const size_t number : plans[i].calls)
      each_tensor(*calls_[number].call, [&](Tensor& x, bool) {
        if (own_.contains(&x.storage()))
          lives.try_emplace(&x.storage(), Life{i, i}).first->second.last = i;
      });
  for (StepGroup& plan : plans) groups_.push_back({std::move(plan), nullptr, {}, {}, {}});
  for (const auto& [key, storage] : own_) {
    const auto [first, last] = lives.at(storage);
    const bool is_kept = !storage->is_only_lent();
    if (!is_kept && first == last && groups_[first].plan.calls.size() > 1) {
      groups_[first].inner.push_back(storage);
      continue;
    }
    groups_[first].begins.push_back(storage);
    if (!is_kept) groups_[last].ends.push_back(storage);
  }
  for (Group& group : groups_)
    if (group.plan.calls.size() > 1)
      group.segment = std::make_unique<Segment>(calls_, group.plan, [&](const Storage& storage) {
        return std::ranges::find(group.inner, &storage) != group.inner.end();
      });
}

void RecordedStep::run(StepCall& step) const {
  const OpSpan span(step.op.name, step.op.pass, step.op.part);
  try {
    step.call->run();
  } catch (Error& error) {
    const Scope scope(step.op.part);
    detail::locate(error, step.op.where);
    throw;
  }
}

void RecordedStep::run(const Group& group) {
  for (Storage* storage : group.begins) storage->give_memory();
  if (group.segment) {
    const CalledOp& op = calls_[group.plan.calls.front()].op;
    const OpSpan span(op.name, op.pass, op.part);
    if (!group.segment->run()) {
      for (Storage* storage : group.inner) storage->give_memory();
      for (const size_t number : group.plan.calls) run(calls_[number]);
      for (Storage* storage : group.inner) storage->take_memory();
    }
  } else {
    run(calls_[group.plan.calls.front()]);
  }
  for (Storage* storage : group.ends) storage->take_memory();
}

void RecordedStep::launch(const std::vector<std::byte>& live) {
  std::ranges::copy(live, live_.begin());
  for (const Draw& draw : draws_)
    *draw.state = {draw.base->seed, draw.recorded.offset + draw.base->offset};
  // The values of the last run are no longer needed, and an error may have left it unfinished.
  for (const auto& [key, storage] : own_) storage->take_memory();
  const NoGrad no_grad;
  const detail::AutocastOff as_recorded;
  for (const Group& group : groups_) run(group);
  if (is_ready()) return;
  settle_owned();
  forget_calls();
}

std::string RecordedStep::explain() const {
  const auto megabytes = [](int64_t bytes) {
    return absl::StrFormat("%.1f MB", double(bytes) * 1e-6);
  };
  const auto line_of = [](const CalledOp& op) {
    std::string text(op.name.empty() ? "a kernel" : op.name);
    if (op.pass == Pass::kBackward) text += " (backward)";
    if (op.where.line() != 0)
      absl::StrAppend(&text, " at ", op.where.file_name(), ":", op.where.line());
    return text;
  };
  std::string segments, alone;
  size_t count = 0, joined = 0;
  int64_t saved = 0;
  for (const Group& group : groups_) {
    const CalledOp& first = calls_[group.plan.calls.front()].op;
    if (!group.segment) {
      const std::string why =
          group.plan.count > 0 ? "no segment uses its operands" : group.plan.alone;
      if (!why.empty()) absl::StrAppend(&alone, "  ", line_of(first), ": ", why, "\n");
      continue;
    }
    joined += group.plan.calls.size();
    saved += group.segment->saved_bytes();
    absl::StrAppend(&segments, "segment ", ++count, ": ", group.plan.calls.size(), " calls, ",
                    group.plan.count, " elements, ", megabytes(group.segment->saved_bytes()),
                    " of values are never in memory\n");
    std::string last;
    for (const size_t number : group.plan.calls)
      if (std::string line = line_of(calls_[number].op); line != last) {
        absl::StrAppend(&segments, "  ", line, "\n");
        last = std::move(line);
      }
  }
  std::string text =
      absl::StrCat(calls_.size(), " kernel calls; ", joined, " of them in ", count,
                   " segments, which save ", megabytes(saved), " of memory\n", segments);
  if (!alone.empty()) absl::StrAppend(&text, "not joined:\n", alone);
  return text;
}

}  // namespace tapegrad
