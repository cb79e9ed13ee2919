#include <cmath>
#include <numbers>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

/// Applies f to three operands, each of a common shape or a single number.
Reference ternary(double (*f)(double, double, double)) {
  return [f](const std::vector<Array>& in) {
    Array y = in[0];
    const auto at = [](const Array& x, size_t i) { return x.values[x.values.size() == 1 ? 0 : i]; };
    for (size_t i = 0; i < y.values.size(); ++i)
      y.values[i] = f(y.values[i], at(in[1], i), at(in[2], i));
    return y;
  };
}

double floored(double a, double b) { return std::floor(a / b); }

}  // namespace

void arithmetic_cases(OpCases& cases) {
  constexpr Fill kNormal = Fill::kNormal, kPositive = Fill::kPositive, kUnit = Fill::kUnit;
  const std::vector<DType> floats{f64, f32, bf16, f16};
  const auto add = [&](const char* op, Fill a, Fill b, double (*f)(double, double),
                       const std::vector<DType>& dtypes) {
    const std::pair<Shape, Shape> shapes[] = {
        {{3, 4}, {3, 4}}, {{3, 1, 5}, {4, 1}}, {{}, {2, 3}}, {{7, 33}, {33}}};
    for (const auto& [left, right] : shapes)
      cases.push_back({.op = op,
                       .inputs = {Input{left, a}, Input{right, b}},
                       .reference = elementwise(f),
                       .tolerance = 4,
                       .same_bits = true,
                       .dtypes = dtypes});
  };
  add(
      "xlogy", kNormal, kPositive, [](double a, double b) { return a * std::log(b); }, floats);
  add(
      "logaddexp", kNormal, kNormal,
      [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }, floats);
  add(
      "hypot", kNormal, kNormal, [](double a, double b) { return std::sqrt(a * a + b * b); },
      floats);
  add(
      "remainder", kNormal, kPositive, [](double a, double b) { return a - b * floored(a, b); },
      floats);
  add("floor_divide", kNormal, kPositive, floored, floats);

  const auto three = [&](const char* op, Fill last, const Shape& shape,
                         const Attributes& attributes, double (*f)(double, double, double)) {
    cases.push_back({.op = op,
                     .inputs = {Input{{3, 5}}, Input{{3, 5}}, Input{shape, last}},
                     .attributes = attributes,
                     .reference = ternary(f),
                     .same_bits = true});
  };
  for (const Shape& shape : {Shape{3, 5}, Shape{}}) {
    three("lerp", kNormal, shape, {}, [](double a, double b, double w) { return a + w * (b - a); });
    three("addcmul", kNormal, shape, {{"value", 0.5}},
          [](double x, double a, double b) { return x + 0.5 * a * b; });
    three("addcdiv", kPositive, shape, {{"value", int64_t(2)}},
          [](double x, double a, double b) { return x + 2 * a / b; });
  }

  const auto two = [&](const char* op, Fill b, double (*f)(double, double), double tolerance) {
    for (const auto& [left, right] : {std::pair<Shape, Shape>{{3, 4}, {3, 4}}, {{3, 1, 5}, {4, 1}}})
      cases.push_back({.op = op,
                       .inputs = {Input{left, kNormal}, Input{right, b}},
                       .reference = elementwise(f),
                       .tolerance = tolerance,
                       .dtypes = floats});
  };
  const auto one = [&](const char* op, Fill fill, double (*f)(double)) {
    cases.push_back({.op = op,
                     .inputs = {Input{{5, 7}, fill}},
                     .reference = elementwise(f),
                     .tolerance = 16,
                     .dtypes = floats});
  };
  two(
      "ldexp", kNormal, [](double a, double b) { return a * std::exp2(b); }, 64);
  two(
      "logaddexp2", kNormal,
      [](double a, double b) { return std::log2(std::exp2(a) + std::exp2(b)); }, 64);
  two(
      "xlog1py", kPositive, [](double a, double b) { return a * std::log1p(b); }, 16);
  for (const auto& [left, right] : {std::pair<Shape, Shape>{{3, 4}, {3, 4}}, {{3, 1, 5}, {4, 1}}})
    cases.push_back({.op = "float_power",
                     .inputs = {Input{left, kPositive}, Input{right, kNormal}},
                     .reference = elementwise([](double a, double b) { return std::pow(a, b); }),
                     .tolerance = 16,
                     .dtypes = {f64, f32}});
  one("log10", kPositive, [](double x) { return std::log10(x); });
  one("exp2", kNormal, [](double x) { return std::exp2(x); });
  one("deg2rad", kNormal, [](double x) { return x * std::numbers::pi / 180; });
  one("rad2deg", kNormal, [](double x) { return x * 180 / std::numbers::pi; });
  cases.push_back({.op = "logit",
                   .inputs = {Input{{5, 7}, kUnit}},
                   .reference = elementwise([](double x) { return std::log(x / (1 - x)); }),
                   .tolerance = 256,
                   .dtypes = floats});
  cases.push_back({.op = "logit",  // the bounds cross: PyTorch tests the lower one first
                   .inputs = {Input{{5, 7}, kUnit}},
                   .attributes = {{"eps", 0.625}},
                   .reference = elementwise([](double x) {
                     x = x < 0.625 ? 0.625 : 0.375;
                     return std::log(x / (1 - x));
                   }),
                   .tolerance = 256,
                   .dtypes = floats});
  cases.push_back({.op = "logit",
                   .inputs = {Input{{5, 7}, kUnit}},
                   .attributes = {{"eps", 0.25}},
                   .reference = elementwise([](double x) {
                     x = std::fmin(std::fmax(x, 0.25), 0.75);
                     return std::log(x / (1 - x));
                   }),
                   .tolerance = 256,
                   .dtypes = floats});
}

}  // namespace tapegrad::testing
