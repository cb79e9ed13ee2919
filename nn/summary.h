// A table of a model's layers, in the format of Keras.
//
//   std::cout << nn::summary(model, {1, 28, 28});
#pragma once

#include "core/tape/recording.h"
#include "nn/module.h"

namespace tapegrad::nn {

namespace detail {
/// Returns the table of a model whose modules record the shapes of their results while run() runs.
std::string summary_of(Module& model, const std::function<void()>& run);
/// Returns zeros for a batch of one, with the dtype and device of the model.
Variable sample_input(const Module& model, const Shape& input_shape);
}  // namespace detail

/// Returns layer, output shape and parameter count of each module, and the totals. Runs
/// infer(input_shape), without the batch dimension. A module that forward() does not run has no
/// shape. A parameter that has several names, because modules were copied or a weight is tied,
/// counts once and is listed with its names. Copy a module with clone() to copy its parameters.
std::string summary(Module& model, const Shape& input_shape);
/// Overload for a model whose sizes are known. The table has no shapes of results.
template <std::derived_from<Module> M>
std::string summary(M& model) {
  return detail::summary_of(model, [] {});
}
/// Overload for a model with any result, such as a tuple.
template <typename M>
requires requires(M& model, const Variable& x) { model(x); }
std::string summary(M& model, const Shape& input_shape) {
  return detail::summary_of(model, [&] { model(detail::sample_input(model, input_shape)); });
}
/// Overload for a model with any inputs: `nn::summary(model, words, mask)`.
template <std::derived_from<Module> M, std::derived_from<Variable>... Xs>
requires(sizeof...(Xs) > 0) std::string summary(M& model, const Xs&... inputs) {
  return detail::summary_of(model, [&] { model(inputs...); });
}

}  // namespace tapegrad::nn
