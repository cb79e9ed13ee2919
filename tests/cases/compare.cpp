#include <cmath>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

double close(double a, double b) { return std::fabs(a - b) <= 1.5 + 0.25 * std::fabs(b); }

}  // namespace

void compare_cases(OpCases& cases) {
  constexpr Fill kNormal = Fill::kNormal, kIntegers = Fill::kIntegers;
  const std::vector<DType> floats{f64, f32, bf16, f16};
  const auto two = [&](const char* op, Fill a, Fill b, double (*f)(double, double),
                       const std::vector<DType>& dtypes) {
    for (const auto& [left, right] : {std::pair<Shape, Shape>{{3, 4}, {3, 4}}, {{3, 1, 5}, {4, 1}}})
      cases.push_back({.op = op,
                       .inputs = {Input{left, a}, Input{right, b}},
                       .reference = elementwise(f),
                       .tolerance = 0,
                       .dtypes = dtypes});
  };
  const auto one = [&](const char* op, double (*f)(double)) {
    cases.push_back({.op = op,
                     .inputs = {Input{{5, 7}, kNormal}},
                     .reference = elementwise(f),
                     .tolerance = 16,
                     .dtypes = floats});
  };
  two(
      "fmax", kNormal, kNormal, [](double a, double b) { return std::fmax(a, b); }, floats);
  two(
      "fmin", kNormal, kNormal, [](double a, double b) { return std::fmin(a, b); }, floats);
  two(
      "copysign", kNormal, kNormal, [](double a, double b) { return std::copysign(a, b); }, floats);
  const auto sides = [](double a, double b) { return a == 0 ? b : a > 0 ? 1.0 : 0.0; };
  two("heaviside", kIntegers, kNormal, sides, floats);
  two("nextafter", kNormal, kNormal, [](double a, double b) { return std::nextafter(a, b); },
      {f64});
  two("nextafter", kNormal, kNormal,
      [](double a, double b) { return double(std::nextafter(float(a), float(b))); }, {f32});
  one("signbit", [](double x) { return double(x < 0); });
  for (const char* op : {"isinf", "isposinf", "isneginf"}) one(op, [](double) { return 0.0; });
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

  // The tolerances are exact in every dtype, and no difference between inputs is close to them.
  const Attributes tolerances{{"rtol", 0.25}, {"atol", 1.5}};
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 4}, {3, 4}}, {{3, 1, 5}, {4, 1}}, {{}, {2, 3}}, {{7, 33}, {33}}};
  for (const auto& [left, right] : shapes)
    cases.push_back({.op = "isclose",
                     .inputs = {Input{left, kIntegers}, Input{right, kIntegers}},
                     .attributes = tolerances,
                     .reference = elementwise(close),
                     .tolerance = 0,
                     .same_bits = true,
                     .dtypes = {f64, f32, bf16, f16, i64, u8}});
  cases.push_back({.op = "allclose",
                   .inputs = {Input{{3, 4}, kIntegers}, Input{{3, 4}, kIntegers}},
                   .attributes = tolerances,
                   .reference = [](const std::vector<Array>& in) {
                     double all = 1;
                     for (size_t i = 0; i < in[0].values.size(); ++i)
                       all *= close(in[0].values[i], in[1].values[i]);
                     return Array{{}, {all}};
                   }});
}

}  // namespace tapegrad::testing
