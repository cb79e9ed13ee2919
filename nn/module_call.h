// ModuleCall and HookedCall: the work of Model::operator() before and after forward(). Not for
// users.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <tuple>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad::nn {
class Module;
}

namespace tapegrad::detail {
/// The outermost module that runs on a thread.
struct RunningModel {
  uint64_t id;
  const nn::Module* module;
  bool named_anew;  // during this call
};

[[noreturn, gnu::cold]] void fail_hook(size_t results, size_t values);
/// Replaces the values by the return value of a hook: a Variable replaces the first value, a list
/// replaces all; an empty Variable or list replaces nothing.
template <typename Hook>
void replace_by(Hook hook, std::span<Variable> values) {
  if constexpr (std::is_void_v<decltype(hook())>) {
    hook();
  } else {
    const auto results = hook();
    if constexpr (requires { Variable(results); }) {
      if (const Variable result(results); result.defined() && !values.empty()) values[0] = result;
    } else if (!results.empty()) {
      if (results.size() != values.size()) fail_hook(results.size(), values.size());
      std::copy(results.begin(), results.end(), values.begin());
    }
  }
}

}  // namespace tapegrad::detail

namespace tapegrad::nn {

/// Marks a module as running on this thread. Ops are recorded, and errors reported, under the
/// module's name in the outermost model, "Net.fc1".
class [[nodiscard]] ModuleCall {
 public:
  ModuleCall(const Module& module, Where where);
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;
  ~ModuleCall();

  bool has_hooks() const { return has_hooks_; }
  /// Returns whether this is the first recorded call of an outermost module. The first call checks
  /// members().
  bool is_first() const { return is_first_; }
  /// Throws ArgumentError if members() leaves out a module.
  void check_modules(const Module& module, std::initializer_list<const Variable*> inputs);
  /// Warns if the result was made from a parameter that members() leaves out.
  void check_parameters(const Variable& result);
  void check_parameters(const std::vector<Variable>& results);
  template <typename Ys>
  requires(!std::derived_from<Ys, Variable>) void check_parameters(const Ys& ys) {
    if constexpr (requires { std::tuple_size<Ys>::value; })
      std::apply([&](const auto&... y) { (check_parameters(y), ...); }, ys);
  }
  static const Variable* variable_of(const Variable& x) { return &x; }
  template <typename X>
  requires(!std::derived_from<X, Variable>) static const Variable* variable_of(const X&) {
    return nullptr;
  }

  /// Returns the line where the module that runs on this thread was called, for a forward() without
  /// a Where.
  static Where line() {
    const Where* line = detail::context.module_line;
    return line != nullptr ? *line : Where();
  }

 private:
  static detail::RunningModel start(const Module& module);
  static const std::string* name_of(const Module& module);
  static void name_parts(const Module& root, uint64_t id);

  const Where where_;
  bool is_first_;
  bool has_hooks_;
  detail::RunningModel outermost_;  // if no other module runs
  // Inputs of the first call: the nodes that made inputs, and the inputs without a gradient, which
  // forward() may turn into leaves. Inputs with a gradient have no handle here, because a handle
  // would prevent forward() from overwriting them.
  std::vector<const TapeNode*> first_nodes_;
  std::vector<Variable> plain_inputs_;
  detail::Set<&detail::Context::model> model_;
  detail::Set<&detail::Context::module_line> line_;
  detail::Set<&detail::Context::scope> scope_;
};

/// A call of a module that has hooks.
class HookedCall {
 public:
  explicit HookedCall(const Module& module);
  ~HookedCall();
  HookedCall(const HookedCall&) = delete;
  HookedCall& operator=(const HookedCall&) = delete;

  void add_input(const Variable& x);
  template <typename X>
  requires(!std::derived_from<X, Variable>) void add_input(const X&) {}
  void run_before();
  /// Returns the argument that forward receives after the hooks.
  const Variable& input(const Variable& x) const;
  template <typename X>
  requires(!std::derived_from<X, Variable>) const X& input(const X& x) const { return x; }
  void run_after(Variable& y) { run_after(std::span<Variable>(&y, 1)); }
  void run_after(std::vector<Variable>& ys) {
    run_after(std::span<Variable>(ys.data(), ys.size()));
  }
  template <typename Ys>
  requires(!std::derived_from<Ys, Variable>) void run_after(Ys& ys) {
    if constexpr (requires { std::tuple_size<Ys>::value; }) {
      std::apply(
          [&](auto&... y) {
            std::vector<Variable> list;
            (add_variables(y, list), ...);
            run_after(std::span<Variable>(list.data(), list.size()));
            auto next = list.begin();
            (take_variables(next, y), ...);
          },
          ys);
    } else {
      run_after(std::span<Variable>());
    }
  }

 private:
  struct Parts;
  using List = std::vector<Variable>;
  void run_after(std::span<Variable> outputs);
  // Parts of a tuple that are not Variables, such as a distribution, remain unchanged.
  static void add_variables(const Variable& y, List& list) { list.push_back(y); }
  template <typename Y>
  requires(!std::derived_from<Y, Variable>) static void add_variables(const Y&, List&) {}
  static void take_variables(List::iterator& next, Variable& y) { y = *next++; }
  template <typename Y>
  requires(!std::derived_from<Y, Variable>) static void take_variables(List::iterator&, Y&) {}

  Parts* parts_;
};

}  // namespace tapegrad::nn
