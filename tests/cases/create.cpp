#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// Returns f(i) for each element i in row-major order.
Reference counted(const Shape& shape, double (*f)(int64_t)) {
  return [shape, f](const std::vector<Array>&) {
    Array y{shape, {}};
    for (int64_t i = 0; i < numel(shape); ++i) y.values.push_back(f(i));
    return y;
  };
}

}  // namespace

void create_cases(OpCases& cases) {
  const auto add = [&](const char* op, const Attributes& attributes, const Reference& reference) {
    cases.push_back({.op = op, .attributes = attributes, .reference = reference, .dtypes = {f32}});
  };
  const auto add_like = [&](const char* op, const Attributes& attributes,
                            const Reference& reference) {
    cases.push_back({.op = op,
                     .inputs = {Input{{2, 3}}},
                     .attributes = attributes,
                     .reference = reference,
                     .tolerance = 0,
                     .same_bits = !std::string(op).starts_with("empty"),
                     .dtypes = {f64, f32, bf16, f16, i64, u8}});
  };
  const auto zero = [](int64_t) { return 0.0; };
  const auto one = [](int64_t) { return 1.0; };
  const auto three = [](int64_t) { return 3.0; };
  const Attributes size{{"size", Index{2, 3}}};
  add("tensor", {{"data", Index{0, 1, 2}}}, counted({3}, [](int64_t i) { return double(i); }));
  add("scalar", {{"value", int64_t(3)}}, counted({}, three));
  add("zeros", size, counted({2, 3}, zero));
  add("ones", size, counted({2, 3}, one));
  add("full", {{"size", Index{2, 3}}, {"fill_value", 3.0}}, counted({2, 3}, three));
  add("empty", size, {});
  add_like("zeros_like", {}, counted({2, 3}, zero));
  add_like("ones_like", {}, counted({2, 3}, one));
  add_like("full_like", {{"fill_value", int64_t(3)}}, counted({2, 3}, three));
  add("arange", {{"start", int64_t(2)}, {"end", int64_t(9)}, {"step", int64_t(3)}},
      counted({3}, [](int64_t i) { return 2.0 + 3.0 * double(i); }));
  add("arange", {{"start", 1.0}, {"end", 0.0}, {"step", -0.3}},
      counted({4}, [](int64_t i) { return 1.0 - 0.3 * double(i); }));
  add("linspace", {{"start", -1.0}, {"end", 2.0}, {"steps", int64_t(7)}},
      counted({7}, [](int64_t i) { return -1.0 + 0.5 * double(i); }));
  add("eye", {{"n", int64_t(2)}, {"m", int64_t(3)}},
      counted({2, 3}, [](int64_t i) { return i % 4 == 0 ? 1.0 : 0.0; }));
  // An empty tensor, since elements would be uninitialised.
  cases.push_back({.op = "empty_like", .inputs = {Input{{0, 3}}}, .dtypes = {f32}});
}

}  // namespace tapegrad::testing
