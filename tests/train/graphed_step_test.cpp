// GraphedStep on the CPU: differences from a step on a GPU, and features that need no device.
#include "train/graphed_step.h"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/image.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/loss.h"
#include "ops/margin_loss.h"
#include "ops/random.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/stft.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/train/graphed_step_cases.h"

namespace tapegrad::testing {

Device step_device() { return cpu; }

namespace {

using Values = std::vector<double>;

TEST(GraphedStep, TakesFunctionsOfManyKinds) {
  const Variable a = full({}, 2.0), b = full({}, 3.0), c = full({}, 4.0);
  EXPECT_EQ(GraphedStep([&] { return a; })().item(), 2);
  EXPECT_EQ(GraphedStep([](const Variable& x) { return x * 2.0; })(a).item(), 4);
  EXPECT_EQ(GraphedStep([](auto& x, auto& y, auto& z) { return x * y + z; })(a, b, c).item(), 10);
  EXPECT_FALSE(GraphedStep([](const Variable&) {})(a).defined());
  GraphedStep of_five([](const Variable& v, const Variable& w, const Variable& x, const Variable& y,
                         const Variable& z) { return v * w + x * y - z; });
  for (int i = 0; i < 6; ++i) EXPECT_EQ(of_five(a, b, c, a, full({}, double(i))).item(), 14 - i);
  EXPECT_TRUE(of_five.is_graphed()) << of_five.reason();
  EXPECT_THROW(of_five(a, b, c, a), ArgumentError);

  GraphedStep all([](GraphedStep::Inputs inputs) {
    std::vector<Variable> doubled;
    for (const Variable& x : inputs) doubled.push_back(x + x);
    return doubled;
  });
  const Variable inputs[] = {a, b, c};
  for (int i = 0; i < 6; ++i) {
    const std::vector<Variable> results = all.run_all(inputs);
    ASSERT_EQ(results.size(), 3u);
    EXPECT_EQ(results[2].item(), 8);
    EXPECT_EQ(all.is_graphed(), i >= 3);
  }
}

TEST(GraphedStep, Errors) {
  const auto fn = [](const Variable& x) { return x; };
  const std::vector<Variable> none;
  EXPECT_THROW(GraphedStep(fn, none, {.warmup = 0}), ArgumentError);
  EXPECT_THROW(GraphedStep(fn, none, {.max_graphs = 0}), ArgumentError);
  GraphedStep step(fn);
  EXPECT_THROW(step(), ArgumentError);
  EXPECT_THROW(step(ones({1}), ones({1})), ArgumentError);
  GraphedStep off([] { return ones({}); }, {}, {.enabled = false});
  EXPECT_EQ(off().item(), 1);
  EXPECT_EQ(off.reason(), "it is not enabled");
}

TEST(GraphedStep, SaysWhyItIsNotGraphed) {
  {
    Variable total = zeros({});
    const std::string reason = reason_of(
        [&] {
          add_(total, 1.0);  // once per call, also in the call that tried to record
          const double now = total.item();
          return total * now;
        },
        {1, 4, 9, 16});
    expect_contains(reason, "item() reads a value on the host, by add");
    expect_contains(reason, "graphed_step_test.cpp:");
  }
  expect_contains(reason_of(
                      [] {
                        const std::vector<double> values = (ones({2}) * 3.0).to_vector<double>();
                        return ones({}) * values[1];
                      },
                      {3, 3, 3}),
                  "to_vector()");
  expect_contains(reason_of(
                      [] {
                        std::ostringstream out;
                        out << ones({2}) * 3.0;
                        return ones({}) * double(out.str().empty());
                      },
                      {0, 0, 0}),
                  "printing");
  {
    float host = 0;
    const auto counted = [&] {
      ++host;
      return sum(tensor(std::vector<float>{host, 0}));
    };
    expect_contains(reason_of(counted, {1, 2, 3, 4}), "copies other values from the host");
  }
  {
    Variable h = ones({});
    expect_contains(reason_of(
                        [&] {
                          h = h * 2.0;
                          return h + 0.0;
                        },
                        {2, 4, 8, 16}),
                    "then replaces by another");
  }
  const auto draws = [] {
    manual_seed(8);
    const Variable first = rand({});
    return first - rand({});
  };
  const double difference = draws().item();
  expect_contains(reason_of(
                      [&] {
                        rand({});
                        return draws();
                      },
                      {difference, difference, difference}),
                  "sets the seed");
  expect_contains(reason_of(
                      [] {
                        RandomGenerator own;  // a later step could not ask it for its state
                        own.manual_seed(0);
                        return ones({});
                      },
                      {1, 1, 1}),
                  "sets the seed");
  RandomGenerator seven(7);
  const double drawn = rand({}, {}, seven).item();
  expect_contains(reason_of(
                      [] {
                        RandomGenerator own(7);
                        return rand({}, {}, own);
                      },
                      {drawn, drawn, drawn}),
                  "makes a generator");
}

TEST(GraphedStep, NumbersOfTheHostKeepTheirValues) {
  double host = 1;
  GraphedStep step([&] { return ones({2}) * host; }, {}, {.warmup = 1});
  for (int call = 0; call < 4; ++call) {
    EXPECT_EQ(step().to_vector<double>()[1], 1);
    if (call > 0) host = 2;  // unnoticed
  }
  EXPECT_TRUE(step.is_graphed());
}

TEST(GraphedStep, NumbersOfTheHostThatChangeAreNoticed) {
  double host = 0;
  const std::string reason = reason_of([&] { return ones({}) * ++host; }, {1, 2, 3, 4});
  expect_contains(reason, "passes another number");
  expect_contains(reason, "graphed_step_test.cpp:");
}

TEST(GraphedStep, IndicesAreCheckedInEachCall) {
  const Variable logits = zeros({4, 3}), table = rand({5, 2});
  GraphedStep step(
      [&](const Variable& ids) {
        return cross_entropy(logits, ids) + sum(index_select(table, 0, ids)) * 0.0;
      },
      {}, {.warmup = 1});
  const Variable ids = zeros({4}, {.dtype = i64});
  const double loss = step(ids).item();
  EXPECT_EQ(step(ids).item(), loss);
  EXPECT_TRUE(step.is_graphed());
  try {
    step(full({4}, 3, {.dtype = i64}));
    FAIL();
  } catch (const IndexError& error) {
    expect_contains(error.what(), "cross_entropy");
    expect_contains(error.what(), "graphed_step_test.cpp:");
  }
  EXPECT_EQ(step(ids).item(), loss);
  EXPECT_TRUE(step.is_graphed());
}

// Ops whose checks read a value are recorded, and check in each replay.
TEST(GraphedStep, ValuesAreCheckedInEachCall) {
  using Function = std::function<Variable(const Variable&)>;
  const Variable ids = arange(6), deviation = ones({2}), level = full({}, 0.5);
  const std::vector<std::pair<Function, Variable>> cases = {
      {[](const Variable& x) { return sum(linalg::cholesky(x)); }, eye(3) * 2.0},
      {[](const Variable& x) {
         return sum(linalg::solve(x, ones({3, 1})));
       },
       eye(3) * 2.0},
      {[&](const Variable& x) { return sum(remainder(ids, x)); }, full({1}, 4, {.dtype = i64})},
      {[&](const Variable& x) { return sum(floor_divide(ids, x) + ids % 4); },
       full({1}, 4, {.dtype = i64})},
      {[&](const Variable& x) { return quantile(x, level) / sum(gt(x, 0.0)); }, ones({3})},
      {[](const Variable& x) { return sum(istft(stft(ones({16}), 8), 8, {.window = x})); },
       ones({8})},
      {[](const Variable& x) { return gaussian_nll_loss(ones({3}), zeros({3}), x); }, ones({3})},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [function, x] = cases[i];
    GraphedStep step(function, {}, {.warmup = 1});
    const double expected = function(x).item();
    for (int k = 0; k < 3; ++k) EXPECT_EQ(step(x).item(), expected) << i;
    EXPECT_TRUE(step.is_graphed()) << i << ": " << step.reason();
    if (i == 4) continue;  // only q is checked
    const Variable bad = i == 6 ? -x : zeros_like(x);
    EXPECT_THROW(step(bad), Error) << i;
    EXPECT_EQ(step(x).item(), expected) << i;
    EXPECT_TRUE(step.is_graphed()) << i << ": " << step.reason();
  }
}

/// Losses, the last gradients and the statistics of a network with packed layouts.
Values train_images(bool graph) {
  manual_seed(2);
  nn::Sequential model({nn::Conv2d({.in_channels = 3, .out_channels = 16, .kernel_size = 3}),
                        nn::BatchNorm2d(), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Conv2d({.in_channels = 16, .out_channels = 16, .kernel_size = 3}),
                        nn::BatchNorm2d(), nn::ReLU()},
                       {.input_shape = {{3, 34, 34}}});
  optim::SGD sgd(model, optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
  GraphedStep step(
      [&](const Variable& x) {
        sgd.zero_grad();
        const Variable y = model(x);
        const Variable loss = mean(square(y - 0.5)) + mean(abs(x + x)) * 0.1;
        loss.backward();
        sgd.step();
        return loss;
      },
      {}, {.enabled = graph, .warmup = 2});
  Values values;
  for (int i = 0; i < 8; ++i) values.push_back(step(randn({16, 3, 34, 34})).item());
  EXPECT_EQ(step.is_graphed(), graph) << step.reason();
  for (const Variable& parameter : model.parameters()) {
    const Values gradient = parameter.grad().to_vector<double>();
    values.insert(values.end(), gradient.begin(), gradient.end());
  }
  for (const auto& [name, tensor] : model.state_dict())
    for (const double value : Variable(tensor).to_vector<double>()) values.push_back(value);
  return values;
}

TEST(GraphedStep, PackedLayoutsAreThoseOfEagerSteps) {
  EXPECT_EQ(train_images(true), train_images(false));
}

TEST(GraphedStep, ItsMemoryIsGivenBack) {
  const Variable x = ones({1 << 18});
  sum(x + x).item();
  const int64_t before = memory_stats().in_use;
  Variable kept;
  {
    GraphedStep step(
        [&] {
          kept = (x + 1.0) * (x + 2.0);
          return sum(kept);
        },
        {}, {.warmup = 1});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(step().item(), 6.0 * (1 << 18));
    EXPECT_TRUE(step.is_graphed());
    const std::vector<Variable> others{x * 7.0, x * 7.0};  // new memory has other addresses
    EXPECT_EQ(step().item(), 6.0 * (1 << 18));
    for (const Variable& other : others) EXPECT_EQ(sum(other).item(), 7.0 * (1 << 18));
  }
  EXPECT_EQ(kept.to_vector<double>()[5], 6);  // an owner outside keeps the values
  kept = Variable();
  EXPECT_EQ(memory_stats().in_use, before);
}

// zero_grad() without set_to_none sets no gradient where there is none, and the optimizer then
// skips the parameter.
TEST(GraphedStep, GradientsThatAreClearedBeforeTheyAreSetToZero) {
  const auto weights = [](bool captured) {
    const Variable w = full({2}, 0.75).requires_grad_();
    optim::Adam adam({w}, 0.1);
    GraphedStep step(
        [&] {
          adam.zero_grad(/*set_to_none=*/false);
          sum(w * 2.0).backward({.retain_graph = true});
          adam.step();
          adam.zero_grad(/*set_to_none=*/false);
          adam.step();
        },
        {}, {.enabled = captured});
    GraphedStep first(
        [&] {
          adam.zero_grad(/*set_to_none=*/false);
          adam.step();
          sum(w * w).backward();
        },
        {}, {.enabled = captured});
    std::vector<double> all;
    for (int i = 0; i < 10; ++i) {
      if (i == 6) adam.zero_grad();
      step();
      all.push_back(w.to_vector<double>()[0]);
    }
    for (int i = 0; i < 10; ++i) {
      if (i == 6) adam.zero_grad();
      first();
      all.push_back(w.to_vector<double>()[0]);
    }
    return all;
  };
  EXPECT_EQ(weights(true), weights(false));
}

TEST(GraphedStep, AnErrorLeavesItUsable) {
  const Variable table = ones({5, 1 << 12});
  GraphedStep step(
      [&](const Variable& ids) {
        const Variable rows = index_select(table, 0, ids) * 2.0;
        return sum(rows) + sum(index_select(rows, 0, ids));
      },
      {}, {.warmup = 1});
  const Variable good = zeros({3}, {.dtype = i64}), bad = full({3}, 4, {.dtype = i64});
  const double expected = step(good).item();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(step(good).item(), expected);
    EXPECT_THROW(step(bad), IndexError);  // in the middle of the step
  }
}

}  // namespace
}  // namespace tapegrad::testing
