#include "tests/cases/op_case.h"

namespace tapegrad::testing {

// tests/ops/dropout_test.cpp tests the distributions.
void dropout_cases(OpCases& cases) {
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
                     .reference = elementwise([](double x) { return x; })});
  }
}

}  // namespace tapegrad::testing
