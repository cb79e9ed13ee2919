// Tests of GraphedStep for any device that records steps. Two programs run them: graphed_step_test
// on the CPU and cuda_graphed_step_test on the stand-in for a GPU.
#include "tests/train/graphed_step_cases.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/tape/autocast.h"
#include "data/loader.h"
#include "nn/activation.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "train/fit.h"
#include "train/graphed_step.h"

namespace tapegrad::testing {
namespace {

using Values = std::vector<double>;

nn::Sequential make_model() {
  nn::Sequential model(
      {nn::Linear({.in_features = 4, .out_features = 16}), nn::BatchNorm1d(), nn::ReLU(),
       nn::Dropout(0.3), nn::Linear({.in_features = 16, .out_features = 3})},
      {.input_shape = Shape{4}});
  model.to(step_device());
  return model;
}

/// All state that remains after a training run.
struct Outcome {
  Values losses, parameters, state, draws;
  bool graphed = false;
  std::string reason;

  void add(const TensorMap& map, Values& to) {
    for (const auto& [name, tensor] : map)
      for (const double value : Variable(tensor.to(f64)).to_vector<double>()) to.push_back(value);
  }
};

void expect_same(const Outcome& graphed, const Outcome& eager) {
  EXPECT_TRUE(graphed.graphed) << graphed.reason;
  EXPECT_FALSE(eager.graphed);
  EXPECT_EQ(graphed.losses, eager.losses);
  EXPECT_EQ(graphed.parameters, eager.parameters);
  EXPECT_EQ(graphed.state, eager.state);
  EXPECT_EQ(graphed.draws, eager.draws);
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const nn::Module&)>;

/// 100 steps with dropout, batch normalisation, clipping and a changing learning rate.
Outcome train(const MakeOptimizer& make_optimizer, bool graph) {
  const OnStepDevice on_device;
  manual_seed(5);
  nn::Sequential model = make_model();
  const auto optimizer = make_optimizer(model);
  optim::CosineAnnealingLR schedule(*optimizer, {.T_max = 100});
  GraphedStep step(
      [&](const Variable& x, const Variable& target) {
        optimizer->zero_grad();
        Variable loss = cross_entropy(model(x), target);
        loss.backward();
        optim::clip_grad_norm_(model.parameters(), 0.9);
        optimizer->step();
        return loss;
      },
      {}, {.enabled = graph});
  Outcome outcome;
  std::vector<Variable> losses;
  for (int i = 0; i < 100; ++i) {
    const Variable x = randn({8, 4}), target = randint(0, 3, {8});
    losses.push_back(step(x, target));
    schedule.step();
    if (i == 50) manual_seed(77);
  }
  for (const Variable& loss : losses) outcome.losses.push_back(loss.item());
  outcome.add(model.state_dict(), outcome.parameters);
  outcome.add(optimizer->state_dict(), outcome.state);
  outcome.draws = rand({5}).to_vector<double>();
  outcome.graphed = step.is_graphed();
  outcome.reason = step.reason();
  return outcome;
}

TEST(GraphedStep, RepeatsAreTheBitsOfEagerSteps) {
  const std::pair<const char*, MakeOptimizer> optimizers[] = {
      {"SGD", [](const nn::Module& m) { return std::make_unique<optim::SGD>(m, 0.1); }},
      {"SGD with momentum",
       [](const nn::Module& m) {
         return std::make_unique<optim::SGD>(
             m, optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.1});
       }},
      {"Adam", [](const nn::Module& m) { return std::make_unique<optim::Adam>(m, 0.01); }},
      {"AdamW",
       [](const nn::Module& m) {
         return std::make_unique<optim::AdamW>(m, optim::AdamWOptions{.lr = 0.01, .amsgrad = true});
       }},
      {"Adagrad",
       [](const nn::Module& m) {
         return std::make_unique<optim::Adagrad>(
             m, optim::AdagradOptions{.lr = 0.05, .lr_decay = 0.01});
       }},
      {"RMSprop", [](const nn::Module& m) { return std::make_unique<optim::RMSprop>(m, 1e-3); }}};
  for (const auto& [name, make] : optimizers) {
    SCOPED_TRACE(name);
    expect_same(train(make, true), train(make, false));
  }
}

/// 100 steps under autocast with some infinite gradients, then some steps that are not graphed.
Outcome train_scaled(bool graph) {
  const OnStepDevice on_device;
  manual_seed(3);
  nn::Sequential model = make_model();
  optim::AdamW optimizer(model, {.lr = 0.02});
  optim::GradScaler scaler({.init_scale = 1024, .growth_interval = 7});
  const Variable factor = ones({});
  const auto body = [&](const Variable& x, const Variable& target) {
    optimizer.zero_grad();
    Variable loss;
    {
      const Autocast amp(f16);
      loss = cross_entropy(model(x), target) * factor;
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    return loss;
  };
  GraphedStep step(body, {}, {.enabled = graph});
  Outcome outcome;
  for (int i = 0; i < 100; ++i) {
    const Variable x = randn({8, 4}), target = randint(0, 3, {8});
    Variable value = factor;
    copy_(value, full({}, i % 10 == 9 ? double(INFINITY) : 1.0));
    outcome.losses.push_back(step(x, target).item());
    if (i == 60) outcome.losses.push_back(scaler.get_scale());
  }
  outcome.graphed = step.is_graphed();
  outcome.reason = step.reason();
  outcome.add(optimizer.state_dict(), outcome.state);
  copy_(const_cast<Variable&>(factor), ones({}));
  for (int i = 0; i < 3; ++i) body(randn({8, 4}), randint(0, 3, {8}));
  outcome.add(optimizer.state_dict(), outcome.state);
  outcome.add(scaler.state_dict(), outcome.state);
  outcome.add(model.state_dict(), outcome.parameters);
  return outcome;
}

TEST(GraphedStep, TheDeviceDecidesWhichStepsAScalerLeavesOut) {
  expect_same(train_scaled(true), train_scaled(false));
}

TEST(GraphedStep, EverySetOfShapesHasItsGraph) {
  const OnStepDevice on_device;
  const auto run = [](bool graph) {
    manual_seed(1);
    nn::Sequential model = make_model();
    optim::Adam adam(model, 0.01);
    const TensorDataset set(randn({22, 4}), randint(0, 3, {22}));
    DeviceLoader loader(set, {.batch_size = 8, .shuffle = true});  // batches of 8, 8 and 6
    History history =
        fit(model, loader, adam,
            {.epochs = 8, .graph = graph, .progress = {.style = ProgressStyle::kNone}});
    Values losses;
    for (const EpochResult& epoch : history.epochs) losses.push_back(epoch.loss);
    EXPECT_EQ(history.not_graphed, "");
    return losses;
  };
  EXPECT_EQ(run(true), run(false));

  Variable w = tensor({2.0}, {.requires_grad = true});
  GraphedStep step([&](const Variable& x) { return sum(x * w); }, {},
                   {.warmup = 1, .max_graphs = 2});
  for (int i = 0; i < 3; ++i)
    for (int64_t n : {1, 2, 3}) {
      EXPECT_EQ(step(ones({n})).item(), 2.0 * double(n));
      EXPECT_EQ(step.is_graphed(), i > 0 && n < 3);
    }
  EXPECT_NE(step.reason().find("max_graphs"), std::string::npos) << step.reason();
  EXPECT_EQ(step(ones({1}).to(f64)).item(), 2.0);  // another dtype needs another graph
  EXPECT_FALSE(step.is_graphed());
  EXPECT_THROW(step(), ArgumentError);
}

TEST(GraphedStep, ResultsAndInputsAreTheCallersOwn) {
  const OnStepDevice on_device;
  GraphedStep step([](const Variable& x) { return x * 2.0; }, {}, {.warmup = 1});
  Variable x = ones({3});
  std::vector<Variable> results;
  for (int i = 0; i < 4; ++i) {
    results.push_back(step(x));
    Variable to = x;
    copy_(to, x + 1.0);  // the write is seen, although the variable is unchanged
  }
  EXPECT_TRUE(step.is_graphed());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(results[size_t(i)].to_vector<double>()[2], 2.0 * (i + 1));
  EXPECT_EQ(x.to_vector<double>()[0], 5);

  GraphedStep fixed([](const Variable& x) { return x + 1.0; }, {x}, {.warmup = 1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fixed().to_vector<double>()[0], 6);
  EXPECT_TRUE(fixed.is_graphed());

  GraphedStep same([](const Variable& x) { return x; });
  const Variable first = same(ones({3}));
  same(zeros({3}));
  EXPECT_EQ(first.to_vector<double>()[0], 1);  // results are not in the memory of the inputs
}

TEST(GraphedStep, GradientsAddUpAsEver) {
  const OnStepDevice on_device;
  {
    const Weight weight;
    GraphedStep step([&] { weight.backward(); }, {}, {.warmup = 1});
    for (int i = 0; i < 5; ++i) {
      step();
      EXPECT_EQ(weight.gradient(), 2.0 * (i + 1));
    }
    EXPECT_TRUE(step.is_graphed());
    weight.w.zero_grad();
    step();
    step();
    EXPECT_TRUE(step.is_graphed());
    EXPECT_EQ(weight.gradient(), 4);
  }
  {
    const Weight weight;  // gradients are cleared outside of the function
    GraphedStep step([&] { weight.backward(); }, {}, {.warmup = 1});
    for (int i = 0; i < 5; ++i) {
      weight.w.zero_grad();
      step();
      EXPECT_EQ(weight.gradient(), 2);
    }
    EXPECT_TRUE(step.is_graphed());
    step();  // one call without clearing
    EXPECT_EQ(weight.gradient(), 4);
  }
}

TEST(GraphedStep, GradientsOfTwoBatchesAddUp) {
  const OnStepDevice on_device;
  const auto run = [](bool graph) {
    manual_seed(3);
    nn::Sequential model = make_model();
    optim::Adam adam(model, 0.01);
    GraphedStep step(
        [&](const Variable& x, const Variable& target) {
          adam.zero_grad();
          for (int64_t i = 0; i < 2; ++i)
            (cross_entropy(model(narrow(x, 0, 4 * i, 4)), narrow(target, 0, 4 * i, 4)) / 2.0)
                .backward();
          adam.step();
        },
        {}, {.enabled = graph, .warmup = 1});
    Outcome outcome;
    for (int i = 0; i < 20; ++i) step(randn({8, 4}), randint(0, 3, {8}));
    outcome.graphed = step.is_graphed();
    outcome.reason = step.reason();
    outcome.add(model.state_dict(), outcome.parameters);
    return outcome;
  };
  expect_same(run(true), run(false));
}

TEST(GraphedStep, WhatIsReplacedIsRecordedAgain) {
  const OnStepDevice on_device;
  manual_seed(2);
  nn::Sequential model = make_model();
  optim::Adam adam(model, 0.01);
  TensorMap start = model.state_dict();
  for (auto& [name, tensor] : start) tensor = tensor.clone();
  const TensorMap adam_start = adam.state_dict();
  const Variable x = randn({8, 4}), target = randint(0, 3, {8});
  GraphedStep step([&] {
    adam.zero_grad();
    Variable loss = cross_entropy(model(x), target);
    loss.backward();
    adam.step();
    return loss;
  });
  const auto run = [&] {
    manual_seed(9);
    Values losses;
    for (int i = 0; i < 6; ++i) losses.push_back(step().item());
    return losses;
  };
  const Values first = run();
  EXPECT_TRUE(step.is_graphed());
  model.load_state_dict(start);
  adam.load_state_dict(adam_start);
  EXPECT_EQ(run(), first);
  EXPECT_TRUE(step.is_graphed());
}

TEST(GraphedStep, ErrorsOfTheFunctionArrive) {
  const OnStepDevice on_device;
  bool wrong = false;
  Variable total = zeros({});
  GraphedStep step(
      [&] {
        add_(total, 1.0);
        if (wrong) matmul(ones({2, 3}), ones({2, 3}));
        return total * 1.0;
      },
      {}, {.warmup = 1});
  EXPECT_EQ(step().item(), 1);
  wrong = true;
  EXPECT_THROW(step(), ShapeError);  // thrown during the recording
  EXPECT_EQ(total.item(), 2);        // the work before the error was done
  wrong = false;
  for (int i = 3; i < 6; ++i) EXPECT_EQ(step().item(), i);
  EXPECT_TRUE(step.is_graphed());
}

TEST(GraphedStep, ADrawInACheckpointOrOfAnotherGenerator) {
  const OnStepDevice on_device;
  const auto run = [](bool graph) {
    manual_seed(4);
    RandomGenerator other(8);
    const Variable x = ones({64});
    GraphedStep step(
        [&] { return sum(dropout(x, 0.5)) + sum(dropout(x, 0.5, true, other)) * 100.0; }, {},
        {.enabled = graph, .warmup = 1});
    Values sums;
    for (int i = 0; i < 6; ++i) sums.push_back(step().item());
    EXPECT_EQ(step.is_graphed(), graph);
    sums.push_back(double(other.state().offset));
    return sums;
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace
}  // namespace tapegrad::testing
