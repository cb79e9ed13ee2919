// Schedules, compared with PyTorch's closed forms; and clipping.
#include "optim/scheduler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "ops/create.h"
#include "optim/clip.h"
#include "optim/combined_schedulers.h"
#include "optim/optimizers.h"
#include "tests/expect_near.h"

namespace tapegrad::optim {
namespace {

using testing::expect_near;

Variable parameter() { return zeros({3}, {.dtype = f64, .requires_grad = true}); }

/// Returns the learning rates of steps 0 to count - 1.
template <typename S>
std::vector<double> rates(Optimizer& optimizer, S& schedule, int count) {
  std::vector<double> result{optimizer.lr()};
  while (int(result.size()) < count) {
    schedule.step();
    result.push_back(optimizer.lr());
  }
  return result;
}

TEST(Scheduler, StepMultiStepExponential) {
  SGD a({parameter()}, 0.8);
  StepLR step(a, {.step_size = 2, .gamma = 0.5});
  expect_near(rates(a, step, 6), {0.8, 0.8, 0.4, 0.4, 0.2, 0.2});
  SGD b({parameter()}, 0.8);
  MultiStepLR multi(b, {.milestones = {1, 4}, .gamma = 0.5});
  expect_near(rates(b, multi, 6), {0.8, 0.4, 0.4, 0.4, 0.2, 0.2});
  SGD c({parameter()}, 0.8);
  ExponentialLR exponential(c, 0.5);
  expect_near(rates(c, exponential, 4), {0.8, 0.4, 0.2, 0.1});
}

TEST(Scheduler, Cosine) {
  SGD optimizer({parameter()}, 1.0);
  CosineAnnealingLR schedule(optimizer, {.T_max = 4, .eta_min = 0.2});
  const double r = std::sqrt(0.5);
  expect_near(rates(optimizer, schedule, 5),
              {1.0, 0.2 + 0.4 * (1 + r), 0.6, 0.2 + 0.4 * (1 - r), 0.2});
}

TEST(Scheduler, Linear) {
  SGD optimizer({parameter()}, 1.0);
  LinearLR schedule(optimizer, {.start_factor = 0.5, .total_iters = 4});
  expect_near(rates(optimizer, schedule, 6), {0.5, 0.625, 0.75, 0.875, 1.0, 1.0});
}

TEST(Scheduler, OneCycle) {
  SGD optimizer({parameter()}, 0.3);
  OneCycleLR schedule(optimizer, {.max_lr = 1.0,
                                  .total_steps = 10,
                                  .pct_start = 0.3,
                                  .anneal_strategy = "linear",
                                  .div_factor = 10,
                                  .final_div_factor = 100});
  // From 0.1 up to 1 at step 2, then down to 0.001 at step 9.
  std::vector<double> expected{0.1, 0.55};
  for (int t = 2; t < 10; ++t) expected.push_back(1 - 0.999 * (t - 2) / 7.0);
  expect_near(rates(optimizer, schedule, 10), expected);
  schedule.step();  // after the last batch
  EXPECT_NEAR(optimizer.lr(), 0.001, 1e-14);
  EXPECT_THROW(schedule.step(), ArgumentError);
  EXPECT_EQ(schedule.steps(), 10);

  SGD other({parameter()}, 0.3);
  OneCycleLR cosine(other, {.max_lr = 2.0, .total_steps = 5, .pct_start = 0.6});
  const auto half = [](double from, double to, double share) {
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
  };
  expect_near(rates(other, cosine, 5), {0.08, half(0.08, 2, 0.5), 2.0, half(2, 8e-6, 0.5), 8e-6});
}

TEST(Scheduler, WarmupThenAnother) {
  SGD optimizer({{.params = {parameter()}}, {.params = {parameter()}, .lr = 2.0}}, {.lr = 1.0});
  ExponentialLR after(optimizer, 0.5);
  WarmupLR schedule(optimizer, after, {.warmup_steps = 4});
  expect_near(rates(optimizer, schedule, 7), {0.0, 0.25, 0.5, 0.75, 1.0, 0.5, 0.25});
  EXPECT_EQ(optimizer.lr(1), 0.5);
}

TEST(Scheduler, Plateau) {
  SGD optimizer({parameter()}, 1.0);
  ReduceLROnPlateau schedule(optimizer,
                             {.factor = 0.5, .patience = 1, .cooldown = 1, .min_lr = 0.3});
  std::vector<double> got;
  for (const double loss : {1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.4, 0.4}) {
    schedule.step(loss);
    got.push_back(optimizer.lr());
  }
  expect_near(got, {1, 1, 1, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3});
  EXPECT_EQ(schedule.best(), 0.4);
}

TEST(Scheduler, T53_GoesOnFromItsState) {
  SGD a({parameter()}, 1.0), b({parameter()}, 1.0);
  CosineAnnealingLR first(a, {.T_max = 10}), second(b, {.T_max = 10});
  rates(a, first, 5);
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(a.lr(), b.lr());
  EXPECT_EQ(rates(a, first, 4), rates(b, second, 4));
  EXPECT_THROW(second.load_state_dict({}), ArgumentError);
}

// PyTorch 2.15 gives these rates, too.
TEST(Scheduler, SeveralActTogether) {
  SGD a({parameter()}, 1.0);
  LinearLR warmup(a, {.start_factor = 0.5, .total_iters = 2});
  ExponentialLR decay(a, 0.5);
  std::vector<double> got{a.lr()};
  for (int i = 0; i < 4; ++i) {
    warmup.step();
    decay.step();
    got.push_back(a.lr());
  }
  expect_near(got, {0.5, 0.375, 0.25, 0.125, 0.0625});

  SGD b({parameter()}, 1.0);
  ExponentialLR first(b, 0.5);
  LambdaLR formula(b, [](int64_t t) { return 1.0 + double(t); });  // begins at the first rate
  first.step();
  formula.step();
  EXPECT_EQ(b.lr(), 2.0);
}

TEST(Scheduler, FollowsChangesOfTheProgram) {
  SGD a({parameter()}, 1.0);
  StepLR step(a, {.step_size = 2, .gamma = 0.5});
  a.set_lr(0.1);
  expect_near(rates(a, step, 4), {0.1, 0.1, 0.05, 0.05});
  SGD b({parameter()}, 1.0);
  CosineAnnealingLR cosine(b, {.T_max = 4, .eta_min = 0.2});
  rates(b, cosine, 3);
  EXPECT_NEAR(b.lr(), 0.6, 1e-15);
  b.set_lr(0.4);
  const double r = std::sqrt(0.5);
  expect_near(rates(b, cosine, 3), {0.4, 0.2 + 0.2 * (1 - r), 0.2});
  SGD c({parameter()}, 1.0);
  LinearLR ended(c, {.start_factor = 1.0, .end_factor = 0.0, .total_iters = 2});
  rates(c, ended, 4);
  c.set_lr(0.25);
  expect_near(rates(c, ended, 3), {0.25, 0.25, 0.25});

  // The loop of stochastic weight averaging: the second schedule begins where the first one ended.
  SGD f({parameter()}, 1.0);
  ExponentialLR decay(f, 0.5);
  SWALR swa(f, 0.1, 2, "linear");
  rates(f, decay, 3);
  expect_near(rates(f, swa, 5), {0.25, 0.175, 0.1, 0.1, 0.1});
  f.set_lr(1.0);
  expect_near(rates(f, swa, 2), {1.0, 0.1});

  SGD d({parameter()}, 1.0), e({parameter()}, 1.0);
  StepLR schedule(d, {.step_size = 4, .gamma = 0.5}), again(e, {.step_size = 4, .gamma = 0.5});
  ReduceLROnPlateau plateau(d, {.factor = 0.1, .patience = 0});
  for (int i = 0; i < 3; ++i) {
    schedule.step();
    plateau.step(i == 2 ? 1.0 : -double(i));
  }
  EXPECT_NEAR(d.lr(), 0.1, 1e-15);
  again.load_state_dict(schedule.state_dict());
  EXPECT_EQ(e.lr(), d.lr());
  EXPECT_EQ(rates(d, schedule, 3), rates(e, again, 3));
  EXPECT_NEAR(d.lr(), 0.05, 1e-15);
}

TEST(Scheduler, SequencesBeginWithTheRateOfTheProgram) {
  SGD optimizer({parameter()}, 0.5);
  LambdaLR high(optimizer, [](int64_t) { return 2.0; });
  ExponentialLR decay(optimizer, 0.5);
  SequentialLR schedule(optimizer, {high, decay}, {2});
  expect_near(rates(optimizer, schedule, 5), {1.0, 1.0, 0.5, 0.25, 0.125});
  optimizer.set_lr(0.5);
  ConstantLR low(optimizer, 0.5, 1);
  MultiplicativeLR factors(optimizer, [](int64_t t) { return 1.0 / double(t); });
  ChainedScheduler both({low, factors});
  expect_near(rates(optimizer, both, 4), {0.25, 0.5, 0.25, 0.25 / 3});
}

TEST(Scheduler, MissingOptions) {
  SGD optimizer({parameter()}, 1.0);
  EXPECT_THROW(StepLR(optimizer, {}), ArgumentError);
  EXPECT_THROW(CosineAnnealingLR(optimizer, {}), ArgumentError);
  EXPECT_THROW(OneCycleLR(optimizer, {.max_lr = 1.0}), ArgumentError);
  try {
    const MultiStepLR steps(optimizer, {.milestones = {1, 4, 2}});
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("not ascending: 2 after 4"), std::string::npos);
  }
}

TEST(Clip, ByNorm) {
  const Variable a = parameter(), b = parameter(), unused = parameter();
  const auto set = [&] {
    a.zero_grad(), b.zero_grad();
    a.backward(tensor({1.0, 2.0, 2.0}, {.dtype = f64}));
    b.backward(tensor({0.0, 4.0, 0.0}, {.dtype = f64}));
  };
  set();
  EXPECT_NEAR(clip_grad_norm_({a, b, unused}, 2.5), 5.0, 1e-14);
  EXPECT_NEAR(a.grad().to_vector<double>()[1], 2.0 * 2.5 / (5 + 1e-6), 1e-14);
  EXPECT_NEAR(b.grad().to_vector<double>()[1], 4.0 * 2.5 / (5 + 1e-6), 1e-14);
  set();
  EXPECT_EQ(clip_grad_norm_({a, b}, 10.0), 5.0);
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{1, 2, 2}));
  EXPECT_EQ(clip_grad_norm_({a, b}, 10.0, INFINITY), 4.0);
  EXPECT_NEAR(clip_grad_norm_({a, b}, 100.0, 1.0), 9.0, 1e-14);
  a.zero_grad();
  a.backward(tensor({1.0, std::nan(""), 2.0}, {.dtype = f64}));
  EXPECT_THROW(clip_grad_norm_({a, b}, 1.0, 2.0, /*error_if_nonfinite=*/true), ArgumentError);
  EXPECT_EQ(b.grad().to_vector<double>()[1], 4.0);
}

TEST(Clip, GradientsWithoutDimensions) {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const Variable a = tensor(0.0).to(dtype).detach().requires_grad_();
    a.backward(tensor(12.0).to(dtype));
    EXPECT_EQ(clip_grad_norm_({a}, 3.0), 12.0);
    EXPECT_EQ(a.grad().dtype(), dtype);
    EXPECT_NEAR(a.grad().item(), 3.0, dtype == bf16 ? 0.02 : 2e-3);
  }
}

TEST(Clip, ByValue) {
  const Variable a = parameter();
  a.backward(tensor({-3.0, 0.5, 2.0}, {.dtype = f64}));
  clip_grad_value_({a}, 1.0);
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{-1, 0.5, 1}));
}

}  // namespace
}  // namespace tapegrad::optim
