// Compares captured steps with the functions that they record.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/generator.h"
#include "ops/binary.h"
#include "tests/cases/operand.h"
#include "tests/train/graphed_step_cases.h"

namespace tapegrad::testing {

/// Compares the results of replays with those of the function, for four values of the inputs. The
/// description of the plan must contain `explained`.
inline void expect_same_bits(const GraphedStep::Function& fn, const std::vector<Variable>& inputs,
                             const std::string& explained = {}) {
  GraphedStep eager(fn, inputs, {.enabled = false}), step(fn, inputs, {.warmup = 1});
  for (int i = 0; i < 4; ++i) {
    manual_seed(uint64_t(i));
    const std::vector<Variable> expected = eager.run_all(inputs);
    manual_seed(uint64_t(i));
    const std::vector<Variable> got = step.run_all(inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_TRUE(same_bits(got[k].value(), expected[k].value()))
          << "call " << i << ", result " << k;
    for (Variable x : inputs)
      if (is_float(x.dtype())) mul_(x, 0.75);
  }
  EXPECT_TRUE(step.is_graphed()) << step.reason();
  if (!explained.empty()) expect_contains(step.explain(), explained.c_str());
}

}  // namespace tapegrad::testing
