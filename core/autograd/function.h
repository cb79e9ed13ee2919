// autograd::Function: an op of the user, as in PyTorch and libtorch.
//
//   struct Cube : autograd::Function<Cube> {
//     static Variable forward(autograd::Context& ctx, const Variable& x) {
//       ctx.save_for_backward({x});
//       return x * x * x;
//     }
//     static std::vector<Variable> backward(autograd::Context& ctx, std::vector<Variable> grads) {
//       const Variable x = ctx.saved_tensors()[0];
//       return {grads[0] * 3 * x * x};
//     }
//   };
//   Variable y = Cube::apply(x);
//
// The context may also be a pointer. forward runs without recording, and returns a Variable or a
// std::vector of them. backward returns one gradient for each argument of forward behind the
// context, empty for a number. A backward pass with create_graph differentiates it again.
// core/tape/op.h describes ops with less overhead.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "core/tape/variable.h"

namespace tapegrad::autograd {

/// A value of Context::saved_data: a number or a Variable.
class SavedItem {
 public:
  SavedItem() = default;
  template <typename T>
  requires std::is_arithmetic_v<T> SavedItem(T value) : number_(value) {}
  SavedItem(const Variable& value) : variable_(value) {}

  double toDouble() const { return number_.to<double>(); }
  int64_t toInt() const { return number_.to<int64_t>(); }
  bool toBool() const { return number_.to<bool>(); }
  const Variable& toTensor() const { return variable_; }

 private:
  Number number_ = 0;
  Variable variable_;
};

/// What forward keeps for backward.
class Context {
 public:
  /// Keeps arguments and results of forward.
  void save_for_backward(std::vector<Variable> variables) { saved_ = std::move(variables); }
  template <std::derived_from<Variable>... Vs>
  requires(sizeof...(Vs) > 0) void save_for_backward(const Vs&... variables) {
    saved_ = {variables...};
  }
  /// Throws AutogradError for a variable that was changed in place since.
  std::vector<Variable> saved_tensors() const;
  std::vector<Variable> get_saved_variables() const { return saved_tensors(); }
  std::vector<Variable> saved_variables() const { return saved_tensors(); }
  /// Whether the argument requires a gradient; the first one is 0.
  bool needs_input_grad(size_t argument) const;

  std::map<std::string, SavedItem> saved_data;

 private:
  friend class FunctionCall;
  std::vector<Variable> saved_;
  std::vector<uint32_t> versions_;  // of the saved variables
  std::vector<int> outputs_;        // the result that a saved variable is, or -1
  std::vector<bool> needs_;         // of each argument
};
using AutogradContext = Context;
using variable_list = std::vector<Variable>;
using tensor_list = variable_list;

/// A call of a Function. Not used directly.
class FunctionCall {
 public:
  using Backward = std::vector<Variable> (*)(Context&, std::vector<Variable> gradients);

  explicit FunctionCall(Backward backward) : backward_(backward) {}
  Context& context() { return *context_; }
  void add(const Variable& argument);
  template <typename T>
  void add(const T&) {
    context_->needs_.push_back(false);
  }
  /// Puts the call on the tape, and returns its results with their history.
  std::vector<Variable> record(const std::vector<Variable>& results, Where where);

 private:
  struct Op;
  std::shared_ptr<Context> context_ = std::make_shared<Context>();
  Backward backward_;
  std::vector<Variable> inputs_;
  std::vector<size_t> arguments_;  // the argument that each input is
};

template <typename Self>
struct Function {
  /// Calls Self::forward(context, arguments...).
  template <typename... Xs>
  static auto apply(const Xs&... arguments) {
    FunctionCall call(&Function::run_backward);
    (call.add(arguments), ...);
    auto result = [&] {
      const NoGrad no_grad;
      if constexpr (requires { Self::forward(&call.context(), arguments...); })
        return Self::forward(&call.context(), arguments...);
      else
        return Self::forward(call.context(), arguments...);
    }();
    if constexpr (std::convertible_to<decltype(result), Variable>)
      return call.record({result}, Where())[0];
    else
      return call.record(result, Where());
  }

 private:
  static std::vector<Variable> run_backward(Context& context, std::vector<Variable> gradients) {
    const auto call = [&](auto&& ctx, auto&& grads) {
      auto result = Self::backward(std::forward<decltype(ctx)>(ctx), grads);
      if constexpr (std::convertible_to<decltype(result), Variable>)
        return std::vector<Variable>{result};
      else
        return std::vector<Variable>(result.begin(), result.end());
    };
    if constexpr (requires { Self::backward(&context, gradients); })
      return call(&context, gradients);
    else if constexpr (requires { Self::backward(context, gradients); })
      return call(context, gradients);
    else if constexpr (requires { Self::backward(&context, gradients[0]); })
      return call(&context, gradients[0]);
    else
      return call(context, gradients[0]);
  }
};

}  // namespace tapegrad::autograd
