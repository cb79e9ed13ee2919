#include <cmath>
#include <numbers>

#include "tests/cases/op_case.h"
#include "tests/cases/references.h"

namespace tapegrad::testing {
namespace {

double elu(double x) { return x > 0 ? x : std::exp(x) - 1; }
double log_sigmoid(double x) { return std::fmin(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }
double hardsigmoid(double x) { return std::fmin(std::fmax(x / 6 + 0.5, 0.0), 1.0); }

/// Returns x where x > 0, else x times the weight: the only weight, or the weight of the channel.
Array prelu(const std::vector<Array>& in) {
  Array y = in[0];
  for_each_index(y.shape, [&](int64_t flat, const std::vector<int64_t>& index) {
    const double weight = in[1].values[in[1].values.size() == 1 ? 0 : size_t(index[1])];
    if (!(y.values[flat] > 0)) y.values[flat] *= weight;
  });
  return y;
}

Reference glu(int dim) {
  return [dim](const std::vector<Array>& in) {
    Array y{in[0].shape, {}};
    y.shape[dim] /= 2;
    for_each_index(y.shape, [&](int64_t, std::vector<int64_t> index) {
      const double a = in[0].values[flat_index(in[0].shape, index)];
      index[dim] += y.shape[dim];
      y.values.push_back(a * sigmoid(in[0].values[flat_index(in[0].shape, index)]));
    });
    return y;
  };
}

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
  add("logsigmoid", log_sigmoid);
  add("hardtanh", [](double x) { return std::fmin(std::fmax(x, -1.0), 1.0); });
  add("hardtanh", [](double x) { return std::fmin(std::fmax(x, -0.5), 1.75); },
      {{"min_val", -0.5}, {"max_val", 1.75}});
  add("celu", elu);
  add("celu", [](double x) { return x > 0 ? x : 0.75 * (std::exp(x / 0.75) - 1); },
      {{"alpha", 0.75}});
  add("threshold", [](double x) { return x > 0.25 ? x : -3.0; },
      {{"threshold", 0.25}, {"value", -3.0}});
  add("softshrink", [](double x) { return x > 0.5 ? x - 0.5 : x < -0.5 ? x + 0.5 : 0.0; });
  add("softshrink", [](double x) { return x > 0.75    ? x - 0.75
                                          : x < -0.75 ? x + 0.75
                                                      : 0.0; },
      {{"lambd", 0.75}});
  add("hardshrink", [](double x) { return std::abs(x) > 0.5 ? x : 0.0; });
  add("hardshrink", [](double x) { return std::abs(x) > 1.0 ? x : 0.0; }, {{"lambd", 1.0}});
  add("tanhshrink", [](double x) { return x - std::tanh(x); });
  add("softsign", [](double x) { return x / (1 + std::abs(x)); });
  for (const Shape& shape : {Shape{3, 4}, Shape{2, 4, 3}, Shape{6}})
    for (const Shape& weight : {Shape{1}, Shape{4}})
      if (shape.rank() > 1 || weight[0] == 1)
        cases.push_back(
            {.op = "prelu", .inputs = {Input{shape}, Input{weight}}, .reference = prelu});
  cases.push_back({.op = "glu", .inputs = {Input{{3, 6}}}, .reference = glu(1)});
  cases.push_back({.op = "glu",
                   .inputs = {Input{{2, 4, 3}}},
                   .attributes = {{"dim", int64_t(1)}},
                   .reference = glu(1)});
  add("relu_", [](double x) { return std::fmax(x, 0.0); });
  add("sigmoid_", sigmoid);
}

}  // namespace tapegrad::testing
