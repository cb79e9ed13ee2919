#include "nn/internal/member_check.h"

#include <algorithm>
#include <iostream>
#include <ranges>
#include <set>

#include "core/base/internal/classic_text.h"
#include "core/base/internal/mutex.h"
#include "core/tape/internal/backward.h"
#include "nn/activation.h"
#include "nn/internal/module_state.h"

namespace tapegrad::nn {
namespace {

struct Registry {
  Mutex mutex;
  std::atomic<uint64_t> removed{0};
  std::set<const Module*> modules ABSL_GUARDED_BY(mutex);
};
/// Never destroyed, since a global model may be destroyed last.
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

const std::byte* address(const Module* module) {
  return reinterpret_cast<const std::byte*>(module);
}

}  // namespace

void live_modules::add(const Module* module) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.modules.insert(module);
}

void live_modules::remove(const Module* module) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.modules.erase(module);
  all.removed.fetch_add(1, std::memory_order_release);
}
uint64_t live_modules::removed() { return registry().removed.load(std::memory_order_acquire); }

bool live_modules::contains(const Module* module) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  return all.modules.contains(module);
}

std::vector<const Module*> live_modules::within(std::span<const std::byte> bytes) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  const std::byte* end = bytes.data() + bytes.size();
  return {all.modules.lower_bound(reinterpret_cast<const Module*>(bytes.data())),
          all.modules.lower_bound(reinterpret_cast<const Module*>(end))};
}

void MemberCheck::check_modules(const Module& root) {
  std::atomic<bool>& is_checked = root.state_->own.members_checked;
  if (is_checked.load(std::memory_order_relaxed)) return;

  struct Named final : MemberVisitor {
    std::vector<std::pair<const Module*, std::string>> modules;
    std::vector<Variable> variables;
    void on_module(const std::string& path, Module& module) override {
      modules.emplace_back(&module, path);
    }
    void on_parameter(const std::string&, Variable& x) override { variables.push_back(x); }
    void on_buffer(const std::string&, Variable& x) override { variables.push_back(x); }
  };
  Named named;
  root.visit(named);
  const auto is_named = [&](const Module* module) {
    return std::ranges::any_of(
        named.modules, [&](const auto& known) { return known.first->state_ == module->state_; });
  };
  const auto is_known = [&](const Variable& x) {
    return std::ranges::any_of(named.variables, [&](const Variable& y) { return x.is_same(y); });
  };
  /// Returns whether members() does not name the module although it must.
  const auto is_missed = [&](const Module* module) {
    if (is_named(module)) return false;
    Named inside;
    module->visit(inside);
    return std::ranges::any_of(
               inside.modules,
               [&](const auto& part) {
                 return !is_named(part.first) &&
                        (!part.first->is_inferred() || part.first->state_->own.uses_mode);
               }) ||
           !std::ranges::all_of(inside.variables, is_known);
  };

  // The innermost modules come last, so the owner that is reported is the nearest.
  for (const auto& [owner, path] : std::views::reverse(named.modules)) {
    const std::span<const std::byte> bytes = owner->bytes();
    std::string before;
    for (const Module* module : live_modules::within(bytes)) {
      const auto known =
          std::ranges::find(named.modules, module, [](const auto& m) { return m.first; });
      if (known != named.modules.end() && module != owner) before = known->second;
      if (module == owner || known != named.modules.end() || !is_missed(module)) continue;
      const std::string kind = owner->kind();
      ClassicText place;
      place << address(module) - bytes.data() << " bytes into " << kind;
      if (!before.empty()) place << ", behind \"" << before << '"';
      fail<ArgumentError>(kind, ": members() leaves out a ", module->kind(), " (", place.str(),
                          "); write m(\"name\", member) for it");
    }
  }
  is_checked.store(true, std::memory_order_relaxed);
}

namespace {

/// Returns whether the model has a Lambda, whose function may hold Variables of the caller.
bool has_lambda(const Module& root) {
  struct Finder final : MemberVisitor {
    bool found = false;
    void on_module(const std::string&, Module& module) override {
      found = found || dynamic_cast<const Lambda*>(&module) != nullptr;
    }
  } finder;
  root.visit(finder);
  return finder.found;
}

/// Adds the nodes that made members: functional_call() puts results of ops in place of parameters.
void add_results(const Module& root, std::set<const TapeNode*>& nodes) {
  struct Finder final : MemberVisitor {
    explicit Finder(std::set<const TapeNode*>& found) : nodes(found) {}
    void on_parameter(const std::string&, Variable& x) override {
      if (x.requires_grad() && !x.is_leaf()) nodes.insert(x.edge().node.get());
    }
    std::set<const TapeNode*>& nodes;
  } finder(nodes);
  root.visit(finder);
}

}  // namespace

void ModuleCall::check_modules(const Module& module,
                               std::initializer_list<const Variable*> inputs) {
  for (const Variable* x : inputs) {
    if (x == nullptr || !x->defined()) continue;
    if (x->requires_grad())
      first_nodes_.push_back(x->edge().node.get());
    else
      plain_inputs_.push_back(*x);
  }
  MemberCheck::check_modules(module);
}

void ModuleCall::check_parameters(const Variable& result) {
  check_parameters(std::vector<Variable>{result});
}

void ModuleCall::check_parameters(const std::vector<Variable>& results) {
  if (tapegrad::detail::context.model == nullptr) return;
  const Module& model = *tapegrad::detail::context.model->module;
  model.state_->own.parameters_checked.store(true, std::memory_order_relaxed);
  std::set<const TapeNode*> seen(first_nodes_.begin(), first_nodes_.end());
  for (const Variable& x : plain_inputs_)
    if (x.requires_grad()) seen.insert(x.edge().node.get());
  add_results(model, seen);
  std::vector<const TapeNode*> todo;
  const auto reach = [&](const TapeEdge& edge) {
    const TapeNode* node = edge.node.get();
    return node != nullptr && seen.insert(node).second ? node : nullptr;
  };
  for (const Variable& y : results)
    if (y.defined())
      if (const TapeNode* node = reach(y.edge()); node != nullptr && !node->is_leaf())
        todo.push_back(node);
  while (!todo.empty()) {
    const TapeNode* user = todo.back();
    todo.pop_back();
    for (const TapeEdge& edge : user->edges()) {
      const TapeNode* node = reach(edge);
      if (node == nullptr) continue;
      if (!node->is_leaf()) {
        todo.push_back(node);
        continue;
      }
      const Leaf& leaf = static_cast<const Leaf&>(*node);
      if (leaf.label() != nullptr) continue;
      if (has_lambda(model)) return;
      std::cerr << "tapegrad: warning: " << model.kind() << ": members() leaves out a parameter "
                << leaf.shape() << ' ' << leaf.dtype() << " (recorded as an operand of "
                << describe(*user)
                << "); write m(\"name\", member) for it, or give it to an optimizer first\n";
      return;
    }
  }
}

namespace {

/// Changes when a hook is added or removed.
uint64_t state_of(const tapegrad::detail::ModuleHooks* hooks) {
  if (hooks == nullptr) return 0;
  uint64_t count = uint64_t(hooks->added) << 32;
  const auto add = [&](const auto&) { ++count; };
  hooks->before.each(add), hooks->after.each(add), hooks->backward.each(add);
  return count;
}

const TensorStorage* storage_of(const Variable& x) {
  return x.defined() ? &x.value().storage() : nullptr;
}

/// The variables that are members of a module's own object. Others may move without notice.
struct OwnVariables final : MemberVisitor {
  explicit OwnVariables(std::span<const std::byte> object) : object(object) {}
  void on_parameter(const std::string& path, Variable& x) override {
    const auto* at = reinterpret_cast<const std::byte*>(&x);
    const std::less_equal<const std::byte*> before;
    if (path.find('.') == path.npos && before(object.data(), at) &&
        before(at + sizeof(x), object.data() + object.size()))
      found.emplace_back(&x, storage_of(x));
  }
  void on_buffer(const std::string& path, Variable& x) override { on_parameter(path, x); }

  std::span<const std::byte> object;
  std::vector<std::pair<const Variable*, const TensorStorage*>> found;
};

}  // namespace

void MemberCheck::watch(const Module& module, StepObserver& step) {
  OwnVariables own(module.bytes());
  try {
    module.visit(own);
  } catch (const Error&) {  // other functions report the errors of members()
  }
  const auto is_unchanged = [&module, state = module.state_, own = std::move(own.found),
                             hooks = state_of(module.state_->own.hooks.get()),
                             removed = live_modules::removed()]() mutable {
    if (const uint64_t now = live_modules::removed(); now != removed) {
      if (!live_modules::contains(&module)) return false;
      removed = now;
    }
    return module.state_ == state && state_of(state->own.hooks.get()) == hooks &&
           std::ranges::all_of(
               own, [](const auto& each) { return storage_of(*each.first) == each.second; });
  };
  step.on_setting(is_unchanged);
}

}  // namespace tapegrad::nn
