#include "tests/cases/op_case.h"

namespace tapegrad::testing {

// tests/ops/noise_test.cpp tests the distributions.
void noise_cases(OpCases& cases) {
  const auto same = elementwise([](double x) { return x; });
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
  for (const auto& [op, shape] :
       std::vector<std::pair<std::string, Shape>>{{"dropout1d", {4, 3, 2}},
                                                  {"dropout1d", {4, 3}},
                                                  {"dropout2d", {3, 4, 2, 2}},
                                                  {"dropout3d", {3, 4, 2, 1, 2}},
                                                  {"alpha_dropout", {4, 5}},
                                                  {"feature_alpha_dropout", {3, 4, 2}}}) {
    cases.push_back({.op = op, .inputs = {Input{shape}}, .attributes = {{"p", 0.4}}});
    cases.push_back({.op = op,
                     .inputs = {Input{shape}},
                     .attributes = {{"p", 1.0}},
                     .reference = elementwise([](double) { return 0.0; })});
    cases.push_back({.op = op,
                     .inputs = {Input{shape}},
                     .attributes = {{"training", false}},
                     .reference = same});
  }
  for (const int64_t dim : {-1, 0})
    cases.push_back({.op = "gumbel_softmax",
                     .inputs = {Input{{3, 4}}},
                     .attributes = {{"tau", 0.75}, {"dim", dim}},
                     .tolerance = 16});
}

}  // namespace tapegrad::testing
