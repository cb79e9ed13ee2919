// Gradient checks: compare the backward pass of any callable with central differences in float64,
// over the full Jacobian.
//
//   auto result = gradcheck([](const auto& in) { return tanh(in[0] * in[1]); }, {a, b},
//                           {.order = 2});
//   if (!result) std::cerr << result.message;
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/autograd/derivatives.h"
#include "core/base/error.h"
#include "core/tape/variable.h"

namespace tapegrad {

struct GradcheckOptions {
  int order = 1;      // 2 also checks the second derivatives, in the inputs and in the seed; 3 also
                      // checks the third, which is slow for more than a few elements
  double eps = 1e-6;  // half of the width of the difference
  double atol = 1e-5;
  double rtol = 1e-3;
};

struct GradcheckResult {
  bool ok = true;
  /// Names the input, the element and both values of the first mismatch; empty if ok.
  std::string message;

  /// Converts for `bool ok = gradcheck(f, x);`. A template, so that a result does not convert to a
  /// number.
  template <std::same_as<bool> B>
  operator B() const {
    return ok;
  }
};

using GradcheckFunction = std::function<std::vector<Variable>(const std::vector<Variable>&)>;

/// Checks f at the inputs. Inputs that require a gradient are varied; they must be float64, else
/// DTypeError is thrown. f must be deterministic; integer outputs are ignored. The inputs keep
/// their values.
GradcheckResult gradcheck_outputs(const GradcheckFunction& f, const std::vector<Variable>& inputs,
                                  GradcheckOptions options = {});

/// Overload for an f that returns one Variable or several. A generic lambda of one argument,
/// `[](const auto& in) {...}`, is a function of the list.
template <std::invocable<const std::vector<Variable>&> F>
GradcheckResult gradcheck(F f, const std::vector<Variable>& inputs, GradcheckOptions options = {}) {
  return gradcheck_outputs(
      [&](const std::vector<Variable>& in) -> std::vector<Variable> {
        if constexpr (std::is_convertible_v<std::invoke_result_t<F, decltype(in)>, Variable>)
          return {f(in)};
        else
          return f(in);
      },
      inputs, options);
}
/// Overloads for an f of one to eight Variables: gradcheck(f, x), gradcheck(f, {a, b}).
template <typename F>
requires(!std::invocable<F, const std::vector<Variable>&> &&
         detail::count_arguments<F, Variable>() > 0) GradcheckResult
    gradcheck(F f, const std::vector<Variable>& inputs, GradcheckOptions options = {}) {
  constexpr size_t kInputs = detail::count_arguments<F, Variable>();
  if (inputs.size() != kInputs)
    fail<ArgumentError>("gradcheck: a function of ", kInputs, kInputs == 1 ? " input" : " inputs",
                        " with ", inputs.size(), inputs.size() == 1 ? " input" : " inputs");
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return gradcheck([&](const std::vector<Variable>& in) { return f(in[I]...); }, inputs, options);
  }
  (std::make_index_sequence<kInputs>());
}
template <std::invocable<const Variable&> F>
requires(!std::invocable<F, const std::vector<Variable>&>) GradcheckResult
    gradcheck(F f, const Variable& x, GradcheckOptions options = {}) {
  return gradcheck(std::move(f), std::vector<Variable>{x}, options);
}

/// PyTorch's arguments: gradcheck(f, {a, b}, 1e-6, 1e-4).
template <typename F>
GradcheckResult gradcheck(F f, const std::vector<Variable>& inputs, double eps, double atol = 1e-5,
                          double rtol = 1e-3) {
  return gradcheck(std::move(f), inputs, GradcheckOptions{1, eps, atol, rtol});
}

/// Checks first and second derivatives; PyTorch's name.
template <typename F>
GradcheckResult gradgradcheck(F f, const std::vector<Variable>& inputs,
                              GradcheckOptions options = {}) {
  options.order = std::max(options.order, 2);
  return gradcheck(std::move(f), inputs, options);
}
template <std::invocable<const Variable&> F>
requires(!std::invocable<F, const std::vector<Variable>&>) GradcheckResult
    gradgradcheck(F f, const Variable& x, GradcheckOptions options = {}) {
  options.order = std::max(options.order, 2);
  return gradcheck(std::move(f), x, options);
}

}  // namespace tapegrad
