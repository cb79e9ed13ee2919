// Gradients of results with respect to chosen variables. They do not change the gradients of
// leaves. core/tape/variable.h includes this header at its end.
//
//   Variable dx = grad(y, x);                                  // of y's only element
//   std::vector<Variable> both = grad(y, {x, w}, {.create_graph = true});
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

struct GradOptions {
  Variable grad_outputs = {};  // the seed: of y's shape, required unless y has one element
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;  // return an empty gradient for an x that no y depends on, instead of
                              // throwing
};

/// A list of at least one variable. {} does not convert to it, so that {.retain_graph = true} means
/// BackwardOptions.
struct ChosenLeaves {
  template <std::derived_from<Variable>... V>
  requires(sizeof...(V) > 0) ChosenLeaves(const V&... leaves) : list{leaves...} {}
  ChosenLeaves(std::vector<Variable> leaves) : list(std::move(leaves)) {}
  std::vector<Variable> list;
};
/// Options of a backward pass that accumulates into chosen leaves only: loss.backward({.inputs =
/// {w, b}}), loss.backward({.inputs = model.parameters()}).
struct BackwardInto {
  bool retain_graph = false;
  bool create_graph = false;
  ChosenLeaves inputs;
};
/// Accumulates the gradients of several results in one pass, each of one element unless seeds are
/// given: backward({loss_a, loss_b}).
void backward(VariableList ys, VariableList seeds = {}, BackwardOptions options = {},
              Where where = Where::current());

/// Returns the gradients of y with respect to xs. Does not change the gradients of leaves. Runs
/// only the rules on a path from y to one of xs; calls no hooks of other nodes. Throws
/// AutogradError if y does not depend on one of xs.
std::vector<Variable> grad(const Variable& y, std::span<const Variable> xs, const Variable& seed,
                           GradOptions options, Where where = Where::current());
/// The gradient with respect to one Variable. grad(y, x) returns this type instead of a list.
struct GradientOfOne : Variable {
  using Variable::operator=;
  using Variable::operator[];
  GradientOfOne(Variable gradient) : Variable(std::move(gradient)) {}
  /// Rejects grad(y, x)[0], which would be a row of the gradient. A named gradient can be indexed.
  template <std::integral I>
  auto operator[](I) && {
    static_assert(detail::kNever<I>,
                  "grad(y, x)[0]: grad(y, x) is the gradient itself; type grad(y, x), or "
                  "grad(y, {x})[0]");
  }
};
GradientOfOne grad(const Variable& y, const Variable& x, GradOptions options = {},
                   Where where = Where::current());
GradientOfOne grad(const Variable& y, const Variable& x, const Variable& seed, GradOptions options,
                   Where where = Where::current());
/// PyTorch's order: grad(y, x, seed, retain_graph, create_graph).
template <std::derived_from<Variable> Y, std::derived_from<Variable> X, std::same_as<bool> B>
GradientOfOne grad(const Y& y, const X& x, const Variable& seed, B retain_graph,
                   bool create_graph = false, bool allow_unused = false) {
  return grad(y, x, seed,
              GradOptions{.retain_graph = retain_graph,
                          .create_graph = create_graph,
                          .allow_unused = allow_unused});
}
std::vector<Variable> grad(const Variable& y, std::span<const Variable> xs,
                           GradOptions options = {}, Where where = Where::current());
/// Overload with a seed as third argument. {} means default options.
template <std::derived_from<Variable> V>
GradientOfOne grad(const Variable& y, const Variable& x, const V& seed,
                   Where where = Where::current()) {
  return grad(y, x, seed, GradOptions(), where);
}
template <std::derived_from<Variable> V>
std::vector<Variable> grad(const Variable& y, std::span<const Variable> xs, const V& seed,
                           Where where = Where::current()) {
  return grad(y, xs, seed, GradOptions(), where);
}
std::vector<Variable> grad(const Variable& y, std::initializer_list<Variable> xs,
                           GradOptions options = {}, Where where = Where::current());
/// Overload with a seed and options: grad(y, {a, b}, ones_like(y), {.create_graph = true}).
template <std::derived_from<Variable> V>
std::vector<Variable> grad(const Variable& y, std::initializer_list<Variable> xs, const V& seed,
                           GradOptions options = {}, Where where = Where::current()) {
  return grad(y, std::span<const Variable>(xs.begin(), xs.size()), seed, options, where);
}
/// Returns the gradients of several results in one pass: of the sum over k of <seeds[k], ys[k]>.
/// Without seeds every y must have one element.
std::vector<Variable> grad(std::span<const Variable> ys, std::span<const Variable> xs,
                           std::span<const Variable> seeds = {}, GradOptions options = {},
                           Where where = Where::current());

std::vector<Variable> grad(std::initializer_list<Variable> ys, std::initializer_list<Variable> xs,
                           GradOptions options = {}, Where where = Where::current());
/// libtorch's order of arguments. A template, so that g++ takes {.grad_outputs = {seed}} for
/// GradOptions.
template <std::derived_from<Variable> Seed>
std::vector<Variable> grad(std::initializer_list<Variable> ys, std::initializer_list<Variable> xs,
                           std::initializer_list<Seed> seeds, std::optional<bool> retain_graph = {},
                           bool create_graph = false, bool allow_unused = false) {
  return grad(std::span<const Variable>(ys.begin(), ys.size()),
              std::span<const Variable>(xs.begin(), xs.size()),
              std::vector<Variable>(seeds.begin(), seeds.end()),
              {.retain_graph = retain_graph.value_or(create_graph),
               .create_graph = create_graph,
               .allow_unused = allow_unused});
}
std::vector<Variable> grad(VariableList ys, VariableList xs, VariableList seeds,
                           std::optional<bool> retain_graph, bool create_graph = false,
                           bool allow_unused = false);

}  // namespace tapegrad
