// Derivatives of functions: vector-Jacobian products (vjp), Jacobian-vector products (jvp),
// Jacobians, Hessians and Hessian-vector products (hvp). Names, shapes and defaults follow
// torch.autograd.functional.
//
//   const auto f = [](const Variable& x, const Variable& y) { return sin(x) * y; };
//   auto [value, dx] = vjp([](const Variable& x) { return sin(x); }, x, v);   // v^T J
//   auto J = jacobian(f, std::vector{x, y});       // J[0][1]: of output 0 by input 1
//   Variable H = hessian([](const Variable& x) { return sum(x * x * x); }, x);
//
// A function takes one Variable, several Variables, or a const std::vector<Variable>&. It returns
// one Variable, or a std::vector, array, pair or tuple of Variables. With a single Variable as
// input the results are single; with a std::vector of inputs they are lists. The function is called
// with copies that share storage and with recording on, so only its use of its arguments is
// differentiated.
//
// Inputs must be floats, else DTypeError is thrown. If an output does not depend on an input, the
// derivative is zeros, or AutogradError is thrown if the option `strict` is set. AutogradError is
// also thrown in InferenceMode, in which nothing is recorded.
#pragma once

#include <tuple>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/tape/variable.h"

namespace tapegrad {

struct FunctionalOptions {
  bool create_graph = false;  // make the results differentiable, with respect to the inputs, too
  bool strict = false;        // throw AutogradError if an output does not depend on an input
};

struct JacobianOptions {
  bool create_graph = false;
  bool strict = false;
  /// Declares that the function treats rows of its inputs (dimension 0) independently and that its
  /// outputs have the same rows. Computes only the derivatives within each row, at the cost of one
  /// row.
  bool batched = false;
};

/// The value of a function and a product with its Jacobian.
struct JacobianProduct {
  static constexpr int kParts = 2;
  Variable output, product;
  Variable operator[](int part) const;
};
struct Products {
  std::vector<Variable> outputs, products;
};

namespace detail {

using Variables = std::vector<Variable>;

Variables as_list(const Variable& y);
inline Variables as_list(Variables ys) { return ys; }
template <typename Ys>
requires requires { std::tuple_size<Ys>::value; }
Variables as_list(const Ys& ys) {
  return std::apply([](const auto&... y) { return Variables{y...}; }, ys);
}

/// Returns the number of Variables that a function takes, at least as many as Xs; 0 if it takes
/// another type, or more than eight.
template <typename F, typename... Xs>
constexpr size_t count_arguments() {
  if constexpr (sizeof...(Xs) > 8)
    return 0;
  else if constexpr (std::is_invocable_v<F&, const Xs&...>)
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
    static_assert(kCount > 0, "the function takes up to eight Variables, or a list of them");
    if (xs.size() != kCount) fail_arguments(kCount, xs.size());
    return [&]<size_t... I>(std::index_sequence<I...>) { return as_list(f(xs[I]...)); }
    (std::make_index_sequence<kCount>());
  }
}

/// A reference to a function from list to list.
class ListFunction {
 public:
  using Call = Variables (*)(void* f, const Variables& xs);
  ListFunction(void* f, Call call) : f_(f), call_(call) {}
  Variables operator()(const Variables& xs) const;

  template <typename F>
  static ListFunction of_list(F& f) {
    return {const_cast<void*>(static_cast<const void*>(&f)), [](void* called, const Variables& xs) {
              return call_with_list(*static_cast<F*>(called), xs);
            }};
  }
  /// Wraps a function from one Variable to one Variable.
  template <typename F>
  static ListFunction of_one(F& f) {
    static_assert(std::is_invocable_r_v<Variable, F&, const Variable&>,
                  "give the inputs as a std::vector unless the function takes one Variable and "
                  "returns one");
    return {const_cast<void*>(static_cast<const void*>(&f)), [](void* called, const Variables& xs) {
              return Variables{(*static_cast<F*>(called))(xs[0])};
            }};
  }

 private:
  void* f_;
  Call call_;
};

Variables list_of(const Variable& v);
JacobianProduct only(Products&& all);

// These functions add the line `where` to errors that have none.
Products vjp(ListFunction f, const Variables& xs, const Variables& v, FunctionalOptions options,
             Where where);
Products jvp(ListFunction f, const Variables& xs, const Variables& v, FunctionalOptions options,
             Where where);
Products hvp(ListFunction f, const Variables& xs, const Variables& v, FunctionalOptions options,
             Where where);
std::vector<Variables> jacobian(ListFunction f, const Variables& xs, JacobianOptions options,
                                Where where);
std::vector<Variables> hessian(ListFunction f, const Variables& xs, JacobianOptions options,
                               Where where);

}  // namespace detail

/// Returns f(x) and v^T J, the gradient of <v, f(x)>. v has the shape of f(x), and may be omitted
/// if f(x) has one element. Takes one backward pass.
template <typename F>
JacobianProduct vjp(F f, const Variable& x, const Variable& v = {}, FunctionalOptions options = {},
                    Where where = Where::current()) {
  return detail::only(
      detail::vjp(detail::ListFunction::of_one(f), {x}, detail::list_of(v), options, where));
}
/// Overload for lists: v has one entry per output, and the products have one entry per input.
template <typename F>
Products vjp(F f, const std::vector<Variable>& xs, const std::vector<Variable>& v = {},
             FunctionalOptions options = {}, Where where = Where::current()) {
  return detail::vjp(detail::ListFunction::of_list(f), xs, v, options, where);
}

/// Returns f(x) and J v, the directional derivative of f at x along v, which has the shape of x.
/// Takes two backward passes: the gradient of <u, f(x)> is linear in u, and J v is its derivative
/// in u.
template <typename F>
JacobianProduct jvp(F f, const Variable& x, const Variable& v = {}, FunctionalOptions options = {},
                    Where where = Where::current()) {
  return detail::only(
      detail::jvp(detail::ListFunction::of_one(f), {x}, detail::list_of(v), options, where));
}
/// Overload for lists: v has one entry per input, and the products have one entry per output.
template <typename F>
Products jvp(F f, const std::vector<Variable>& xs, const std::vector<Variable>& v = {},
             FunctionalOptions options = {}, Where where = Where::current()) {
  return detail::jvp(detail::ListFunction::of_list(f), xs, v, options, where);
}

/// Returns J[i..., j...] = d f(x)[i...] / d x[j...], of shape f(x).shape + x.shape. Takes one
/// backward pass per element of f(x). With `batched`, J is
/// [rows, f(x)'s other sizes, x's other sizes] and takes one pass per element of a row of f(x).
template <typename F>
Variable jacobian(F f, const Variable& x, JacobianOptions options = {},
                  Where where = Where::current()) {
  return detail::jacobian(detail::ListFunction::of_one(f), {x}, options, where)[0][0];
}
/// Overload for lists: result[k][i] is the Jacobian of output k with respect to input i.
template <typename F>
std::vector<std::vector<Variable>> jacobian(F f, const std::vector<Variable>& xs,
                                            JacobianOptions options = {},
                                            Where where = Where::current()) {
  return detail::jacobian(detail::ListFunction::of_list(f), xs, options, where);
}

/// Returns the second derivatives of a function with one output element, of shape x.shape +
/// x.shape. With `batched`, the function returns one element per row and the result is
/// [rows, x's other sizes twice].
template <typename F>
Variable hessian(F f, const Variable& x, JacobianOptions options = {},
                 Where where = Where::current()) {
  return detail::hessian(detail::ListFunction::of_one(f), {x}, options, where)[0][0];
}
/// Overload for lists: result[i][j] contains the derivatives with respect to inputs i and j and has
/// shape xs[i].shape + xs[j].shape.
template <typename F>
std::vector<std::vector<Variable>> hessian(F f, const std::vector<Variable>& xs,
                                           JacobianOptions options = {},
                                           Where where = Where::current()) {
  return detail::hessian(detail::ListFunction::of_list(f), xs, options, where);
}

/// Returns f(x), which must have one element, and H v for v of x's shape, without computing H.
/// Takes two backward passes.
template <typename F>
JacobianProduct hvp(F f, const Variable& x, const Variable& v = {}, FunctionalOptions options = {},
                    Where where = Where::current()) {
  return detail::only(
      detail::hvp(detail::ListFunction::of_one(f), {x}, detail::list_of(v), options, where));
}
/// Overload for lists: v has one entry per input, and so have the products.
template <typename F>
Products hvp(F f, const std::vector<Variable>& xs, const std::vector<Variable>& v = {},
             FunctionalOptions options = {}, Where where = Where::current()) {
  return detail::hvp(detail::ListFunction::of_list(f), xs, v, options, where);
}

}  // namespace tapegrad
