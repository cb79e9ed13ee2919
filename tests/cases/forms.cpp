#include <cmath>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {

void forms_cases(OpCases& cases) {
  const auto add = [&](const char* op, double (*f)(double, double)) {
    for (const Shape& bound : {Shape{}, Shape{4}})
      cases.push_back({.op = op,
                       .inputs = {Input{{3, 4}}, Input{bound}},
                       .reference = elementwise(f),
                       .tolerance = 0});
  };
  add("clamp_min", [](double x, double bound) { return std::fmax(x, bound); });
  add("clamp_max", [](double x, double bound) { return std::fmin(x, bound); });
  cases.push_back({.op = "rand_like", .inputs = {Input{{3, 4}}}});
  cases.push_back({.op = "randn_like", .inputs = {Input{{3, 4}}}});
  cases.push_back({.op = "logspace",
                   .attributes = {{"start", 0.0}, {"end", 2.0}, {"steps", int64_t(3)}},
                   .reference =
                       [](const std::vector<Array>&) {
                         return Array{{3}, {1, 10, 100}};
                       },
                   .dtypes = {f64}});
}

}  // namespace tapegrad::testing
