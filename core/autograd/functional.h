// Derivatives of functions, rather than of values: products with a Jacobian from the left (vjp) and
// from the right (jvp), whole Jacobians and Hessians, products with a Hessian. Names, shapes and
// defaults are those of torch.autograd.functional.
//
//   const auto f = [](const Variable& x, const Variable& y) { return sin(x) * y; };
//   auto [value, dx] = vjp([](const Variable& x) { return sin(x); }, x, v);   // v^T J
//   auto J = jacobian(f, std::vector{x, y});       // J[0][1]: of output 0 by input 1
//   Variable H = hessian([](const Variable& x) { return sum(x * x * x); }, x);
//
// A function takes one Variable, several, or a const std::vector<Variable>&, and returns one, or a
// std::vector, array, pair or tuple of them. With one Variable as the input the results are single;
// with a std::vector of inputs they are lists. The function is called with copies that share
// storage, so that only what it does with its arguments counts; it runs with recording on.
//
// Inputs must be floats (DTypeError). A derivative that does not exist because an output does not
// depend on an input is zeros, or an AutogradError if the options say strict.
#pragma once

#include <tuple>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/tape/variable.h"

namespace tapegrad {

struct FunctionalOptions {
  bool create_graph = false;  // the results can be differentiated again, by the inputs too
  bool strict = false;        // independence is an error
};

struct JacobianOptions {
  bool create_graph = false;
  bool strict = false;
  /// The function treats the rows of its inputs (entries along dimension 0) independently and its
  /// outputs have the same rows: the derivatives within each row only, at the cost of one row.
  bool batched = false;
};

/// What the function gave, and a product.
struct Product {
  Variable output, product;
};
struct Products {
  std::vector<Variable> outputs, products;
};

namespace detail {

using Variables = std::vector<Variable>;

inline Variables as_list(const Variable& y) { return {y}; }
inline Variables as_list(Variables ys) { return ys; }
template <typename Ys>
requires requires { std::tuple_size<Ys>::value; }
Variables as_list(const Ys& ys) {
  return std::apply([](const auto&... y) { return Variables{y...}; }, ys);
}

/// How many Variables a function takes.
template <typename F, typename... Xs>
constexpr size_t count_arguments() {
  static_assert(sizeof...(Xs) < 9, "the function takes up to eight Variables, or a list of them");
  if constexpr (std::is_invocable_v<F&, const Xs&...>)
    return sizeof...(Xs);
  else
    return count_arguments<F, Xs..., Variable>();
}

[[noreturn, gnu::cold]] void fail_arguments(size_t wanted, size_t given);

template <typename F>
Variables call_with_list(F& f, const Variables& xs) {
  if constexpr (std::is_invocable_v<F&, const Variables&>) {
    return as_list(f(xs));
  } else {
    constexpr size_t kCount = count_arguments<F, Variable>();
    if (xs.size() != kCount) fail_arguments(kCount, xs.size());
    return [&]<size_t... I>(std::index_sequence<I...>) { return as_list(f(xs[I]...)); }
    (std::make_index_sequence<kCount>());
  }
}

/// A function from list to list, not owned.
class ListFunction {
 public:
  using Call = Variables (*)(void* f, const Variables& xs);
  ListFunction(void* f, Call call) : f_(f), call_(call) {}
  Variables operator()(const Variables& xs) const { return call_(f_, xs); }

  template <typename F>
  static ListFunction of_list(F& f) {
    return {const_cast<void*>(static_cast<const void*>(&f)),
            [](void* f, const Variables& xs) { return call_with_list(*static_cast<F*>(f), xs); }};
  }
  /// Of a function that takes and gives one Variable.
  template <typename F>
  static ListFunction of_one(F& f) {
    static_assert(std::is_invocable_r_v<Variable, F&, const Variable&>,
                  "give the inputs as a std::vector unless the function takes one Variable and "
                  "returns one");
    return {const_cast<void*>(static_cast<const void*>(&f)),
            [](void* f, const Variables& xs) { return Variables{(*static_cast<F*>(f))(xs[0])}; }};
  }

 private:
  void* f_;
  Call call_;
};

inline Variables list_of(const Variable& v) { return v ? Variables{v} : Variables(); }
inline Product only(Products&& all) { return {all.outputs[0], all.products[0]}; }

Products vjp(ListFunction f, const Variables& xs, const Variables& v, FunctionalOptions options);
Products jvp(ListFunction f, const Variables& xs, const Variables& v, FunctionalOptions options);
Products hvp(ListFunction f, const Variables& xs, const Variables& v, FunctionalOptions options);
std::vector<Variables> jacobian(ListFunction f, const Variables& xs, JacobianOptions options);
std::vector<Variables> hessian(ListFunction f, const Variables& xs, JacobianOptions options);

}  // namespace detail

/// f(x) and v^T J: the gradient of <v, f(x)>. v is like f(x), and may be left out when that has one
/// element. One backward pass.
template <typename F>
Product vjp(F f, const Variable& x, const Variable& v = {}, FunctionalOptions options = {}) {
  return detail::only(
      detail::vjp(detail::ListFunction::of_one(f), {x}, detail::list_of(v), options));
}
/// v has an entry for each output, the products one for each input.
template <typename F>
Products vjp(F f, const std::vector<Variable>& xs, const std::vector<Variable>& v = {},
             FunctionalOptions options = {}) {
  return detail::vjp(detail::ListFunction::of_list(f), xs, v, options);
}

/// f(x) and J v: how f(x) changes when x moves along v, which is like x. By two backward passes:
/// J v is the derivative in u of the gradient of <u, f(x)>, which is linear in u.
template <typename F>
Product jvp(F f, const Variable& x, const Variable& v = {}, FunctionalOptions options = {}) {
  return detail::only(
      detail::jvp(detail::ListFunction::of_one(f), {x}, detail::list_of(v), options));
}
/// v has an entry for each input, the products one for each output.
template <typename F>
Products jvp(F f, const std::vector<Variable>& xs, const std::vector<Variable>& v = {},
             FunctionalOptions options = {}) {
  return detail::jvp(detail::ListFunction::of_list(f), xs, v, options);
}

/// J[i..., j...] = d f(x)[i...] / d x[j...], of shape f(x).shape + x.shape. One backward pass for
/// each element of f(x); batched: [rows, f(x)'s other sizes, x's other sizes], one pass for each
/// element of a row of f(x).
template <typename F>
Variable jacobian(F f, const Variable& x, JacobianOptions options = {}) {
  return detail::jacobian(detail::ListFunction::of_one(f), {x}, options)[0][0];
}
/// result[k][i]: of output k by input i.
template <typename F>
std::vector<std::vector<Variable>> jacobian(F f, const std::vector<Variable>& xs,
                                            JacobianOptions options = {}) {
  return detail::jacobian(detail::ListFunction::of_list(f), xs, options);
}

/// The second derivatives of a function of one element, of shape x.shape + x.shape; batched: of a
/// function that gives one element a row, [rows, x's other sizes twice].
template <typename F>
Variable hessian(F f, const Variable& x, JacobianOptions options = {}) {
  return detail::hessian(detail::ListFunction::of_one(f), {x}, options)[0][0];
}
/// result[i][j]: by input i, then by input j, of shape xs[i].shape + xs[j].shape.
template <typename F>
std::vector<std::vector<Variable>> hessian(F f, const std::vector<Variable>& xs,
                                           JacobianOptions options = {}) {
  return detail::hessian(detail::ListFunction::of_list(f), xs, options);
}

/// f(x), of one element, and H v, for v like x, without making H: two backward passes.
template <typename F>
Product hvp(F f, const Variable& x, const Variable& v = {}, FunctionalOptions options = {}) {
  return detail::only(
      detail::hvp(detail::ListFunction::of_one(f), {x}, detail::list_of(v), options));
}
template <typename F>
Products hvp(F f, const std::vector<Variable>& xs, const std::vector<Variable>& v = {},
             FunctionalOptions options = {}) {
  return detail::hvp(detail::ListFunction::of_list(f), xs, v, options);
}

}  // namespace tapegrad
