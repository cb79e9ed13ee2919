#include <cmath>
#include <numeric>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

double whole(int64_t value) { return double(value); }

}  // namespace

void bitwise_cases(OpCases& cases) {
  const std::vector<DType> integers{i64, i32, i16, i8};
  constexpr Fill kIntegers = Fill::kIntegers;
  const auto bits = [&](const char* op, double (*f)(double, double)) {
    const std::pair<Shape, Shape> shapes[] = {
        {{3, 4}, {3, 4}}, {{3, 1, 5}, {4, 1}}, {{}, {2, 3}}, {{7, 33}, {33}}};
    for (const auto& [left, right] : shapes)
      cases.push_back({.op = op,
                       .inputs = {Input{left, kIntegers}, Input{right, kIntegers}},
                       .reference = elementwise(f),
                       .tolerance = 0,
                       .same_bits = true,
                       .dtypes = integers});
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
  for (const auto& [left, right] : {std::pair<Shape, Shape>{{3, 4}, {3, 4}}, {{3, 1, 5}, {4, 1}}})
    cases.push_back({.op = "lcm",
                     .inputs = {Input{left, kIntegers}, Input{right, kIntegers}},
                     .reference = elementwise([](double a, double b) {
                       return whole(std::lcm(int64_t(a), int64_t(b)));
                     }),
                     .tolerance = 0,
                     .dtypes = {i64, i32}});
}

}  // namespace tapegrad::testing
