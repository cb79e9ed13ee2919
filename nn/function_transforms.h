// Functions of functions, as in torch.func and JAX: grad(f), vmap(f), value_and_grad(f), jacrev(f),
// hessian(f). Each of them takes a function and returns a function.
//
//   auto df = func::grad([](const Variable& x) { return sum(x * x); });
//   Variable g = df(x);
//   auto per_sample = vmap(func::grad(loss), {None, 0, 0});      // loss(weights, x, target)
//   VariableMap g = per_sample(nn::parameter_map(model), xs, targets);
//
// The functions of core/autograd/derivatives.h take the function and its argument at once, and so
// does vmap(f, x, y).
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/autograd/derivatives.h"
#include "core/tape/recording.h"
#include "nn/functional_call.h"
#include "ops/subscript.h"
#include "ops/view.h"

namespace tapegrad {

/// Dimension of an argument along which vmap() maps. None: the argument is the same for all calls.
struct InDim {
  bool is_given = false;
  std::optional<int> dim = 0;
  InDim() = default;
  template <std::integral T>
  InDim(T at) : is_given(true), dim(int(at)) {}
  InDim(NewAxis);
  InDim(std::nullopt_t);
};
/// Options of vmap(f, {None, 0}) and vmap(f, {.in_dims = {None, 0}}). Default: 0 for each argument.
struct VmapOptions {
  InDim in_dims[8] = {};
  int out_dims = 0;
};

namespace detail {
[[noreturn]] void fail_vmap(const Shape& x, const Shape& y);
}  // namespace detail

/// Calls f for each index of dimension 0 of the arguments, without that dimension, and stacks the
/// results. Runs f once for each index, so it saves code, not time. Throws ShapeError if the sizes
/// differ or are 0.
template <typename F, typename... Xs>
Variable vmap(F f, const Variable& x, const Xs&... xs) {
  if (x.rank() == 0 || x.size(0) == 0) detail::fail_vmap(x.shape(), x.shape());
  [[maybe_unused]] const auto check = [&](const Variable& y) {
    if (y.rank() == 0 || y.size(0) != x.size(0)) detail::fail_vmap(x.shape(), y.shape());
  };
  (check(xs), ...);
  std::vector<Variable> results;
  for (int64_t i = 0; i < x.size(0); ++i)
    results.push_back(f(select(x, 0, i), select(xs, 0, i)...));
  return detail::stack_all(results);
}

namespace func {

template <typename F>
concept IsFunction = !std::derived_from<std::remove_cvref_t<F>, Variable>;

namespace detail {

// Functions of an argument, which is a Variable, a list of Variables or a map of them.
Variable leaf(const Variable& x);
std::vector<Variable> leaf(const std::vector<Variable>& xs);
VariableMap leaf(const VariableMap& xs);

/// Returns y, without history unless an argument has a history.
Variable value_of(const Variable& y, const Variable& x);
Variable value_of(const Variable& y, const std::vector<Variable>& xs);
Variable value_of(const Variable& y, const VariableMap& xs);

Variable gradient(const Variable& y, const Variable& x);
std::vector<Variable> gradient(const Variable& y, const std::vector<Variable>& xs);
VariableMap gradient(const Variable& y, const VariableMap& xs);

[[noreturn]] void fail_no_variable(int index);
void check_argument(int index, size_t count);

/// Returns the number of calls, or -1 for an argument that all calls share.
int64_t size_of(const Variable& x, InDim dim);
int64_t size_of(const std::vector<Variable>& xs, InDim dim);
int64_t size_of(const VariableMap& xs, InDim dim);
Variable at(const Variable& x, InDim dim, int64_t index);
std::vector<Variable> at(const std::vector<Variable>& xs, InDim dim, int64_t index);
VariableMap at(const VariableMap& xs, InDim dim, int64_t index);
int64_t size_of(const std::vector<nn::NamedVariable>& xs, InDim dim);
VariableMap at(const std::vector<nn::NamedVariable>& xs, InDim dim, int64_t index);

Variable join(const std::vector<Variable>& parts, int out_dim);
std::vector<Variable> join(const std::vector<std::vector<Variable>>& parts, int out_dim);
VariableMap join(const std::vector<VariableMap>& parts, int out_dim);
template <typename A, typename B>
std::pair<A, B> join(const std::vector<std::pair<A, B>>& parts, int out_dim) {
  std::vector<A> first;
  std::vector<B> second;
  for (const auto& [a, b] : parts) {
    first.push_back(a);
    second.push_back(b);
  }
  return {join(first, out_dim), join(second, out_dim)};
}
template <typename... Parts>
std::tuple<Parts...> join(const std::vector<std::tuple<Parts...>>& parts, int out_dim) {
  return [&]<size_t... k>(std::index_sequence<k...>) {
    const auto column = [&]<size_t i>(std::integral_constant<size_t, i>) {
      std::vector<std::tuple_element_t<i, std::tuple<Parts...>>> list;
      for (const auto& row : parts) list.push_back(std::get<i>(row));
      return join(list, out_dim);
    };
    return std::tuple<Parts...>{column(std::integral_constant<size_t, k>())...};
  }
  (std::index_sequence_for<Parts...>());
}

void check_dims(const VmapOptions& options, size_t arguments);
int64_t common_size(std::initializer_list<int64_t> sizes);

}  // namespace detail

/// Returns the function that returns the gradient of f with respect to its first argument: a
/// Variable, a std::vector of them or a VariableMap. f returns one element.
template <IsFunction F>
auto grad(F f, Where where = Where::current()) {
  return [f, where]<typename X, typename... Xs>(const X& x, const Xs&... xs) mutable {
    const Recording recording(true);
    const auto at = detail::leaf(x);
    return at_line(where, [&] { return detail::gradient(f(at, xs...), at); });
  };
}
/// Returns the function that returns {gradient, value}, in the order of torch.func.
template <IsFunction F>
auto grad_and_value(F f) {
  return [f]<typename X, typename... Xs>(const X& x, const Xs&... xs) mutable {
    const Recording recording(true);
    const auto at = detail::leaf(x);
    const Variable y = f(at, xs...);
    auto gradient = detail::gradient(y, at);
    return std::pair(std::move(gradient), detail::value_of(y, x));
  };
}
/// Returns the function that returns the gradients with respect to several arguments, which are
/// Variables, by number:
///
///   auto [dw, db] = func::grad(loss, {0, 1})(w, b, x);
///
/// Throws IndexError for an argument that does not exist, ArgumentError for one of another type.
template <IsFunction F, size_t N>
auto grad_and_value(F f, const int (&argnums)[N]) {
  return [f, argnums = std::to_array(argnums)]<typename... Xs>(const Xs&... xs) mutable {
    const Recording recording(true);
    std::vector<Variable> given(N), chosen(N);
    const auto argument = [&]<typename X>(int index, const X& x) {
      constexpr bool kIsVariable = std::derived_from<X, Variable>;
      std::conditional_t<kIsVariable, Variable, X> value = x;
      bool is_leaf = false;
      for (size_t k = 0; k < N; ++k) {
        if (argnums[k] != index) continue;
        if constexpr (kIsVariable) {
          if (!is_leaf) value = detail::leaf(x), is_leaf = true;
          given[k] = x;
          chosen[k] = value;
        } else {
          detail::fail_no_variable(index);
        }
      }
      return value;
    };
    for (const int index : argnums) detail::check_argument(index, sizeof...(Xs));
    const Variable y = [&]<size_t... k>(std::index_sequence<k...>) {
      return f(argument(int(k), xs)...);
    }
    (std::index_sequence_for<Xs...>());
    const std::vector<Variable> gradients = detail::gradient(y, chosen);
    std::array<Variable, N> result;
    for (size_t k = 0; k < N; ++k) result[k] = gradients[k];
    return std::pair(std::move(result), detail::value_of(y, given));
  };
}
template <IsFunction F, size_t N>
auto grad(F f, const int (&argnums)[N]) {
  return [both = func::grad_and_value(f, argnums)](const auto&... xs) mutable {
    return both(xs...).first;
  };
}
template <IsFunction F>
auto grad(F f, std::integral auto argnum) {
  return [both = func::grad_and_value(f, {int(argnum)})](const auto&... xs) mutable {
    return both(xs...).first[0];
  };
}

/// Returns the function that calls f for each index of a dimension of its arguments, and stacks the
/// results along out_dims. Saves code, not time.
template <IsFunction F>
auto vmap(F f, VmapOptions options = {}, Where where = Where::current()) {
  return [f, options, where](const auto&... xs) mutable {
    at_line(where, [&] { detail::check_dims(options, sizeof...(xs)); });
    const auto& dims = options.in_dims;
    return [&]<size_t... k>(std::index_sequence<k...>) {
      const int64_t count =
          at_line(where, [&] { return detail::common_size({detail::size_of(xs, dims[k])...}); });
      // g++ 12 refuses decltype(f(...)) in this lambda if f has captures.
      std::vector<std::invoke_result_t<F&, decltype(detail::at(xs, dims[k], 0))...>> parts;
      for (int64_t i = 0; i < count; ++i) parts.push_back(f(detail::at(xs, dims[k], i)...));
      return detail::join(parts, options.out_dims);
    }
    (std::index_sequence_for<decltype(xs)...>());
  };
}
/// Overload with the dimension of each argument and that of the result by position: vmap(f, 0, 1).
template <IsFunction F, std::integral I>
auto vmap(F f, I in_dim, int out_dim = 0, Where where = Where::current()) {
  VmapOptions options{.out_dims = out_dim};
  return [f, options, in_dim, where](const auto&... xs) mutable {
    for (size_t i = 0; i < sizeof...(xs) && i < std::size(options.in_dims); ++i)
      options.in_dims[i] = InDim(in_dim);
    return func::vmap(f, options, where)(xs...);
  };
}
/// Return functions of one Variable.
template <IsFunction F>
auto jacrev(F f, Where where = Where::current()) {
  return [f, where](const Variable& x) {
    return tapegrad::jacobian(f, x, {.create_graph = x.requires_grad()}, where);
  };
}
template <IsFunction F>
auto jacfwd(F f, Where where = Where::current()) {
  return func::jacrev(std::move(f), where);
}
template <IsFunction F>
auto hessian(F f, Where where = Where::current()) {
  return [f, where](const Variable& x) {
    return tapegrad::hessian(f, x, {.create_graph = x.requires_grad()}, where);
  };
}

/// Returns f(x) and a function that maps v to the gradient of <v, f(x)>.
template <IsFunction F>
auto vjp(F f, const Variable& x) {
  Variable y;
  Variable at;
  {
    const Recording recording(true);
    at = detail::leaf(x);
    y = f(at);
  }
  return std::pair(y.detach(), [y, at](const Variable& v) {
    return tapegrad::grad(y, at, v, {.retain_graph = true});
  });
}
/// Returns f(x) and its derivative along v.
template <IsFunction F>
std::pair<Variable, Variable> jvp(F f, const Variable& x, const Variable& v,
                                  Where where = Where::current()) {
  const JacobianProduct both = tapegrad::jvp(f, x, v, {}, where);
  return {both.output, both.product};
}

/// Returns the function that returns {value, gradient}, in JAX's order.
template <IsFunction F>
auto value_and_grad(F f) {
  return [f]<typename X, typename... Xs>(const X& x, const Xs&... xs) {
    auto [gradient, value] = func::grad_and_value(f)(x, xs...);
    return std::pair(std::move(value), std::move(gradient));
  };
}
template <IsFunction F, size_t N>
auto value_and_grad(F f, const int (&argnums)[N]) {
  return [both = func::grad_and_value(f, argnums)](const auto&... xs) mutable {
    auto [gradients, value] = both(xs...);
    return std::pair(std::move(value), std::move(gradients));
  };
}

using nn::functional_call;

/// Returns the parameters, and the buffers, of models with equal members, stacked along a new
/// dimension 0: `vmap([&](const VariableMap& p, const Variable& x) { return functional_call(base,
/// p, x); }, {0, None})(params, x)`. The stacked parameters are leaves that require gradients, as
/// in PyTorch. Throws ArgumentError for no models, and for models with different members or in
/// different modes.
std::pair<VariableMap, VariableMap> stack_module_state(const std::vector<nn::Module*>& models);
template <std::derived_from<nn::Module> M>
std::pair<VariableMap, VariableMap> stack_module_state(std::vector<M>& models) {
  std::vector<nn::Module*> modules;
  for (M& model : models) modules.push_back(&model);
  return func::stack_module_state(modules);
}

}  // namespace func

/// Makes grad(f)(x), vmap(f)(x) and value_and_grad(f)(x) available. value_and_grad returns {value,
/// gradient}, in JAX's order.
using func::grad;
using func::value_and_grad;
using func::vmap;

}  // namespace tapegrad
