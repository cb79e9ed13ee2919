#include <cmath>
#include <numbers>
#include <numeric>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {

void elementwise_cases(OpCases& cases) {
  constexpr Fill kNormal = Fill::kNormal, kPositive = Fill::kPositive, kUnit = Fill::kUnit;
  const std::vector<DType> floats{f64, f32, bf16, f16};
  const auto two = [&](const char* op, Fill a, Fill b, double (*f)(double, double),
                       const std::vector<DType>& dtypes, double tolerance = 16) {
    for (const auto& [left, right] : {std::pair<Shape, Shape>{{3, 4}, {3, 4}}, {{3, 1, 5}, {4, 1}}})
      cases.push_back({.op = op,
                       .inputs = {Input{left, a}, Input{right, b}},
                       .reference = elementwise(f),
                       .tolerance = tolerance,
                       .dtypes = dtypes});
  };
  const auto one = [&](const char* op, Fill fill, double (*f)(double)) {
    cases.push_back({.op = op,
                     .inputs = {Input{{5, 7}, fill}},
                     .reference = elementwise(f),
                     .tolerance = 16,
                     .dtypes = floats});
  };
  two(
      "fmax", kNormal, kNormal, [](double a, double b) { return std::fmax(a, b); }, floats, 0);
  two(
      "fmin", kNormal, kNormal, [](double a, double b) { return std::fmin(a, b); }, floats, 0);
  two(
      "copysign", kNormal, kNormal, [](double a, double b) { return std::copysign(a, b); }, floats,
      0);
  two(
      "ldexp", kNormal, kNormal, [](double a, double b) { return a * std::exp2(b); }, floats, 64);
  two("float_power", kPositive, kNormal, [](double a, double b) { return std::pow(a, b); },
      {f64, f32});
  two(
      "logaddexp2", kNormal, kNormal,
      [](double a, double b) { return std::log2(std::exp2(a) + std::exp2(b)); }, floats, 64);
  two(
      "xlog1py", kNormal, kPositive, [](double a, double b) { return a * std::log1p(b); }, floats);
  const auto sides = [](double a, double b) { return a == 0 ? b : a > 0 ? 1.0 : 0.0; };
  two("heaviside", Fill::kIntegers, kNormal, sides, floats, 0);
  two(
      "nextafter", kNormal, kNormal, [](double a, double b) { return std::nextafter(a, b); }, {f64},
      0);
  two(
      "nextafter", kNormal, kNormal,
      [](double a, double b) { return double(std::nextafter(float(a), float(b))); }, {f32}, 0);
  two(
      "lcm", Fill::kIntegers, Fill::kIntegers,
      [](double a, double b) { return double(std::lcm(int64_t(a), int64_t(b))); }, {i64, i32}, 0);

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
  one("signbit", kNormal, [](double x) { return double(x < 0); });
  for (const char* op : {"isinf", "isposinf", "isneginf"})
    one(op, kNormal, [](double) { return 0.0; });
  for (const bool invert : {false, true})
    cases.push_back({.op = "isin",
                     .inputs = {Input{{3, 4}, Fill::kIntegers}, Input{{3}, Fill::kIntegers}},
                     .attributes = {{"invert", invert}},
                     .reference =
                         [invert](const std::vector<Array>& in) {
                           Array y = in[0];
                           for (double& value : y.values) {
                             bool found = false;
                             for (const double other : in[1].values) found |= value == other;
                             value = found != invert;
                           }
                           return y;
                         },
                     .dtypes = {f32, i64}});
}

}  // namespace tapegrad::testing
