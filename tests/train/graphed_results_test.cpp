// Results of captured steps on the CPU: they belong to the caller, whatever later runs write.
#include <gtest/gtest.h>

#include "core/base/allocator.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/train/graphed_step_cases.h"
#include "train/graphed_step.h"

namespace tapegrad::testing {

Device step_device() { return cpu; }

namespace {

using Variables = std::vector<Variable>;
constexpr int64_t kLarge = int64_t(1) << 20;  // elements, 4 MiB
constexpr int kRuns = 5;                      // two of them record and plan

/// Keeps the results of all runs until the end and compares them with those of plain calls.
void expect_own_results(const GraphedStep::Function& fn, const Shape& shape) {
  GraphedStep step(fn, std::vector<Variable>{zeros(shape)}, {.warmup = 1});
  std::vector<Variables> expected, got;
  for (int i = 0; i < kRuns; ++i) {
    const Variable input[] = {randn(shape)};
    expected.push_back(fn(input));
    got.push_back(step.run_all(input));
    for (Variable& result : expected.back()) result = result.clone();
  }
  EXPECT_TRUE(step.is_graphed()) << step.reason();
  for (int i = 0; i < kRuns; ++i)
    for (size_t k = 0; k < expected[i].size(); ++k)
      EXPECT_EQ(got[i][k].to_vector<float>(), expected[i][k].to_vector<float>()) << i << " " << k;
}

TEST(GraphedResults, LaterRunsDoNotWriteToThem) {
  expect_own_results(
      [](GraphedStep::Inputs in) -> Variables {
        const Variable y = in[0] * 2.0 + 1.0;
        return {y, sum(y), y.slice(0, 0, 10), in[0]};
      },
      {kLarge});
}

TEST(GraphedResults, ViewsOfOneStorageAreSeparate) {
  const auto fn = [](GraphedStep::Inputs in) -> Variables {
    const Variable y = exp(in[0]);
    return {y, y, y.t(), y.view({-1})};
  };
  expect_own_results(fn, {512, 256});
  GraphedStep step(fn, std::vector<Variable>{zeros({512, 256})}, {.warmup = 1});
  for (int i = 0; i < kRuns; ++i) {
    Variables results = step.run_all({});
    results[0].fill_(5.0);
    for (size_t k = 1; k < results.size(); ++k) EXPECT_EQ(results[k].to_vector<float>()[7], 1);
  }
}

TEST(GraphedResults, ATransposedResultIsWhole) {
  expect_own_results([](GraphedStep::Inputs in) -> Variables { return {(in[0] + 1.0).t()}; },
                     {300, 500});
}

TEST(GraphedResults, PackedValuesAreUnpacked) {
  const Variable weight = randn({16, 16, 3, 3});
  expect_own_results(
      [&](GraphedStep::Inputs in) -> Variables {
        return {relu(conv2d(in[0], weight, {}, {.padding = 1}))};
      },
      {4, 16, 32, 32});
}

TEST(GraphedResults, StateOfTheStepIsCopied) {
  Variable state = zeros({kLarge}), weight = ones({kLarge}).requires_grad_();
  const Variable x = ones({kLarge});
  GraphedStep step(
      [&]() -> Variables {
        state.add_(x);
        weight.zero_grad();
        sum(weight * state).backward();
        return {state, weight.grad()};
      },
      {}, {.warmup = 1});
  std::vector<Variables> all;
  for (int i = 0; i < kRuns; ++i) all.push_back(step.run_all({}));
  EXPECT_TRUE(step.is_graphed()) << step.reason();
  for (int i = 0; i < kRuns; ++i)
    for (const Variable& result : all[size_t(i)]) EXPECT_EQ(result.to_vector<float>()[9], i + 1);
  EXPECT_EQ(weight.grad().to_vector<float>()[9], kRuns);
}

// item() keeps the step from being recorded.
TEST(GraphedResults, StateOfAStepThatIsNotRecordedIsCopied) {
  for (const bool enabled : {true, false}) {
    Variable state = zeros({3});
    GraphedStep step(
        [&](const Variable& x) {
          state.add_(x);
          return std::vector<Variable>{state, state[1], x * state[0].item()};
        },
        {}, {.enabled = enabled, .warmup = 1});
    std::vector<Variables> all;
    for (int i = 0; i < kRuns; ++i) all.push_back(step.run_all(Variables{ones({3})}));
    EXPECT_FALSE(step.is_graphed());
    for (int i = 0; i < kRuns; ++i)
      for (const Variable& result : all[size_t(i)])
        EXPECT_EQ(result.to_vector<float>()[0], float(i + 1));
  }
}

TEST(GraphedResults, TheCallerWritesToItsOwnMemory) {
  const Variable x = ones({kLarge});
  GraphedStep step([&] { return x * 3.0; }, {}, {.warmup = 1});
  for (int i = 0; i < kRuns; ++i) {
    Variable y = step();
    EXPECT_EQ(y.to_vector<float>()[3], 3);
    y.mul_(2.0);
    EXPECT_EQ(y.to_vector<float>()[3], 6);
  }
}

TEST(GraphedResults, ALargeResultIsInMemoryOnce) {
  const Variable x = ones({kLarge});
  const int64_t before = memory_stats().in_use;
  GraphedStep step([&] { return x * 3.0; }, {}, {.warmup = 1});
  for (int i = 0; i < kRuns; ++i) {
    const Variable y = step();
    if (i >= 2) {
      EXPECT_LT(memory_stats().in_use - before, 6 << 20);
    }
  }
  EXPECT_LT(memory_stats().in_use - before, 2 << 20);
}

TEST(GraphedResults, TheyOutliveTheStep) {
  const Variable x = ones({kLarge});
  Variable y;
  {
    GraphedStep step([&] { return x * 3.0; }, {}, {.warmup = 1});
    for (int i = 0; i < kRuns; ++i) y = step();
  }
  EXPECT_EQ(y.to_vector<float>()[3], 3);
  EXPECT_EQ((y + y).to_vector<float>()[kLarge - 1], 6);
}

}  // namespace
}  // namespace tapegrad::testing
