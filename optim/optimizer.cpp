#include "optim/optimizer.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <utility>

#include "core/autograd/internal/capture.h"
#include "core/autograd/sparse_gradient.h"
#include "core/base/internal/classic_text.h"
#include "core/base/internal/scope.h"
#include "core/dispatch/kernels.h"
#include "core/inspect/profiler.h"
#include "core/tape/internal/backward.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/index.h"
#include "ops/scatter.h"
#include "ops/unary.h"
#include "ops/update.h"
#include "optim/internal/checks.h"

namespace tapegrad::optim {

void check_range(std::string_view kind, std::string_view option, double value, double low,
                 double high) {
  if (!(value >= low && value < high))
    fail<ArgumentError>(kind, ": ", option, " is ", value, ", not in [", low, ", ", high, ')');
}

namespace {

constinit std::atomic<uint64_t> next_id{0};

}  // namespace

Params::Params(std::vector<Variable> params, Where where) : where_(where) {
  groups_.push_back({.params = std::move(params)});
}
Params::Params(std::initializer_list<Variable> params, Where where)
    : Params(std::vector<Variable>(params), where) {}
Params::Params(std::initializer_list<std::vector<Variable>> lists, Where where) : where_(where) {
  std::vector<Variable>& all = groups_.emplace_back().params;
  for (const std::vector<Variable>& list : lists) all.insert(all.end(), list.begin(), list.end());
}
Params::Params(std::vector<ParamGroup> groups, Where where)
    : groups_(std::move(groups)), where_(where) {}
Params::Params(std::initializer_list<ParamGroup> groups, Where where)
    : groups_(groups), where_(where) {}
Params::Params(const Params&) = default;
Params::Params(Params&&) noexcept = default;
Params::~Params() = default;

Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&& other) noexcept : Tracked(std::move(other)) {
  take(std::move(other));
}
Optimizer& Optimizer::operator=(Optimizer&& other) noexcept {
  if (this == &other) return *this;
  Tracked::operator=(std::move(other));
  take(std::move(other));
  return *this;
}
void Optimizer::take(Optimizer&& other) noexcept {
  kind_ = other.kind_;
  where_ = other.where_;
  options_of_groups_ = std::move(other.options_of_groups_);
  id_ = std::exchange(other.id_, next_id.fetch_add(1, std::memory_order_relaxed));
  lr_ = other.lr_;
  weight_decay_ = other.weight_decay_;
  maximize_ = other.maximize_;
  groups_ = std::exchange(other.groups_, {});
  views_.clear();
  other.views_.clear();
  skipped_ = std::exchange(other.skipped_, {});
  has_guarded_ = std::exchange(other.has_guarded_, false);
}

OptimizerHere::OptimizerHere(Optimizer& optimizer, Where where)
    : optimizer_(optimizer.handle()), where_(where) {
  const ErrorLine line(where);
  if (!optimizer_)
    fail<ArgumentError>(optimizer.kind(), ": a scheduler of an optimizer that was moved");
}
OptimizerHere::OptimizerHere(const OptimizerHere&) = default;
OptimizerHere& OptimizerHere::operator=(const OptimizerHere&) = default;
OptimizerHere::~OptimizerHere() = default;

Optimizer& OptimizerHere::get() const {
  if (auto* optimizer = tapegrad::detail::Tracked::find<Optimizer>(optimizer_)) return *optimizer;
  const ErrorLine line(where_);
  fail<ArgumentError>("scheduler: the optimizer no longer exists");
}

Optimizer::Optimizer(Params params, double lr, double weight_decay)
    : Optimizer("Optimizer", std::move(params), lr, weight_decay) {}

Optimizer::Optimizer(std::string_view kind, Params params, double lr, double weight_decay,
                     std::initializer_list<std::string_view> options)
    : kind_(kind),
      where_(params.where()),
      options_of_groups_(options),
      id_(next_id.fetch_add(1, std::memory_order_relaxed)),
      lr_(lr),
      weight_decay_(weight_decay) {
  const ErrorLine line(where_);
  for (ParamGroup& group : params.groups()) add_group(std::move(group));
  const std::vector<Variable> all = parameters();
  if (all.empty()) fail<ArgumentError>(kind_, ": no parameters");
  if (std::ranges::none_of(all, &Variable::requires_grad))
    fail<ArgumentError>(kind_, ": none of the ", all.size(),
                        " parameters requires a gradient; call requires_grad_() on those to train");
}

void Optimizer::add_group(ParamGroup given) {
  const std::pair<std::string_view, bool> options[] = {
      {"momentum", given.momentum.has_value()}, {"dampening", given.dampening.has_value()},
      {"nesterov", given.nesterov.has_value()}, {"betas", given.betas.has_value()},
      {"eps", given.eps.has_value()},           {"amsgrad", given.amsgrad.has_value()},
      {"lr_decay", given.lr_decay.has_value()}, {"alpha", given.alpha.has_value()},
      {"rho", given.rho.has_value()},           {"centered", given.centered.has_value()}};
  for (const auto& [name, is_given] : options)
    if (is_given && std::ranges::find(options_of_groups_, name) == options_of_groups_.end())
      fail<ArgumentError>(kind_, ": a group has the option ", name, ", which ", kind_, " has not");
  const double lr = given.lr.value_or(lr_);
  Group group{lr, given.weight_decay.value_or(weight_decay_), {}, {}, lr};
  check_range(kind_, "lr", group.lr, 0, kNoLimit);
  check_range(kind_, "weight_decay", group.weight_decay, 0, kNoLimit);
  std::vector<Variable> seen = parameters();
  for (Variable& param : given.params) {
    if (!param.defined() || !param.is_leaf())
      fail<ArgumentError>(kind_, ": parameter ", seen.size(), " is ",
                          param.defined() ? "the result of an op, not a leaf" : "empty");
    for (const Variable& before : seen)
      if (before.is_same(param))
        fail<ArgumentError>(kind_, ": parameter ", seen.size(), " is given twice");
    if (param.requires_grad())
      if (Leaf& leaf = static_cast<Leaf&>(*param.edge().node); leaf.label() == nullptr)
        leaf.set_label(intern_scope("parameter " + std::to_string(seen.size())));
    seen.push_back(param);
    group.slots.push_back({.param = std::move(param)});
  }
  given.params.clear();
  group.own = std::move(given);
  groups_.push_back(std::move(group));
}

void Optimizer::check_groups() const {
  const ErrorLine line(where_);
  for (const Group& group : groups_) check_group(group);
}

void Optimizer::add_param_group(ParamGroup group, Where where) {
  const ErrorLine line(where);
  require_here("add_param_group()");
  if (group.params.empty()) fail<ArgumentError>(kind_, ": add_param_group: no parameters");
  add_group(std::move(group));
  try {
    check_group(groups_.back());
  } catch (...) {
    groups_.pop_back();
    throw;
  }
}

void Optimizer::require_here(std::string_view call) const {
  if (groups_.empty()) [[unlikely]]
    fail<ArgumentError>(kind_, ": ", call, " of an optimizer that was moved to another variable");
}

void Optimizer::step() {
  require_here("a step");
  settle();
  make_steps({});
}

void Optimizer::update(const Group&, const ParamUpdates&, const StepGuard&) {
  fail<ArgumentError>(kind_,
                      ": an optimizer that derives from optim::Optimizer overrides step(); "
                      "for GraphedStep derive from optim::CustomOptimizer, and "
                      "override update(Parameter&)");
}

Variable Optimizer::step(LossClosure closure) {
  Variable loss;
  if (closure) {
    const Recording recording(true);
    loss = closure();
  }
  step();
  return loss;
}

void Optimizer::step_unless(const Tensor& found_inf) {
  if (!skipped_) fail<ArgumentError>(kind_, ": make a step before steps are recorded");
  make_steps({found_inf, skipped_});
  kernels::accumulate(found_inf.to(i64), skipped_);
}

void Optimizer::prepare_to_skip(Device device) {
  if (!skipped_ && Capture::current() == nullptr) skipped_ = Tensor::full({}, 0, i64, device);
}

void Optimizer::settle() const {
  if (!has_guarded_ || Capture::current() != nullptr) return;
  const int64_t skipped = skipped_.number().to<int64_t>();
  has_guarded_ = false;
  kernels::fill(skipped_, 0);
  for (Group& group : groups_)
    for (Slot& slot : group.slots)
      if (std::exchange(slot.guarded, false)) slot.steps -= skipped;
}

std::vector<Optimizer::Run> Optimizer::runs() {
  std::vector<Run> runs;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Tensor* last = nullptr;
    for (size_t s = 0; s < groups_[g].slots.size(); ++s) {
      Slot& slot = groups_[g].slots[s];
      if (rows_of(groups_[g], slot)) continue;
      const Variable grad = slot.param.grad();
      if (!grad.defined()) continue;
      prepare_state(groups_[g], slot);
      if (Capture* capture = Capture::current();
          capture && grad.device().type != capture->device().type)
        capture->give_up(kind_ + ": a parameter is on another device than the step");
      const Tensor& param = slot.param.value();
      if (!last || last->device() != param.device() || last->dtype() != param.dtype())
        runs.push_back({g, {}});
      runs.back().slots.push_back(s);
      last = &param;
    }
  }
  return runs;
}

RowGradientPtr Optimizer::rows_of(const Group& group, const Slot& slot) const {
  return updates_rows(group) && slot.param.value().is_contiguous() ? row_gradient(slot.param)
                                                                   : nullptr;
}

/// Gathers the rows of the parameter and of its state, updates them as one small parameter, and
/// writes them back.
void Optimizer::make_row_step(const Group& group, Slot& slot, const RowGradient& gradient) {
  prepare_state(group, slot);
  ++slot.steps;
  if (gradient.rows().numel() == 0) return;
  const Tensor& indices = gradient.indices();
  const auto gather = [&](const Tensor& whole) {
    Tensor rows = whole.empty_like(gradient.rows().shape());
    kernels::index_select(whole, indices, 0, rows);
    return rows;
  };
  // The scatter kernel takes an index for each element.
  Tensor places = Tensor::empty(gradient.rows().shape(), i64, indices.device());
  kernels::copy(indices.with_layout({{indices.numel(), 1}, {1, 1}, indices.layout().offset}),
                places);

  const Tensor down = maximize_ ? neg(Variable(gradient.rows())).value() : gradient.rows();
  const Tensor param = gather(slot.param.value());
  std::vector<Tensor> state;
  for (const Tensor& whole : slot.state) state.push_back(whole ? gather(whole) : Tensor());
  update(group, {{{param, down, state, slot.steps}}}, {});
  Tensor& whole = slot.param.writable();
  kernels::scatter(param, places, 0, whole);
  whole.storage().bump_version();
  for (size_t i = 0; i < state.size(); ++i)
    if (state[i]) kernels::scatter(state[i], places, 0, slot.state[i]);
}

/// Step that was made while a step was captured. Such a step does not count when it is recorded.
/// Each replay counts it and passes its numbers to the device, or to the recorded calls.
struct Optimizer::RecordedStep {
  StepGuard guard;
  std::vector<Run> runs;
};

std::shared_ptr<Optimizer::RecordedStep> Optimizer::record_step(const StepGuard& guard) const {
  Capture* capture = Capture::current();
  if (capture == nullptr) return nullptr;
  const auto step = std::make_shared<RecordedStep>(RecordedStep{guard, {}});
  // The state may be replaced, or added to, while the program keeps handles to the old tensors.
  const auto every_state = [](const Optimizer& optimizer, const auto& holds) {
    for (const Group& group : optimizer.groups_)
      for (const Slot& slot : group.slots)
        for (const Tensor& state : slot.state)
          if (!holds(state ? &state.storage() : nullptr)) return false;
    return true;
  };
  std::vector<const TensorStorage*> states;
  every_state(*this, [&](const TensorStorage* state) {
    states.push_back(state);
    return true;
  });
  capture->on_setting(
      [every_state, self = handle(), groups = groups_.size(), states = std::move(states)] {
        const auto* optimizer = find<Optimizer>(self);
        if (optimizer == nullptr || optimizer->groups_.size() != groups) return false;
        size_t next = 0;
        return every_state(*optimizer,
                           [&](const TensorStorage* state) {
                             return next < states.size() && states[next++] == state;
                           }) &&
               next == states.size();
      });
  capture->before_replay(  // the optimizer exists, because on_setting() has asked
      [self = handle(), step] { find<Optimizer>(self)->replay_step(*step); },
      [self = handle(), step] {
        Optimizer& optimizer = *find<Optimizer>(self);
        for (const Run& run : step->runs)
          for (const size_t s : run.slots) --optimizer.groups_[run.group].slots[s].steps;
      });
  return step;
}

void Optimizer::replay_step(const RecordedStep& step) {
  for (const Run& run : step.runs) {
    Group& group = groups_[run.group];
    ParamUpdates params;
    for (const size_t s : run.slots) {
      Slot& slot = group.slots[s];
      count_step(slot, step.guard);
      const Tensor& param = slot.param.value();
      params.list.push_back({param, param, slot.state, slot.steps});
    }
    update(group, params, step.guard);
  }
}

void Optimizer::count_step(Slot& slot, const StepGuard& guard) {
  ++slot.steps;
  if (guard.found_inf) slot.guarded = has_guarded_ = true;
}

void Optimizer::warn_of_no_gradients() {
  if (std::exchange(has_warned_, true)) return;
  std::cerr << "tapegrad: warning: " << kind_ << ": step() changes nothing, because no parameter "
            << "has a gradient; call backward() of a loss of the optimizer's parameters first";
  if (tapegrad::detail::is_of_user(where_))
    std::cerr << " (optimizer of " << where_.file_name() << ':' << where_.line() << ')';
  std::cerr << '\n';
}

void Optimizer::make_steps(const StepGuard& guard) {
  const NoGrad no_grad;
  const OpSpan span(kind_, Pass::kUpdate);
  bool steps = false;
  for (Group& group : groups_)
    for (Slot& slot : group.slots)
      if (const RowGradientPtr gradient = rows_of(group, slot)) {
        make_row_step(group, slot, *gradient);
        steps = true;
      }
  std::shared_ptr<RecordedStep> recorded = record_step(guard);
  const std::vector<Run> dense = runs();
  if (!steps && dense.empty()) warn_of_no_gradients();
  for (const Run& run : dense) {
    if (Capture::current() == nullptr) recorded.reset();  // a capture may just have ended
    Group& group = groups_[run.group];
    ParamUpdates params;
    params.list.reserve(run.slots.size());
    for (const size_t s : run.slots) {
      Slot& slot = group.slots[s];
      const Variable gradient = slot.param.grad();
      const Variable down = maximize_ ? neg(gradient) : gradient;
      params.list.push_back(
          {slot.param.value().contiguous(), down.value().contiguous(), slot.state, slot.steps + 1});
    }
    update(group, params, guard);
    if (Capture::current() == nullptr) recorded.reset();
    for (size_t i = 0; i < run.slots.size(); ++i) {
      Slot& slot = group.slots[run.slots[i]];
      Tensor& param = slot.param.writable();
      if (!params.list[i].param.shares_storage(param)) kernels::copy(params.list[i].param, param);
      param.storage().bump_version();
      if (!recorded) count_step(slot, guard);
    }
    if (recorded) recorded->runs.push_back(run);
  }
}

void Optimizer::zero_grad(bool set_to_none) const {
  require_here("zero_grad()");
  for (const Group& group : groups_)
    for (const Slot& slot : group.slots) slot.param.zero_grad(set_to_none);
}

std::vector<Variable> Optimizer::parameters() const {
  std::vector<Variable> params;
  for (const Group& group : groups_)
    for (const Slot& slot : group.slots) params.push_back(slot.param);
  return params;
}

void Optimizer::set_lr(double lr, Where where) {
  const ErrorLine line(where);
  require_here("set_lr()");
  for (int64_t group = 0; group < group_count(); ++group) set_lr(group, lr, where);
}
void Optimizer::set_lr(int64_t group, double lr, Where where) {
  const ErrorLine line(where);
  if (group < 0 || group >= group_count())
    fail<IndexError>(kind_, ": no group ", group, " among ", group_count());
  schedule_lr(size_t(group), lr);
  groups_[size_t(group)].initial_lr = lr;
}
void Optimizer::schedule_lr(size_t group, double lr) {
  check_range(kind_, "lr", lr, 0, kNoLimit);
  StepObserver::tell_host_change("sets a learning rate");
  groups_[group].lr = lr;
}
void Optimizer::note_read(double value, std::function<double(const Optimizer&)> read) const {
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    step->on_setting([self = handle(), value, read = std::move(read)] {
      const auto* optimizer = find<Optimizer>(self);
      return optimizer != nullptr && read(*optimizer) == value;
    });
}
double Optimizer::lr(int64_t group) const {
  if (group < 0 || group >= group_count())
    fail<IndexError>(kind_, ": no group ", group, " among ", group_count());
  const double lr = groups_[group].lr;
  note_read(lr, [group](const Optimizer& now) { return now.groups_[group].lr; });
  return lr;
}

void Optimizer::set_weight_decay(int64_t group, double weight_decay) {
  if (group < 0 || group >= group_count())
    fail<IndexError>(kind_, ": no group ", group, " among ", group_count());
  check_range(kind_, "weight_decay", weight_decay, 0, kNoLimit);
  StepObserver::tell_host_change("sets a weight decay");
  groups_[group].weight_decay = weight_decay;
}
double Optimizer::weight_decay(int64_t group) const {
  if (group < 0 || group >= group_count())
    fail<IndexError>(kind_, ": no group ", group, " among ", group_count());
  const double weight_decay = groups_[group].weight_decay;
  note_read(weight_decay,
            [group](const Optimizer& now) { return now.groups_[group].weight_decay; });
  return weight_decay;
}

std::ostream& operator<<(std::ostream& out, const Optimizer& optimizer) {
  ClassicText text;
  text << optimizer.kind() << '(' << optimizer.parameters().size() << " parameters, lr=";
  for (int64_t group = 0; group < optimizer.group_count(); ++group)
    text << (group > 0 ? ", " : "") << optimizer.lr(group);
  return out << text.str() << ')';
}

void Optimizer::zero_grad(ZeroGradOptions options) const { zero_grad(options.set_to_none); }
int64_t Optimizer::group_count() const { return int64_t(groups_.size()); }

}  // namespace tapegrad::optim
