// Models as functions of their parameters.
//
//   VariableMap weights = nn::parameter_map(model);         // name -> Variable
//   weights["fc.weight"] = weights["fc.weight"] - 0.1 * step;
//   Variable y = nn::functional_call(model, weights, x);    // gradients flow to `weights`
//   VariableMap g = nn::per_sample_gradients(model, loss, x, target);   // g[name]: [batch, ...]
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "ops/binary.h"
#include "ops/view.h"

namespace tapegrad {

using VariableMap = std::map<std::string, Variable>;

namespace nn {

namespace detail {
VariableMap map_of(const NamedList<NamedVariable>& parameters);
VariableMap map_of(const TensorMap& state);
}  // namespace detail

/// Returns handles to the parameters, by name.
VariableMap parameter_map(const Module& model);

namespace utils {
/// Concatenates all values, in the order of parameters(), into a vector.
Variable parameters_to_vector(const std::vector<Variable>& parameters);
/// Writes the values of a vector to the parameters. Throws ShapeError for another number of values.
void vector_to_parameters(const Variable& vector, const std::vector<Variable>& parameters);
}  // namespace utils

/// Replaces a model's parameters and buffers by other Variables for a scope. Members tied to one
/// parameter are all replaced. Throws ArgumentError for a name that the model does not have, a
/// value of another shape, and different values of tied members. No other thread may call the model
/// during the scope.
class [[nodiscard]] ReplacedParameters {
 public:
  ReplacedParameters(Module& model, const VariableMap& values);
  ~ReplacedParameters();
  ReplacedParameters(const ReplacedParameters&) = delete;
  ReplacedParameters& operator=(const ReplacedParameters&) = delete;

 private:
  std::vector<std::pair<Variable*, Variable>> before_;
};

/// Returns model(xs...) with the given parameters. Parameters that are not named are the model's.
template <typename M, typename... Xs>
auto functional_call(M& model, const VariableMap& parameters, const Xs&... xs) {
  const ReplacedParameters replaced(model, parameters);
  return model(xs...);
}

/// Overloads with the parameters of another model: functional_call(model, other.named_parameters(),
/// x), functional_call(model, other.state_dict(), x).
template <typename M, std::same_as<NamedList<NamedVariable>> Named, typename... Xs>
auto functional_call(M& model, const Named& parameters, const Xs&... xs) {
  return functional_call(model, detail::map_of(parameters), xs...);
}
template <typename M, std::same_as<TensorMap> State, typename... Xs>
auto functional_call(M& model, const State& state, const Xs&... xs) {
  return functional_call(model, detail::map_of(state), xs...);
}

/// Overload with PyTorch's tuple of arguments: functional_call(model, weights, {x, mask}).
template <typename M, size_t n>
auto functional_call(M& model, const VariableMap& parameters, const Variable (&xs)[n]) {
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return functional_call(model, parameters, xs[i]...);
  }
  (std::make_index_sequence<n>());
}

/// Returns the gradients of loss(model(x[i]), target[i]) for each example i, stacked along
/// dimension 0. Each example has a batch dimension of 1. Takes a forward and a backward pass for
/// each example, so a batch of n costs up to n steps of a batch. A model with BatchNorm must be in
/// evaluation mode.
template <typename M, typename Loss>
VariableMap per_sample_gradients(M& model, Loss&& loss, const Variable& x, const Variable& target);

}  // namespace nn

namespace detail {
Variable stack_all(const std::vector<Variable>& parts);
}  // namespace detail

template <typename M, typename Loss>
VariableMap nn::per_sample_gradients(M& model, Loss&& loss, const Variable& x,
                                     const Variable& target) {
  std::vector<std::string> names;
  std::vector<Variable> parameters;
  for (auto& [name, parameter] : model.named_parameters())
    if (parameter.requires_grad()) {
      names.push_back(name);
      parameters.push_back(parameter);
    }
  std::vector<std::vector<Variable>> gradients(names.size());
  for (int64_t i = 0; i < x.size(0); ++i) {
    const Variable value = loss(model(narrow(x, 0, i, 1)), narrow(target, 0, i, 1));
    const std::vector<Variable> parts = grad(value, parameters, {}, {.allow_unused = true});
    for (size_t k = 0; k < parts.size(); ++k)
      gradients[k].push_back(parts[k].defined() ? parts[k] : 0.0 * parameters[k].detach());
  }
  VariableMap result;
  for (size_t k = 0; k < names.size(); ++k)
    result[names[k]] = tapegrad::detail::stack_all(gradients[k]);
  return result;
}

}  // namespace tapegrad
