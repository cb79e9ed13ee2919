#include "core/autograd/derivatives.h"

#include "core/autograd/internal/seeded_gradients.h"
#include "core/dispatch/kernels.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"

namespace tapegrad::detail {
namespace {

Variable full_like(const Variable& x, double value) {
  return Variable(Tensor::full(x.shape(), value, x.dtype(), x.device()));
}

}  // namespace

Variables seeded_gradients(std::string_view op, const Variables& ys, const Variables& seeds,
                           const Variables& xs, GradOptions options, bool strict) {
  Variables roots, root_seeds, result(xs.size());
  for (size_t k = 0; k < ys.size(); ++k) {
    if (!ys[k].requires_grad()) {
      if (strict) fail<AutogradError>(op, ": output ", k, " does not depend on the inputs");
      continue;
    }
    roots.push_back(ys[k]);
    root_seeds.push_back(seeds[k]);
  }
  options.allow_unused = true;
  if (!roots.empty()) result = grad(roots, xs, root_seeds, options);
  for (size_t i = 0; i < xs.size(); ++i) {
    if (result[i].defined()) continue;
    if (strict) fail<AutogradError>(op, ": the outputs do not depend on input ", i);
    result[i] = full_like(xs[i], 0);
  }
  return result;
}

namespace {

/// Turns recording on. Throws AutogradError in InferenceMode, where every derivative would be 0.
Recording recorded(std::string_view op) {
  if (is_inference_mode())
    fail<AutogradError>(op, ": InferenceMode is on, which records nothing; use NoGrad instead");
  return Recording(true);
}

/// Returns the arguments for the function: distinct leaves, or results of ops on xs if
/// create_graph.
Variables prepare(std::string_view op, const Variables& xs, bool create_graph) {
  Variables prepared;
  for (const Variable& x : xs) {
    if (!is_float(x.dtype()))
      fail<DTypeError>(op, ": an input is ", name(x.dtype()), "; only floats have derivatives");
    prepared.push_back(create_graph && x.requires_grad() ? clone(x) : x.detach());
    if (!prepared.back().requires_grad()) prepared.back().requires_grad_();
  }
  return prepared;
}

/// Checks that the entries of v match `like`. If v is empty and all entries of `like` have one
/// element, returns ones.
Variables complete(std::string_view op, const Variables& v, const Variables& like) {
  Variables completed = v;
  for (size_t i = 0; i < like.size() && v.empty(); ++i) {
    if (like[i].numel() != 1) fail<ArgumentError>(op, ": v is wanted for a ", like[i].shape());
    completed.push_back(full_like(like[i], 1));
  }
  if (completed.size() != like.size())
    fail<ArgumentError>(op, ": ", v.size(), " entries in v for ", like.size(), " values");
  for (size_t i = 0; i < like.size(); ++i) {
    if (completed[i].shape() != like[i].shape())
      fail<ShapeError>(op, ": v is ", completed[i].shape(), " for a value of ", like[i].shape());
    if (completed[i].dtype() != like[i].dtype())
      fail<DTypeError>(op, ": v is ", name(completed[i].dtype()), " for a value of ",
                       name(like[i].dtype()));
  }
  return completed;
}

Variables finished(Variables ys, bool create_graph) {
  if (!create_graph)
    for (Variable& y : ys) y = y.detach();
  return ys;
}

Shape joined(const Shape& a, const Shape& b, int from) {
  Shape both = a;
  for (int i = from; i < b.rank(); ++i) both.push_back(b[i]);
  return both;
}

/// Stacks the derivatives of an output's elements (of its rows, if batched) into one tensor.
struct StackDerivatives {
  static constexpr std::string_view kName = "stack_derivatives";
  Shape shape;            // shape of the result
  StridedLayout element;  // layout of the first element's derivatives in the result
  int64_t step;           // stride between elements
  size_t count = 0;

  StridedLayout at(size_t j) const {
    return {element.shape, element.strides, element.offset + int64_t(j) * step};
  }
  Tensor forward(std::span<const Variable> derivatives) {
    count = derivatives.size();
    Tensor y = derivatives[0].value().empty_like(shape);
    for (size_t j = 0; j < derivatives.size(); ++j) {
      Tensor place = y.with_layout(at(j));
      kernels::copy(derivatives[j].value(), place);
    }
    return y;
  }
  Variables backward(const Variable& dy, Needs needs) const {
    Variables dx(count);
    for (size_t j = 0; j < count; ++j)
      if (needs[j]) dx[j] = strided(dy, at(j));
    return dx;
  }
};

/// Returns the derivatives of y with respect to xs, by one backward pass per element of y (per
/// element of a row, if batched).
Variables jacobian_of(const Variable& y, const Variables& xs, JacobianOptions options) {
  const bool batched = options.batched;
  if (batched && y.rank() == 0) fail<ShapeError>("jacobian: batched, and an output has no rows");
  const int64_t rows = batched ? y.size(0) : 1;
  for (const Variable& x : xs)
    if (batched && (x.rank() == 0 || x.size(0) != rows))
      fail<ShapeError>("jacobian: batched, with inputs ", x.shape(), " and outputs ", y.shape());
  int64_t count = 1;
  for (int i = batched ? 1 : 0; i < y.rank(); ++i) count *= y.shape()[i];

  std::vector<Variables> by_input(xs.size());
  for (int64_t j = 0; j < count; ++j) {
    Variable unit = full_like(y, 0);
    Tensor ones = unit.value().with_layout({{rows}, {count}, j});
    kernels::fill(ones, 1.0);
    const Variables row = seeded_gradients(
        "jacobian", {y}, {unit}, xs, {.retain_graph = true, .create_graph = options.create_graph},
        options.strict);
    for (size_t i = 0; i < xs.size(); ++i) by_input[i].push_back(row[i]);
  }

  Variables result;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Shape shape = joined(y.shape(), xs[i].shape(), batched ? 1 : 0);
    if (count == 0) {
      result.push_back(Variable(Tensor::full(shape, 0.0, xs[i].dtype(), xs[i].device())));
      continue;
    }
    StridedLayout element{xs[i].shape(), contiguous_strides(xs[i].shape()), 0};
    const int64_t step = rows == 0 ? 0 : xs[i].numel() / rows;
    if (batched) element.strides[0] = count * step;
    result.push_back(apply(StackDerivatives{shape, element, step}, Where::current(),
                           std::span<const Variable>(by_input[i])));
  }
  return result;
}

/// Checks that the function returned one element, or one element per row, and returns it.
Variable scalar_of(std::string_view op, const Variables& ys, bool batched) {
  if (ys.size() != 1 || (batched ? ys[0].rank() != 1 : ys[0].numel() != 1))
    fail<ShapeError>(op, ": the function must return one element",
                     batched ? " a row, in a vector" : "");
  return ys[0];
}

}  // namespace

void fail_arguments(size_t wanted, size_t given) {
  fail<ArgumentError>("functional: ", given, " inputs for a function of ", wanted);
}

Products vjp(ListFunction f, const Variables& xs, const Variables& v, FunctionalOptions options,
             Where where) {
  return at_line(where, [&]() -> Products {
    const Recording on = recorded("vjp");
    const Variables in = prepare("vjp", xs, options.create_graph);
    Variables ys = f(in);
    Variables products = seeded_gradients("vjp", ys, complete("vjp", v, ys), in,
                                          {.create_graph = options.create_graph}, options.strict);
    return {finished(std::move(ys), options.create_graph), std::move(products)};
  });
}

Products jvp(ListFunction f, const Variables& xs, const Variables& v, FunctionalOptions options,
             Where where) {
  return at_line(where, [&]() -> Products {
    const Recording on = recorded("jvp");
    const Variables in = prepare("jvp", xs, options.create_graph);
    const Variables along = complete("jvp", v, in);
    Variables ys = f(in), u;
    for (const Variable& y : ys) u.push_back(full_like(y, 0).requires_grad_());
    const Variables gradient =
        seeded_gradients("jvp", ys, u, in, {.create_graph = true}, options.strict);
    Variables products =
        seeded_gradients("jvp", gradient, along, u, {.create_graph = options.create_graph},
                         /*strict=*/false);
    return {finished(std::move(ys), options.create_graph), std::move(products)};
  });
}

Products hvp(ListFunction f, const Variables& xs, const Variables& v, FunctionalOptions options,
             Where where) {
  return at_line(where, [&]() -> Products {
    const Recording on = recorded("hvp");
    const Variables in = prepare("hvp", xs, options.create_graph);
    const Variables along = complete("hvp", v, in);
    const Variable y = scalar_of("hvp", f(in), /*batched=*/false);
    const Variables gradient =
        seeded_gradients("hvp", {y}, {full_like(y, 1)}, in, {.create_graph = true}, options.strict);
    Variables products = seeded_gradients("hvp", gradient, along, in,
                                          {.create_graph = options.create_graph}, options.strict);
    return {finished({y}, options.create_graph), std::move(products)};
  });
}

std::vector<Variables> jacobian(ListFunction f, const Variables& xs, JacobianOptions options,
                                Where where) {
  return at_line(where, [&]() -> std::vector<Variables> {
    const Recording on = recorded("jacobian");
    const Variables in = prepare("jacobian", xs, options.create_graph);
    std::vector<Variables> result;
    for (const Variable& y : f(in))
      result.push_back(finished(jacobian_of(y, in, options), options.create_graph));
    return result;
  });
}

std::vector<Variables> hessian(ListFunction f, const Variables& xs, JacobianOptions options,
                               Where where) {
  return at_line(where, [&]() -> std::vector<Variables> {
    const auto gradient = [&](const Variables& in) {
      const Variable y = scalar_of("hessian", f(in), options.batched);
      return seeded_gradients("hessian", {y}, {full_like(y, 1)}, in, {.create_graph = true},
                              options.strict);
    };
    return jacobian(ListFunction::of_list(gradient), xs, options, where);
  });
}

Variables as_list(const Variable& y) { return {y}; }
Variables list_of(const Variable& v) { return v.defined() ? Variables{v} : Variables(); }
JacobianProduct only(Products&& all) { return {all.outputs[0], all.products[0]}; }
Variables ListFunction::operator()(const Variables& xs) const { return call_(f_, xs); }

}  // namespace tapegrad::detail

namespace tapegrad {
Variable JacobianProduct::operator[](int part) const { return detail::part_at(*this, part); }
}  // namespace tapegrad
