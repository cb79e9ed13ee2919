#include "tests/cases/op_case.h"

namespace tapegrad::testing {

// tests/ops/random_test.cpp tests the distributions.
void random_cases(OpCases& cases) {
  const std::vector<int64_t> size{3, 4};
  cases.push_back({.op = "rand", .attributes = {{"size", size}}});
  cases.push_back({.op = "randn", .attributes = {{"size", size}, {"dtype", "float64"}}});
  cases.push_back({.op = "randint",
                   .attributes = {{"low", int64_t(-3)}, {"high", int64_t(9)}, {"size", size}}});
  cases.push_back({.op = "randperm", .attributes = {{"n", int64_t(10)}}});
  cases.push_back({.op = "bernoulli", .inputs = {Input{{4, 5}, Fill::kUnit}}, .same_bits = true});
  cases.push_back({.op = "uniform_", .inputs = {Input{{4, 5}}}, .same_bits = true});
  cases.push_back({.op = "normal_", .inputs = {Input{{4, 5}}}, .same_bits = true});
  cases.push_back({.op = "dropout", .inputs = {Input{{5, 7}}}, .same_bits = true});
  cases.push_back({.op = "dropout",
                   .inputs = {Input{{5, 7}}},
                   .attributes = {{"p", 1.0}},
                   .reference = elementwise([](double) { return 0.0; }),
                   .same_bits = true});
  cases.push_back({.op = "dropout",
                   .inputs = {Input{{5, 7}}},
                   .attributes = {{"training", false}},
                   .reference = elementwise([](double x) { return x; }),
                   .same_bits = true});
  cases.push_back(
      {.op = "dropout_add", .inputs = {Input{{5, 7}}, Input{{5, 7}}}, .same_bits = true});
  cases.push_back({.op = "dropout_add",
                   .inputs = {Input{{5, 7}}, Input{{5, 7}}},
                   .attributes = {{"p", 1.0}},
                   .reference = elementwise([](double, double residual) { return residual; }),
                   .same_bits = true});
  cases.push_back({.op = "dropout_add",
                   .inputs = {Input{{5, 7}}, Input{{7}}},
                   .attributes = {{"training", false}},
                   .reference = elementwise([](double x, double residual) { return x + residual; }),
                   .same_bits = true});
}

}  // namespace tapegrad::testing
