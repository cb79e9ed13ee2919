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
// The context may also be passed as a pointer. forward runs without recording, and returns a
// Variable or a std::vector of them. backward returns one gradient for each argument of forward
// after the context, empty for a number. If forward broadcast an argument, its gradient may be
// larger and is summed to the argument's shape. A gradient of another float type is converted.
// forward must not write in place to a result of another op. A backward pass with create_graph
// differentiates backward again. core/tape/op.h describes ops with less overhead.
#pragma once

#include <any>
#include <concepts>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "core/tape/variable.h"

namespace tapegrad::autograd {

/// A value of Context::saved_data: a number, a Variable, a list of sizes, a text, a pointer, or any
/// other copyable type. to<T>() returns the value; it throws ArgumentError if T is not the saved
/// type. A pointer must be valid until the backward pass.
class SavedItem {
 public:
  SavedItem() = default;
  template <typename T>
  requires(!std::same_as<std::remove_cvref_t<T>, SavedItem>) SavedItem(T&& value)
      : value_(Stored<std::decay_t<T>>(std::forward<T>(value))) {}

  double toDouble() const;
  int64_t toInt() const;
  bool toBool() const;
  const Variable& toTensor() const;
  std::vector<int64_t> toIntVector() const;
  const std::string& toStringRef() const;
  template <typename T>
  T to() const {
    if constexpr (std::is_arithmetic_v<T>)
      return get<Number>().template to<T>();
    else if constexpr (std::same_as<T, std::vector<int64_t>>)
      return toIntVector();
    else
      return get<Stored<T>>();
  }

 private:
  template <typename T>
  struct StoredAs : std::type_identity<T> {};
  template <typename T>
  requires std::is_arithmetic_v<T>
  struct StoredAs<T> : std::type_identity<Number> {
  };
  template <std::derived_from<Variable> T>
  struct StoredAs<T> : std::type_identity<Variable> {};
  template <std::same_as<std::vector<int64_t>> T>
  struct StoredAs<T> : std::type_identity<Dims> {};
  template <typename T>
  requires std::same_as<T, const char*> || std::same_as<T, char*>
  struct StoredAs<T> : std::type_identity<std::string> {
  };
  template <typename T>
  using Stored = typename StoredAs<T>::type;

  template <typename T>
  const T& get() const {
    const T* value = std::any_cast<T>(&value_);
    return value ? *value : (fail_type(), *value);
  }
  [[noreturn, gnu::cold]] void fail_type() const;

  std::any value_;
};

/// The values saved by forward, in their order.
struct SavedTensors : std::vector<Variable> {
  /// Throws IndexError if there is no value i.
  Variable operator[](size_t i) const;

 private:
  [[noreturn, gnu::cold]] void fail_index(size_t i) const;
};

/// State that forward keeps for backward.
class Context {
 public:
  /// Saves arguments and results of forward.
  void save_for_backward(std::vector<Variable> variables);
  template <std::derived_from<Variable>... Vs>
  requires(sizeof...(Vs) > 0) void save_for_backward(const Vs&... variables) {
    saved_ = {variables...};
  }
  /// Returns the saved values. Throws AutogradError if one was changed in place since forward.
  SavedTensors saved_tensors() const;
  /// Returns the saved values as an array, for `auto [x, w] = ctx.saved_tensors<2>();`. Throws
  /// ArgumentError for another number.
  template <size_t n>
  std::array<Variable, n> saved_tensors(Where where = Where::current()) const {
    return tapegrad::detail::exactly<n>(saved_tensors(), where);
  }
  SavedTensors get_saved_variables() const;
  SavedTensors saved_variables() const;
  /// Returns whether the argument requires a gradient. Argument 0 is the first one after the
  /// context.
  bool needs_input_grad(size_t argument) const;

  /// Declares results of forward without a gradient, such as indices. They do not require a
  /// gradient.
  void mark_non_differentiable(std::vector<Variable> results);
  template <std::derived_from<Variable>... Vs>
  requires(sizeof...(Vs) > 0) void mark_non_differentiable(const Vs&... results) {
    constant_ = {results...};
  }
  /// Sets whether backward gets zeros for a result that was not used (the default), or an empty
  /// Variable.
  void set_materialize_grads(bool on) { materializes_ = on; }

  std::map<std::string, SavedItem> saved_data;

 private:
  friend class FunctionCall;
  bool materializes_ = true;
  std::vector<Variable> constant_;  // results without a gradient, until the call is recorded
  std::vector<Variable> saved_;
  std::vector<uint32_t> versions_;  // of the saved variables
  std::vector<int> outputs_;        // of the saved variables among the results, or -1
  std::vector<bool> needs_;         // of each argument
};
using AutogradContext = Context;
using variable_list = std::vector<Variable>;
using tensor_list = variable_list;

/// A call of a Function. Internal to Function::apply().
class FunctionCall {
 public:
  using Backward = std::vector<Variable> (*)(Context&, std::vector<Variable> gradients);

  explicit FunctionCall(Backward backward);
  ~FunctionCall();
  Context& context() { return *context_; }
  void add(const Variable& argument);
  template <typename T>
  void add(const T& argument) {
    if constexpr (std::convertible_to<const T&, Variable>)  // an nn::Parameter, a part of a tensor
      add(static_cast<const Variable&>(Variable(argument)));
    else
      context_->needs_.push_back(false);
  }
  /// Puts the call on the tape. Returns its results with their history.
  std::vector<Variable> record(const std::vector<Variable>& results, Where where);

 private:
  struct Op;
  std::shared_ptr<Context> context_;
  Backward backward_;
  std::vector<Variable> inputs_;
  std::vector<size_t> arguments_;   // index of the argument of each input
  std::vector<uint32_t> versions_;  // of each input, before forward
};

template <typename Self>
struct Function {
  // Makes these names available in derived classes.
  using variable_list = autograd::variable_list;
  using tensor_list = autograd::tensor_list;
  using AutogradContext = Context;

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
