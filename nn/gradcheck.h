// Gradient checks of a module, with respect to its inputs and its parameters.
//
//   auto result = nn::gradcheck(model.to(f64), {x}, {.order = 2});
#pragma once

#include "core/autograd/gradcheck.h"
#include "nn/module.h"

namespace tapegrad::nn {

/// Calls the module with `parameters` in place of its own (in the order of named_parameters()), for
/// the duration of the call. Throws ArgumentError if their number differs.
template <typename M, typename... Inputs>
requires std::derived_from<M, Module>
auto call_with(M& module, const std::vector<Variable>& parameters, const Inputs&... inputs);

/// Checks a module of one input. Perturbs its parameters and the inputs that require a gradient;
/// all must be float64. The module must be deterministic: call eval() if it has Dropout.
GradcheckResult gradcheck(Module& module, const std::vector<Variable>& inputs,
                          GradcheckOptions options = {});

namespace detail {

/// Replaces a module's parameters, and restores them in the destructor.
class Substitution {
 public:
  Substitution(Module& module, const std::vector<Variable>& parameters);
  ~Substitution();
  Substitution(const Substitution&) = delete;
  Substitution& operator=(const Substitution&) = delete;

 private:
  Module& module_;
  std::vector<Variable> before_, now_;
};

}  // namespace detail

template <typename M, typename... Inputs>
requires std::derived_from<M, Module>
auto call_with(M& module, const std::vector<Variable>& parameters, const Inputs&... inputs) {
  const detail::Substitution substitution(module, parameters);
  return module(inputs...);
}

}  // namespace tapegrad::nn
