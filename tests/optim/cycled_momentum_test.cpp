// OneCycleLR and CyclicLR change the momentum against the rate. Numbers are PyTorch 2.15's.
#include <gtest/gtest.h>

#include <vector>

#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/adam_variants.h"
#include "optim/combined_schedulers.h"
#include "optim/optimizers.h"

namespace tapegrad::optim {
namespace {

Variable parameter() { return Variable(tensor({1.0, -2.0}).to(f64)).requires_grad_(); }

/// Returns the parameter after steps with the gradient of sum(w^2), one before each step of the
/// schedule but the last.
template <typename Optimizer>
std::vector<double> trained(Optimizer& optimizer, Variable w, Scheduler& schedule, int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    sum(square(w)).backward();
    optimizer.step();
    if (i + 1 < steps) schedule.step();
  }
  return w.to_vector<double>();
}
void expect_values(const std::vector<double>& got, double first, double second) {
  EXPECT_NEAR(got[0], first, 1e-12);
  EXPECT_NEAR(got[1], second, 1e-12);
}

TEST(CycledMomentum, OneCycleOfSgd) {
  const Variable w = parameter();
  SGD optimizer({w}, 0.1);  // gets a momentum, as in PyTorch
  OneCycleLR schedule(optimizer, {.max_lr = 0.2, .total_steps = 6});
  expect_values(trained(optimizer, w, schedule, 6), -0.6256069599874765, 1.251213919974953);
}

TEST(CycledMomentum, AfterStepsWithoutMomentum) {
  const Variable w = parameter();
  SGD optimizer({w}, 0.1);
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    sum(square(w)).backward();
    optimizer.step();
  }
  CyclicLR schedule(optimizer, 0.01, 0.1, 2);
  expect_values(trained(optimizer, w, schedule, 5), 0.021611909631999934, -0.04322381926399987);
}

TEST(CycledMomentum, OneCycleOfRAdam) {
  const Variable w = parameter();
  RAdam optimizer({w}, 0.1);
  OneCycleLR schedule(optimizer, {.max_lr = 0.2, .total_steps = 6});
  expect_values(trained(optimizer, w, schedule, 6), 0.2596023807250398, -0.5192047930346302);
}

TEST(CycledMomentum, LeftAlone) {
  const Variable w = parameter(), v = parameter();
  SGD cycled({w}, {.lr = 0.1, .momentum = 0.9}), plain({v}, {.lr = 0.1, .momentum = 0.9});
  OneCycleLR one(cycled, {.max_lr = 0.2, .total_steps = 6, .cycle_momentum = false});
  LambdaLR same(plain, [](int64_t) { return 1.0; });
  for (int i = 0; i < 3; ++i) {
    for (SGD* each : {&cycled, &plain}) each->set_lr(0.05), each->zero_grad();
    sum(square(w)).backward();
    sum(square(v)).backward();
    cycled.step();
    plain.step();
  }
  EXPECT_EQ(w.to_vector<double>(), v.to_vector<double>());
  Adagrad without({parameter()}, 0.1);  // has no momentum
  OneCycleLR of_adagrad(without, {.max_lr = 0.2, .total_steps = 6});
  EXPECT_NO_THROW(of_adagrad.step());
}

/// Returns the momentum that Adam's beta1 has after `steps` steps, by the change of the first
/// state.
double beta1_after(const OneCycleLROptions& options, int steps) {
  const Variable w = parameter();
  Adam optimizer({w}, 0.1, {0.5, 0.99});
  OneCycleLR schedule(optimizer, options);
  for (int i = 0; i < steps; ++i) schedule.step();
  sum(w).backward();
  optimizer.step();
  return 1 - Variable(optimizer.state()[0]).to_vector<double>()[0];  // m = (1 - beta1) g, g = 1
}

TEST(CycledMomentum, PhasesOfOneCycle) {
  const OneCycleLROptions two{.max_lr = 1.0, .epochs = 2, .steps_per_epoch = 5};
  const std::vector<double> want{0.95,        0.9,         0.85,       0.854951557, 0.86882551,
                                 0.888873953, 0.911126047, 0.93117449, 0.945048443, 0.95};
  for (int i = 0; i < 10; ++i) EXPECT_NEAR(beta1_after(two, i), want[size_t(i)], 1e-8) << i;
  const OneCycleLROptions three{
      .max_lr = 1.0, .total_steps = 10, .anneal_strategy = "linear", .three_phase = true};
  const std::vector<double> linear{0.95, 0.9, 0.85, 0.9, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95};
  const std::vector<double> rates{0.04,      0.52,      1.0,       0.52,      0.04,
                                  0.0320008, 0.0240016, 0.0160024, 0.0080032, 4e-06};
  SGD optimizer({parameter()}, 0.1);
  OneCycleLR schedule(optimizer, three);
  for (int i = 0; i < 10; ++i) {
    EXPECT_NEAR(beta1_after(three, i), linear[size_t(i)], 1e-8) << i;
    EXPECT_NEAR(optimizer.lr(), rates[size_t(i)], 1e-8) << i;
    schedule.step();
  }
}

TEST(CycledMomentum, OfCyclicAndResumed) {
  const std::vector<double> want{0.9, 0.866666667, 0.833333333, 0.8, 0.85,
                                 0.9, 0.883333333, 0.866666667, 0.85};
  const CyclicLROptions options{
      .base_lr = 0.1, .max_lr = 1.0, .step_size_up = 3, .step_size_down = 2, .mode = "triangular2"};
  for (int steps = 0; steps < 9; ++steps) {
    const Variable w = parameter();
    SGD first({w}, 0.1, {.momentum = 0.3});
    CyclicLR schedule(first, options);
    for (int i = 0; i < steps; ++i) schedule.step();
    const Variable v = parameter();
    SGD second({v}, 0.1, {.momentum = 0.3});
    CyclicLR resumed(second, options);
    resumed.load_state_dict(schedule.state_dict());
    for (SGD* each : {&first, &second}) each->set_lr(1.0);
    double moved[2];
    int k = 0;
    for (auto [optimizer, x] : {std::pair{&first, w}, std::pair{&second, v}}) {
      for (int i = 0; i < 2; ++i) {  // b = g, then b = (1 + momentum) g
        optimizer->zero_grad();
        sum(x).backward();
        optimizer->step();
      }
      moved[k++] = 1 - x.to_vector<double>()[0] - 2;
    }
    EXPECT_NEAR(moved[0], want[size_t(steps)], 1e-8) << steps;
    EXPECT_EQ(moved[0], moved[1]) << steps;
  }
}

TEST(CycledMomentum, OptionsOutOfRange) {
  SGD optimizer({parameter()}, 0.1);
  EXPECT_THROW(OneCycleLR(optimizer, {.max_lr = 1.0, .total_steps = 5, .base_momentum = 0.96}),
               ArgumentError);
  EXPECT_THROW(CyclicLR(optimizer, {.max_lr = 1.0, .max_momentum = 1.0}), ArgumentError);
  EXPECT_THROW(OneCycleLR(optimizer, {.max_lr = 1.0, .epochs = 5}), ArgumentError);
}

TEST(MovedSchedulers, FollowTheirOptimizers) {
  SGD first({parameter()}, 1.0), second({parameter()}, 2.0);
  std::vector<StepLR> schedules;
  schedules.push_back(StepLR(first, 1, 0.5));
  schedules.push_back(StepLR(second, 1, 0.5));  // moves the first one
  for (StepLR& each : schedules) each.step();
  EXPECT_EQ(first.lr(), 0.5);
  EXPECT_EQ(second.lr(), 1.0);
  EXPECT_EQ(schedules[0].steps(), 1);
  std::swap(schedules[0], schedules[1]);
  schedules[0].step();
  EXPECT_EQ(second.lr(), 0.5);
  EXPECT_EQ(first.lr(), 0.5);
}

TEST(MovedSchedulers, PartsOfOthers) {
  SGD optimizer({parameter()}, 1.0);
  auto warmup = std::make_unique<ConstantLR>(optimizer, 0.1, 2);
  ExponentialLR decay(optimizer, 0.5);
  SequentialLR schedule(optimizer, {*warmup, decay}, {2});
  ConstantLR elsewhere = std::move(*warmup);
  warmup.reset();
  schedule.step();
  EXPECT_DOUBLE_EQ(optimizer.lr(), 0.1);
  schedule.step();
  EXPECT_DOUBLE_EQ(optimizer.lr(), 1.0);
  { ExponentialLR gone = std::move(decay); }
  EXPECT_THROW(schedule.step(), ArgumentError);
}

}  // namespace
}  // namespace tapegrad::optim
