#include <cmath>
#include <numeric>

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

double whole(int64_t value) { return double(value); }
double floored(double a, double b) { return std::floor(a / b); }
double close(double a, double b) { return std::fabs(a - b) <= 1.5 + 0.25 * std::fabs(b); }

}  // namespace

void arithmetic_cases(OpCases& cases) {
  constexpr Fill kNormal = Fill::kNormal, kPositive = Fill::kPositive;
  const std::vector<DType> floats{f64, f32, bf16, f16};
  const auto add = [&](const char* op, Fill a, Fill b, double (*f)(double, double),
                       const std::vector<DType>& dtypes, double tolerance = 4,
                       const Attributes& attributes = {}) {
    const std::pair<Shape, Shape> shapes[] = {
        {{3, 4}, {3, 4}}, {{3, 1, 5}, {4, 1}}, {{}, {2, 3}}, {{7, 33}, {33}}};
    for (const auto& [left, right] : shapes)
      cases.push_back({.op = op,
                       .inputs = {Input{left, a}, Input{right, b}},
                       .attributes = attributes,
                       .reference = elementwise(f),
                       .tolerance = tolerance,
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

  const std::vector<DType> integers{i64, i32, i16, i8};
  constexpr Fill kIntegers = Fill::kIntegers;
  const auto bits = [&](const char* op, double (*f)(double, double)) {
    add(op, kIntegers, kIntegers, f, integers, 0);
  };
  bits("bitwise_and", [](double a, double b) { return whole(int64_t(a) & int64_t(b)); });
  bits("bitwise_or", [](double a, double b) { return whole(int64_t(a) | int64_t(b)); });
  bits("bitwise_xor", [](double a, double b) { return whole(int64_t(a) ^ int64_t(b)); });
  bits("bitwise_left_shift",
       [](double a, double b) { return b < 0 ? 0 : a * whole(int64_t(1) << int64_t(b)); });
  bits("bitwise_right_shift", [](double a, double b) {
    return b < 0 ? (a < 0 ? -1 : 0) : std::floor(a / whole(int64_t(1) << int64_t(b)));
  });
  bits("gcd", [](double a, double b) { return whole(std::gcd(int64_t(a), int64_t(b))); });
  cases.push_back({.op = "bitwise_not",
                   .inputs = {Input{{3, 4}, kIntegers}},
                   .reference = elementwise([](double x) { return -x - 1; }),
                   .same_bits = true,
                   .dtypes = integers});

  // The tolerances are exact in every dtype, and no difference between inputs is close to them.
  const Attributes tolerances{{"rtol", 0.25}, {"atol", 1.5}};
  add("isclose", kIntegers, kIntegers, close, {f64, f32, bf16, f16, i64, u8}, 0, tolerances);
  cases.push_back({.op = "allclose",
                   .inputs = {Input{{3, 4}, kIntegers}, Input{{3, 4}, kIntegers}},
                   .attributes = tolerances,
                   .reference = [](const std::vector<Array>& in) {
                     double all = 1;
                     for (size_t i = 0; i < in[0].values.size(); ++i)
                       all *= close(in[0].values[i], in[1].values[i]);
                     return Array{{}, {all}};
                   }});

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
}

}  // namespace tapegrad::testing
