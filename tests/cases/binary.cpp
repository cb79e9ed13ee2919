#include <algorithm>
#include <cmath>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

/// where(condition, a, b) with the three operands broadcast to the result's shape.
Array reference_where(const std::vector<Array>& inputs) {
  size_t rank = 0;
  for (const Array& input : inputs) rank = std::max(rank, size_t(input.shape.rank()));
  Shape shape = Dims::filled(int(rank), 1);
  for (const Array& input : inputs)
    for (int i = 0; i < input.shape.rank(); ++i) {
      int64_t& size = shape[int(rank) - input.shape.rank() + i];
      size = size == 1 ? input.shape[i] : size;
    }
  Array y{shape, {}};
  for_each_index(shape, [&](int64_t, const std::vector<int64_t>& index) {
    const auto at = [&](const Array& x) {
      std::vector<int64_t> here(index.end() - x.shape.rank(), index.end());
      for (int i = 0; i < x.shape.rank(); ++i)
        if (x.shape[i] == 1) here[i] = 0;
      return x.values[flat_index(x.shape, here)];
    };
    y.values.push_back(at(inputs[0]) != 0 ? at(inputs[1]) : at(inputs[2]));
  });
  return y;
}

}  // namespace

void binary_cases(OpCases& cases) {
  const auto both = [&](const char* op, Fill a, Fill b, double (*f)(double, double)) {
    const std::pair<Shape, Shape> shapes[] = {
        {{3, 4}, {3, 4}}, {{3, 1, 5}, {4, 1}}, {{}, {2, 3}}, {{4, 0}, {4, 1}}, {{7, 33}, {33}}};
    for (const auto& [left, right] : shapes)
      cases.push_back({.op = op,
                       .inputs = {Input{left, a}, Input{right, b}},
                       .reference = elementwise(f),
                       .same_bits = true});
  };
  constexpr Fill kNormal = Fill::kNormal, kPositive = Fill::kPositive;
  both("add", kNormal, kNormal, [](double a, double b) { return a + b; });
  both("sub", kNormal, kNormal, [](double a, double b) { return a - b; });
  both("mul", kNormal, kNormal, [](double a, double b) { return a * b; });
  both("div", kNormal, kPositive, [](double a, double b) { return a / b; });
  both("pow", kPositive, kNormal, [](double a, double b) { return std::pow(a, b); });
  both("maximum", kNormal, kNormal, [](double a, double b) { return a > b ? a : b; });
  both("minimum", kNormal, kNormal, [](double a, double b) { return a < b ? a : b; });
  both("atan2", kNormal, kNormal, [](double a, double b) { return std::atan2(a, b); });
  both("fmod", kNormal, kPositive, [](double a, double b) { return std::fmod(a, b); });

  constexpr Fill kIntegers = Fill::kIntegers;  // so that some elements are equal
  both("eq", kIntegers, kIntegers, [](double a, double b) { return double(a == b); });
  both("ne", kIntegers, kIntegers, [](double a, double b) { return double(a != b); });
  both("lt", kIntegers, kIntegers, [](double a, double b) { return double(a < b); });
  both("le", kIntegers, kIntegers, [](double a, double b) { return double(a <= b); });
  both("gt", kIntegers, kIntegers, [](double a, double b) { return double(a > b); });
  both("ge", kIntegers, kIntegers, [](double a, double b) { return double(a >= b); });
  both("logical_and", kIntegers, kIntegers, [](double a, double b) { return double(a && b); });
  both("logical_or", kIntegers, kIntegers, [](double a, double b) { return double(a || b); });
  both("logical_xor", kIntegers, kIntegers, [](double a, double b) { return double(!a != !b); });
  for (const Shape& shape : {Shape{3, 4}, Shape{0, 2}})
    cases.push_back({.op = "logical_not",
                     .inputs = {Input{shape, kIntegers}},
                     .reference = elementwise([](double x) { return double(!x); }),
                     .same_bits = true});

  const std::array<Shape, 3> where_shapes[] = {{Shape{3, 4}, Shape{3, 4}, Shape{3, 4}},
                                               {Shape{4, 1}, Shape{3, 1, 5}, Shape{}}};
  for (const auto& shapes : where_shapes)
    cases.push_back({.op = "where",
                     .inputs = {Input{shapes[0], Fill::kBool}, Input{shapes[1]}, Input{shapes[2]}},
                     .reference = reference_where,
                     .same_bits = true});

  // A product or quotient in place overwrites the value that the gradient of the other operand
  // needs.
  const auto in_place = [&](const char* op, Fill b, bool grad, double (*f)(double, double)) {
    for (const Shape& other : {Shape{3, 4}, Shape{4}, Shape{}})
      cases.push_back({.op = op,
                       .inputs = {Input{{3, 4}}, Input{.shape = other, .fill = b, .grad = grad}},
                       .reference = elementwise(f),
                       .same_bits = true});
  };
  in_place("add_", kNormal, true, [](double a, double b) { return a + b; });
  in_place("sub_", kNormal, true, [](double a, double b) { return a - b; });
  in_place("mul_", kNormal, false, [](double a, double b) { return a * b; });
  in_place("div_", kPositive, false, [](double a, double b) { return a / b; });
}

}  // namespace tapegrad::testing
