#include "nn/internal/member_check.h"

#include <algorithm>
#include <iostream>
#include <ranges>
#include <set>

#include "core/base/internal/classic_text.h"
#include "core/base/internal/mutex.h"
#include "core/base/internal/scope.h"
#include "core/tape/internal/backward.h"
#include "nn/activation.h"
#include "nn/internal/module_state.h"

namespace tapegrad::nn {
namespace {

struct Registry {
  Mutex mutex;
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
  /// Whether it matters that the module has no name.
  const auto is_missed = [&](const Module* module) {
    if (is_named(module)) return false;
    Named inside;
    module->visit(inside);
    return std::ranges::any_of(inside.modules,
                               [](const auto& part) {
                                 return !part.first->is_inferred() ||
                                        part.first->state_->own.uses_mode;
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

/// Whether the model has a Lambda, whose function may hold Variables of the caller.
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
void add_results(const Module& root, std::set<const Node*>& nodes) {
  struct Finder final : MemberVisitor {
    explicit Finder(std::set<const Node*>& found) : nodes(found) {}
    void on_parameter(const std::string&, Variable& x) override {
      if (x.requires_grad() && !x.is_leaf()) nodes.insert(x.edge().node.get());
    }
    std::set<const Node*>& nodes;
  } finder(nodes);
  root.visit(finder);
}

}  // namespace

void ModuleCall::check_modules(const Module& module,
                               std::initializer_list<const Variable*> inputs) {
  for (const Variable* x : inputs)
    if (x != nullptr && x->requires_grad()) first_inputs_.push_back(x->edge().node.get());
  MemberCheck::check_modules(module);
}

void ModuleCall::check_parameters(const Variable& result) {
  check_parameters(std::vector<Variable>{result});
}

void ModuleCall::check_parameters(const std::vector<Variable>& results) {
  if (tapegrad::detail::context.model == nullptr) return;
  const Module& model = *tapegrad::detail::context.model->module;
  model.state_->own.parameters_checked.store(true, std::memory_order_relaxed);
  std::set<const Node*> seen(first_inputs_.begin(), first_inputs_.end());
  add_results(model, seen);
  std::vector<const Node*> todo;
  const auto reach = [&](const Edge& edge) {
    const Node* node = edge.node.get();
    return node != nullptr && seen.insert(node).second ? node : nullptr;
  };
  for (const Variable& y : results)
    if (y.defined())
      if (const Node* node = reach(y.edge()); node != nullptr && !node->is_leaf())
        todo.push_back(node);
  while (!todo.empty()) {
    const Node* user = todo.back();
    todo.pop_back();
    for (const Edge& edge : user->edges()) {
      const Node* node = reach(edge);
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

}  // namespace tapegrad::nn
