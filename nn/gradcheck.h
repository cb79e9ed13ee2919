// Gradient checks of a whole module: in its inputs and in its parameters.
//
//   auto result = nn::gradcheck(model.to(f64), {x}, {.order = 2});
#pragma once

#include "core/autograd/gradcheck.h"
#include "nn/module.h"

namespace tapegrad::nn {

/// The module's forward with other variables in the place of its parameters (in the order of
/// named_parameters()), for as long as the call takes. ArgumentError when their number differs.
template <typename M, typename... Inputs>
requires std::derived_from<M, Module>
auto call_with(M& module, const std::vector<Variable>& parameters, const Inputs&... inputs);

/// Checks a module of one input. Its parameters, and those inputs that require a gradient, are
/// varied; all must be float64. The module must be deterministic: call eval() when it has Dropout.
GradcheckResult gradcheck(Module& module, const std::vector<Variable>& inputs,
                          GradcheckOptions options = {});

namespace detail {

/// Puts variables in the place of a module's parameters, and back at the end.
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
