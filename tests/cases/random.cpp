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
  cases.push_back({.op = "normal", .inputs = {Input{{3, 4}}, Input{{4}, Fill::kPositive}}});
  cases.push_back(
      {.op = "uniform", .inputs = {Input{{3, 4}, Fill::kUnit}, Input{{4}, Fill::kAboveOne}}});
  cases.push_back({.op = "exponential_", .inputs = {Input{{4, 5}}}, .same_bits = true});
  cases.push_back({.op = "poisson", .inputs = {Input{{4, 5}, Fill::kPositive}}, .same_bits = true});
  cases.push_back({.op = "multinomial",
                   .inputs = {Input{{3, 5}, Fill::kPositive}},
                   .attributes = {{"num_samples", int64_t(3)}}});
  cases.push_back({.op = "multinomial",
                   .inputs = {Input{{4}, Fill::kPositive}},
                   .attributes = {{"num_samples", int64_t(6)}, {"replacement", true}}});
  for (const int64_t dim : {-1, 0})
    cases.push_back({.op = "gumbel_softmax",
                     .inputs = {Input{{3, 4}}},
                     .attributes = {{"tau", 0.75}, {"dim", dim}},
                     .tolerance = 16});
}

}  // namespace tapegrad::testing
