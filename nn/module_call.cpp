// The work around a module's forward(): the module's name in the model, and its hooks.
#include <mutex>
#include <set>

#include "core/base/internal/scope.h"
#include "core/base/internal/step_observer.h"
#include "core/tape/internal/backward.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "nn/internal/member_check.h"
#include "nn/internal/module_state.h"

namespace tapegrad {
void detail::fail_hook(size_t results, size_t values) {
  fail<ArgumentError>("a hook returned ", results, " Variables in place of ", values);
}
}  // namespace tapegrad

namespace tapegrad::nn {

using tapegrad::detail::context, tapegrad::detail::RunningModel;

ModuleCall::~ModuleCall() = default;
ModuleCall::ModuleCall(const Module& module, Where where)
    : where_(where),
      is_first_(current_scope() == nullptr && is_recording() &&
                !module.state_->own.parameters_checked.load(std::memory_order_relaxed)),
      has_hooks_(module.state_->own.hooks != nullptr),
      outermost_(current_scope() == nullptr ? start(module) : RunningModel()),
      model_(current_scope() == nullptr ? &outermost_ : context.model),
      line_(tapegrad::detail::is_of_library(where) ? context.module_line : &where_),
      scope_(name_of(module)) {
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    MemberCheck::watch(module, *step);
}

RunningModel ModuleCall::start(const Module& module) {
  tapegrad::detail::ModuleState::Own& own = module.state_->own;
  uint64_t id = own.id.load(std::memory_order_relaxed);
  const bool first = id == 0;
  if (first) {
    static std::atomic<uint64_t> last_id{0};
    own.id.store(id = ++last_id, std::memory_order_relaxed);
    name_parts(module, id);
  }
  return {id, &module, first};
}

/// Each module remembers its name and the model in which it was called last. Therefore members() of
/// a model runs only at the model's first call, and again when a module is called that has no name
/// yet.
const std::string* ModuleCall::name_of(const Module& module) {
  tapegrad::detail::ModuleState::Own& own = module.state_->own;
  const std::string* outer = current_scope();
  if (RunningModel* model = context.model) {
    const auto name = [&] {
      return own.named_in.load(std::memory_order_acquire) == model->id
                 ? own.name.load(std::memory_order_relaxed)
                 : nullptr;
    };
    if (const std::string* known = name()) return known;
    if (!model->named_anew) {
      model->named_anew = true;
      name_parts(*model->module, model->id);
      if (const std::string* known = name()) return known;
    }
  } else {  // a checkpoint recomputes without the surrounding modules
    const std::string* last = own.name.load(std::memory_order_relaxed);
    if (last != nullptr && outer != nullptr && last->starts_with(*outer)) return last;
  }
  return intern_scope(outer == nullptr ? module.kind() : *outer + '.' + module.kind());
}

void ModuleCall::name_parts(const Module& root, uint64_t id) {
  struct Namer final : MemberVisitor {
    std::string root_name;
    uint64_t id = 0;
    std::set<const TapeNode*> leaves;

    void on_module(const std::string& path, Module& module) override {
      tapegrad::detail::ModuleState::Own& own = module.state_->own;
      own.name.store(intern_scope(path.empty() ? root_name : root_name + '.' + path),
                     std::memory_order_relaxed);
      own.named_in.store(id, std::memory_order_release);
    }
    void on_parameter(const std::string& path, Variable& x) override {
      if (!x.requires_grad() || !x.is_leaf()) return;
      if (leaves.insert(x.edge().node.get()).second)  // tied weights are named by their first name
        static_cast<Leaf&>(*x.edge().node).set_label(intern_scope(path));
    }
  } namer;
  namer.root_name = root.kind();
  namer.id = id;
  const std::lock_guard lock(first_call);
  try {
    root.visit(namer);
  } catch (const Error&) {  // other functions report the errors of members()
  }
}

tapegrad::detail::ModuleHooks& Module::hooks() {
  if (!state_->own.hooks) state_->own.hooks = std::make_unique<tapegrad::detail::ModuleHooks>();
  return *state_->own.hooks;
}

namespace {

/// Throws ArgumentError for an empty hook. Notifies a captured step that a hook is registered.
void prepare_hook(std::string_view caller, bool has_hook) {
  if (!has_hook) fail<ArgumentError>(caller, ": the hook is an empty function");
  StepObserver::tell_host_change("registers a hook of a module");
}

}  // namespace

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  prepare_hook("register_forward_pre_hook", bool(hook));
  ++hooks().added;
  return hooks().before.add(std::move(hook));
}
HookHandle Module::add_forward_hook(ForwardHook hook) {
  prepare_hook("register_forward_hook", bool(hook));
  ++hooks().added;
  return hooks().after.add(std::move(hook));
}
HookHandle Module::register_full_backward_hook(BackwardHook hook) {
  prepare_hook("register_full_backward_hook", bool(hook));
  ++hooks().added;
  return hooks().backward.add(std::move(hook));
}

namespace {

/// Identity of a list of variables: one node through which all their gradients pass together.
/// Variables that need no gradient get no history.
struct Pass {
  static constexpr std::string_view kName = "pass";
  static constexpr size_t kRequired = 0;
  std::vector<bool> wanted;

  std::vector<Tensor> forward(std::span<const Variable> xs) const {
    std::vector<Tensor> ys;
    for (const Variable& x : xs) ys.push_back(x.value_or_empty());
    return ys;
  }
  bool is_differentiable(size_t k) const { return wanted[k]; }
  std::vector<Variable> backward(std::span<const Variable> dy) const {
    return {dy.begin(), dy.end()};
  }
};

/// Replaces the variables that require a gradient by results of one Pass node. Returns the node, or
/// null if there is none.
TapeNode* pass(std::span<Variable> xs) {
  Pass op;
  TapeNode* node = nullptr;
  for (const Variable& x : xs) op.wanted.push_back(x.defined() && x.requires_grad());
  const std::vector<bool> wanted = op.wanted;
  const std::vector<Variable> ys =
      apply(std::move(op), Where::current(), std::span<const Variable>(xs));
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!wanted[i]) continue;
    Variable y = ys[i];
    y.set_view_of(xs[i]);
    xs[i] = y;
    node = y.grad_fn();
  }
  return node;
}

}  // namespace

struct HookedCall::Parts {
  /// State for the backward hooks.
  struct Gradients {
    std::unique_ptr<Module> module;  // a copy: the caller's module may have been destroyed
    size_t inputs = 0;
    bool has_input_gradient = false;
    std::vector<Variable> grad_outputs;

    void run_hooks(std::span<Variable> grad_inputs) {
      const std::vector<Variable> dy = std::move(grad_outputs);
      grad_outputs.clear();
      module->hooks().backward.each(
          [&](const BackwardHook& hook) { hook(*module, grad_inputs, dy); });
    }
  };

  Module& module;
  std::vector<const Variable*> given = {};
  std::vector<Variable> inputs = {};
  std::shared_ptr<Gradients> gradients = {};  // set if there are backward hooks, while recording
};

HookedCall::HookedCall(const Module& module)
    : parts_(new Parts{.module = const_cast<Module&>(module)}) {}
HookedCall::~HookedCall() { delete parts_; }

void HookedCall::add_input(const Variable& x) { parts_->given.push_back(&x); }

void HookedCall::run_before() {
  auto& [module, given, inputs, gradients] = *parts_;
  for (const Variable* x : given) inputs.push_back(*x);
  module.hooks().before.each([&](const ForwardPreHook& hook) { hook(module, inputs); });
  if (module.hooks().backward.empty() || !is_recording()) return;
  gradients = std::make_shared<Parts::Gradients>();
  gradients->module = module.copy();
  gradients->inputs = inputs.size();
  if (TapeNode* node = pass(inputs)) {
    gradients->has_input_gradient = true;
    node->register_hook(
        [kept = gradients](std::span<Variable> grad_inputs, std::span<const Variable>) {
          kept->run_hooks(grad_inputs);
        });
  }
}

const Variable& HookedCall::input(const Variable& x) const {
  for (size_t i = 0; i < parts_->given.size(); ++i)
    if (parts_->given[i] == &x) return parts_->inputs[i];
  return x;
}

void HookedCall::run_after(std::span<Variable> outputs) {
  auto& [module, given, inputs, gradients] = *parts_;
  module.hooks().after.each([&](const ForwardHook& hook) { hook(module, inputs, outputs); });
  if (!gradients) return;
  TapeNode* node = pass(outputs);
  if (node == nullptr) return;
  node->register_prehook([kept = gradients](std::span<Variable> grad_outputs) {
    kept->grad_outputs.assign(grad_outputs.begin(), grad_outputs.end());
    if (kept->has_input_gradient) return;
    std::vector<Variable> none(kept->inputs);
    kept->run_hooks(none);
  });
}

}  // namespace tapegrad::nn
