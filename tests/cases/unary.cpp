#include <cmath>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

}  // namespace

void unary_cases(OpCases& cases) {
  const auto add = [&](std::string op, double (*f)(double), Fill fill = Fill::kNormal,
                       Shape shape = {3, 5}) {
    cases.push_back({.op = std::move(op),
                     .inputs = {Input{shape, fill}},
                     .reference = elementwise(f),
                     .same_bits = true});
  };
  add("neg", [](double x) { return -x; });
  add("neg", [](double x) { return -x; }, Fill::kIntegers, {});
  add("abs", [](double x) { return std::fabs(x); });
  add("sign", sign_of);
  add("exp", [](double x) { return std::exp(x); });
  add("exp", [](double x) { return std::exp(x); }, Fill::kNormal, {2, 3, 7});
  add("expm1", [](double x) { return std::expm1(x); });
  add(
      "log", [](double x) { return std::log(x); }, Fill::kPositive);
  add(
      "log1p", [](double x) { return std::log1p(x); }, Fill::kPositive);
  add(
      "log2", [](double x) { return std::log2(x); }, Fill::kPositive);
  add(
      "sqrt", [](double x) { return std::sqrt(x); }, Fill::kPositive);
  add(
      "rsqrt", [](double x) { return 1 / std::sqrt(x); }, Fill::kPositive);
  add("square", [](double x) { return x * x; });
  add(
      "reciprocal", [](double x) { return 1 / x; }, Fill::kPositive);
  add("sin", [](double x) { return std::sin(x); });
  add("cos", [](double x) { return std::cos(x); });
  add(
      "tan", [](double x) { return std::tan(x); }, Fill::kUnit);
  add("tanh", [](double x) { return std::tanh(x); });
  add("erf", [](double x) { return std::erf(x); });
  add("floor", [](double x) { return std::floor(x); });
  add("ceil", [](double x) { return std::ceil(x); });
  add("round", [](double x) { return std::nearbyint(x); });
  add("trunc", [](double x) { return std::trunc(x); });
  add("step", [](double x) { return x > 0 ? 1.0 : 0.0; });
  add("isnan", [](double) { return 0.0; });
  add("isfinite", [](double) { return 1.0; });
  add("neg_", [](double x) { return -x; });
  add("exp_", [](double x) { return std::exp(x); });
  add(
      "sqrt_", [](double x) { return std::sqrt(x); }, Fill::kPositive);
  add("tanh_", [](double x) { return std::tanh(x); });

  // 0.75 and -0.5 are exact in every dtype.
  for (const char* op : {"clamp", "clamp_"}) {
    cases.push_back(
        {.op = op,
         .inputs = {Input{{4, 5}}},
         .attributes = {{"min", -0.5}, {"max", 0.75}},
         .reference = elementwise([](double x) { return std::fmin(std::fmax(x, -0.5), 0.75); }),
         .same_bits = true});
    cases.push_back({.op = op,
                     .inputs = {Input{{4, 5}}},
                     .attributes = {{"min", int64_t(0)}},
                     .reference = elementwise([](double x) { return std::fmax(x, 0.0); }),
                     .same_bits = true});
  }
}

}  // namespace tapegrad::testing
