#include <cmath>
#include <numbers>

#include "tests/op_case.h"

namespace tapegrad::testing {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double elu(double x) { return x > 0 ? x : std::exp(x) - 1; }
double hardsigmoid(double x) { return std::fmin(std::fmax(x / 6 + 0.5, 0.0), 1.0); }

}  // namespace

void activation_cases(OpCases& cases) {
  const auto add = [&](std::string op, double (*f)(double), Attributes attributes = {}) {
    cases.push_back({.op = std::move(op),
                     .inputs = {Input{{3, 6}}},
                     .attributes = std::move(attributes),
                     .reference = elementwise(f),
                     .same_bits = true});
  };
  add("sigmoid", sigmoid);
  add("relu", [](double x) { return std::fmax(x, 0.0); });
  add("relu6", [](double x) { return std::fmin(std::fmax(x, 0.0), 6.0); });
  add("leaky_relu", [](double x) { return x > 0 ? x : 0.01 * x; });
  add("leaky_relu", [](double x) { return x > 0 ? x : 0.25 * x; }, {{"negative_slope", 0.25}});
  add("elu", elu);
  add("elu", [](double x) { return x > 0 ? x : 0.5 * (std::exp(x) - 1); }, {{"alpha", 0.5}});
  add("selu", [](double x) {
    return 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * (std::exp(x) - 1));
  });
  add("gelu", [](double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); });
  add("gelu",
      [](double x) {
        const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
        return 0.5 * x * (1 + std::tanh(inner));
      },
      {{"approximate", "tanh"}});
  add("silu", [](double x) { return x * sigmoid(x); });
  add("mish", [](double x) { return x * std::tanh(std::log(1 + std::exp(x))); });
  add("softplus", [](double x) { return std::log(1 + std::exp(x)); });
  add("softplus", [](double x) { return 3 * x > 1.0 ? x : std::log(1 + std::exp(3 * x)) / 3; },
      {{"beta", 3.0}, {"threshold", 1.0}});
  add("hardsigmoid", hardsigmoid);
  add("hardswish", [](double x) { return x * hardsigmoid(x); });
  add("relu_", [](double x) { return std::fmax(x, 0.0); });
  add("sigmoid_", sigmoid);
}

}  // namespace tapegrad::testing
