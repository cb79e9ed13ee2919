// Schedules whose rate something else has changed: the program, or a scheduler beside them. The
// expected rates were printed by PyTorch 2.15, with cycle_momentum=False.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ops/create.h"
#include "optim/combined_schedulers.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "tests/expect_near.h"

namespace tapegrad::optim {
namespace {

using testing::expect_near;

SGD sgd() { return SGD({zeros({1}, {.requires_grad = true})}, 1.0); }

/// Returns the rate at first and after each of n steps; the program sets `changes` before these
/// steps.
std::vector<double> rates(Optimizer& optimizer, const std::vector<Scheduler*>& schedulers, int n,
                          const std::map<int, double>& changes = {}) {
  std::vector<double> got{optimizer.lr()};
  for (int i = 0; i < n; ++i) {
    if (changes.contains(i)) optimizer.set_lr(changes.at(i));
    for (Scheduler* each : schedulers) each->step();
    got.push_back(optimizer.lr());
  }
  return got;
}
double grows(int64_t t) { return 1.0 + double(t); }

TEST(SchedulerChanges, BesideCyclesOfTheRate) {
  SGD a = sgd(), b = sgd(), c = sgd();
  CyclicLR cyclic(a, 0.0, 1.0, 2);
  StepLR step(a, 3, 0.5);
  expect_near(rates(a, {&cyclic, &step}, 8), {0.0, 0.5, 1.0, 0.25, 0.0, 0.5, 0.5, 0.5, 0.0});
  StepLR before(b, 3, 0.5);
  CyclicLR after(b, 0.0, 1.0, 2);
  b.set_lr(1.0);  // the constructor of PyTorch's CyclicLR leaves the rate of the program
  expect_near(rates(b, {&before, &after}, 8), {1.0, 0.5, 1.0, 0.5, 0.0, 0.5, 1.0, 0.5, 0.0});
  OneCycleLR cycle(c, 1.0, 10);
  CosineAnnealingLR cosine(c, 3, 0.01);
  expect_near(rates(c, {&cycle, &cosine}, 8),
              {0.040000000000000036, 0.3925, 0.34000000000000014, 0.01, 0.819245653949763,
               1.8137860658088696, 0.5149893040849476, 0.14369375953767777, 0.023173122662175444});
}

TEST(SchedulerChanges, CyclesSetTheInitialRate) {
  SGD a = sgd(), b = sgd(), c = sgd();
  const OneCycleLR cycle(a, 1.0, 10);
  LambdaLR of_cycle(a, grows);
  expect_near(rates(a, {&of_cycle}, 3), {0.04, 0.08, 0.12, 0.16});
  const CyclicLR cyclic(b, 0.2, 1.0, 2);
  LambdaLR of_cyclic(b, grows);
  expect_near(rates(b, {&of_cyclic}, 3), {0.2, 0.4, 0.6, 0.8});
  const StepLR step(c, 4);
  const CyclicLR second(c, 0.2, 1.0, 2);
  LambdaLR of_step(c, grows);
  expect_near(rates(c, {&of_step}, 3), {1.0, 2.0, 3.0, 4.0});
}

TEST(SchedulerChanges, RatesOfZero) {
  SGD a = sgd(), b = sgd(), c = sgd(), d = sgd(), e = sgd(), f = sgd();
  PolynomialLR polynomial(a, 4);
  expect_near(rates(a, {&polynomial}, 7, {{1, 0.0}, {3, 0.8}, {5, 0.3}}),
              {1.0, 0.75, 0.0, 0.0, 0.0, 0.0, 0.3, 0.3});
  ExponentialLR exponential(b, 0.5);
  expect_near(rates(b, {&exponential}, 5, {{1, 0.0}, {3, 1.0}}), {1.0, 0.5, 0.0, 0.0, 0.5, 0.25});
  StepLR step(c, 2, 0.0);
  expect_near(rates(c, {&step}, 7, {{2, 0.3}, {5, 0.7}}), {1.0, 1.0, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0});
  MultiStepLR steps(d, {2, 2, 4}, 0.0);
  expect_near(rates(d, {&steps}, 6, {{2, 0.3}, {4, 0.7}}), {1.0, 1.0, 0.0, 0.3, 0.0, 0.7, 0.7});
  MultiplicativeLR factors(e, [](int64_t t) { return t == 2 ? 0.0 : 0.5; });
  expect_near(rates(e, {&factors}, 5, {{2, 0.4}}), {1.0, 0.5, 0.0, 0.2, 0.1, 0.05});
  SWALR swa(f, 0.0, 2, "linear");
  expect_near(rates(f, {&swa}, 5, {{3, 0.4}}), {1.0, 0.5, 0.0, 0.0, 0.0, 0.0});
}

TEST(SchedulerChanges, CosineRisesByTheInitialRate) {
  SGD a = sgd(), b = sgd(), c = sgd();
  CosineAnnealingLR halved(a, 3);
  expect_near(rates(a, {&halved}, 9, {{1, 0.5}}),
              {1.0, 0.75, 1.0 / 6, 0.0, 0.25, 0.75, 1.0, 0.75, 0.25, 0.0});
  CosineAnnealingLR at_lowest(b, 3, 0.1);
  expect_near(rates(b, {&at_lowest}, 9, {{3, 0.5}}),
              {1.0, 0.775, 0.325, 0.1, 0.725, 1.975, 2.6, 1.975, 0.725, 0.1});
  LinearLR warmup(c, 0.5, 1.0, 2);
  CosineAnnealingLR beside(c, 3);
  expect_near(rates(c, {&warmup, &beside}, 8),
              {0.5, 0.5625, 0.25, 0.0, 0.25, 0.75, 1.0, 0.75, 0.25});
}

TEST(SchedulerChanges, OfConstantLinearAndCombined) {
  SGD a = sgd(), b = sgd(), c = sgd(), d = sgd(), e = sgd();
  LinearLR linear(a, 0.5, 0.0, 3);
  expect_near(rates(a, {&linear}, 6, {{3, 0.5}, {5, 0.2}}),
              {0.5, 1.0 / 3, 0.5 / 3, 0.0, 0.5, 0.5, 0.2});
  ConstantLR forever(b, 0.5, 0);
  expect_near(rates(b, {&forever}, 3), {0.5, 0.5, 0.5, 0.5});
  ConstantLR constant(c, 0.5, 3);
  expect_near(rates(c, {&constant}, 5, {{1, 0.0}, {2, 0.2}}), {0.5, 0.5, 0.0, 0.4, 0.4, 0.4});
  ConstantLR low(d, 0.1, 2);
  CosineAnnealingLR cosine(d, 4);
  SequentialLR both(d, {low, cosine}, {3});
  expect_near(rates(d, {&both}, 9, {{1, 0.3}, {5, 0.6}}),
              {0.1, 0.1, 3.0, 1.0, 0.8535533905932737, 0.5, 0.17573593128807152, 0.0,
               0.1464466094067262, 0.5});
  ConstantLR first(e, 0.1, 2);
  LambdaLR formula(e, grows);
  ChainedScheduler chained({first, formula});
  expect_near(rates(e, {&chained}, 4), {1.0, 2.0, 3.0, 4.0, 5.0});
}

TEST(SchedulerChanges, ChainedSchedulersChangeTheRateInTurn) {
  SGD a = sgd(), b = sgd(), c = sgd();
  LinearLR warmup(a, 0.5, 1.0, 2);
  CosineAnnealingLR cosine(a, 3, 0.1);
  ChainedScheduler chained({warmup, cosine});
  const std::vector<double> expected{0.5,   0.5875, 0.3277777777777779, 0.1,
                                     0.325, 0.775,  1.0000000000000007, 0.775};
  expect_near(rates(a, {&chained}, 7), expected);
  CosineAnnealingWarmRestarts restarts(b, 3);
  StepLR step(b, 2, 0.5);
  ChainedScheduler other({restarts, step});
  expect_near(rates(b, {&other}, 6), {1.0, 0.75, 0.125, 1.0, 0.375, 0.25, 0.5});
  LinearLR first(c, 0.5, 1.0, 2);
  CosineAnnealingLR second(c, 3, 0.1);
  ChainedScheduler part({first, second});
  SequentialLR all(c, {part}, {});
  expect_near(rates(c, {&all}, 7), expected);
}

TEST(SchedulerChanges, SwaBelowItsRate) {
  SGD a = sgd();
  SWALR swa(a, 0.5, 4, "linear");
  expect_near(rates(a, {&swa}, 5, {{1, 0.25}}), {1.0, 0.875, 1.0 / 3, 1.25 / 3, 0.5, 0.5});
}

TEST(SchedulerChanges, PartsOfAnEpoch) {
  SGD a = sgd();
  CosineAnnealingWarmRestarts restarts(a, 2, 2, 0.1);
  std::vector<double> got;
  for (const double epoch : {0.5, 1.75, 2.5, 6.0, 13.9}) {
    restarts.step(epoch);
    got.push_back(a.lr());
  }
  expect_near(
      got, {0.8681980515339464, 0.13425421036992097, 0.9657457896300791, 1.0, 0.1003469336916747});
  EXPECT_EQ(restarts.steps(), 13);
  EXPECT_THROW(restarts.step(-0.5), ArgumentError);
  EXPECT_THROW(restarts.step(INFINITY), ArgumentError);
  EXPECT_EQ(restarts.steps(), 13);
}

TEST(SchedulerChanges, GoOnFromASavedState) {
  SGD a = sgd(), b = sgd();
  LinearLR warmup(a, 0.5, 1.0, 2), other(b, 0.5, 1.0, 2);
  CosineAnnealingLR beside(a, 3), restored(b, 3);
  rates(a, {&warmup, &beside}, 3);
  other.load_state_dict(warmup.state_dict());
  restored.load_state_dict(beside.state_dict());
  expect_near(rates(b, {&other, &restored}, 5), {0.0, 0.25, 0.75, 1.0, 0.75, 0.25});
}

TEST(SchedulerChanges, PlateauOfANegativeMeasure) {
  const auto after = [](ReduceLROnPlateauOptions options, const std::vector<double>& measures) {
    SGD optimizer = sgd();
    options.factor = 0.5, options.patience = 0;
    ReduceLROnPlateau plateau(optimizer, options);
    std::vector<double> got;
    for (const double measure : measures) {
      plateau.step(measure);
      got.push_back(optimizer.lr());
    }
    return got;
  };
  expect_near(after({}, {-1.0, -1.00005, -0.99995, -0.9998, -0.99}), {1.0, 1.0, 1.0, 0.5, 0.25});
  expect_near(after({.mode = "max"}, {-1.0, -0.99995, -1.00005, -1.0002, -0.9}),
              {1.0, 1.0, 0.5, 0.25, 0.25});
  expect_near(after({.threshold_mode = "abs"}, {-1.0, -1.00005, -1.0002}), {1.0, 0.5, 0.5});
}

}  // namespace
}  // namespace tapegrad::optim
