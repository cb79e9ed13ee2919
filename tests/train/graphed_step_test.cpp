// GraphedStep without a GPU: it runs the function.
#include "train/graphed_step.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"

namespace tapegrad {
namespace {

std::vector<double> losses(bool graph) {
  manual_seed(6);
  const Variable x = randn({16, 3}), y = randn({16});
  const Variable w = Variable(randn({3}).value()).requires_grad_();
  optim::Adam adam({w}, 0.1);
  GraphedStep step(
      [&](const Variable& inputs, const Variable& targets) {
        adam.zero_grad();
        const Variable loss = mse_loss(sum(dropout(inputs, 0.2) * w, {1}), targets);
        loss.backward();
        adam.step();
        return loss;
      },
      {x, y}, {.enabled = graph});
  std::vector<double> values;
  for (int i = 0; i < 10; ++i) {
    const Variable loss = i % 2 == 0 ? step() : step(x, y);
    EXPECT_FALSE(loss.requires_grad());
    values.push_back(loss.item());
  }
  EXPECT_FALSE(step.is_graphed());
  EXPECT_EQ(step.reason(), graph ? "it runs on the CPU" : "it is not enabled");
  return values;
}

TEST(GraphedStep, RunsOnTheCpu) {
  const std::vector<double> values = losses(true);
  EXPECT_EQ(values, losses(false));
  EXPECT_LT(values.back(), values.front());
}

TEST(GraphedStep, TakesFunctionsOfManyKinds) {
  const Variable a = full({}, 2.0), b = full({}, 3.0), c = full({}, 4.0);
  EXPECT_EQ(GraphedStep([&] { return a; })().item(), 2);
  EXPECT_EQ(GraphedStep([](const Variable& x) { return x * 2.0; })(a).item(), 4);
  EXPECT_EQ(GraphedStep([](auto& x, auto& y, auto& z) { return x * y + z; })(a, b, c).item(), 10);
  EXPECT_FALSE(GraphedStep([](const Variable&) {})(a).defined());

  GraphedStep all([](GraphedStep::Inputs inputs) {
    std::vector<Variable> doubled;
    for (const Variable& x : inputs) doubled.push_back(x + x);
    return doubled;
  });
  const Variable inputs[] = {a, b, c};
  const std::vector<Variable> results = all.run_all(inputs);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[2].item(), 8);
}

TEST(GraphedStep, Errors) {
  const auto fn = [](const Variable& x) { return x; };
  const std::vector<Variable> none;
  EXPECT_THROW(GraphedStep(fn, none, {.warmup = 0}), ArgumentError);
  EXPECT_THROW(GraphedStep(fn, none, {.max_graphs = 0}), ArgumentError);
  GraphedStep step(fn);
  EXPECT_THROW(step(), ArgumentError);
  EXPECT_THROW(step(ones({1}), ones({1})), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
