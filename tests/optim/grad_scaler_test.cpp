// The algorithm of torch.cuda.amp.GradScaler. Expected numbers follow from powers of two.
#include "optim/grad_scaler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"
#include "train/graphed_step.h"

namespace tapegrad::optim {
namespace {

struct Model {
  Variable p = tensor({1.0, 2.0}, {.dtype = f32, .requires_grad = true});
  SGD optimizer{{p}, 0.5};

  /// Runs a backward pass after which p's gradient is {g, 1} times the scale.
  void backward(const GradScaler& scaler, double g) {
    optimizer.zero_grad();
    scaler.scale(sum(p * tensor({g, 1.0}, {.dtype = f32}))).backward();
  }
};

TEST(GradScaler, StepsAsWithoutIt) {
  GradScaler scaler;
  EXPECT_EQ(scaler.get_scale(), 65536.0);
  Model model;
  model.backward(scaler, 3);
  EXPECT_EQ(model.p.grad().to_vector<float>(), (std::vector<float>{3 * 65536, 65536}));
  EXPECT_TRUE(scaler.step(model.optimizer));
  EXPECT_EQ(model.p.to_vector<float>(), (std::vector<float>{-0.5, 1.5}));
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 65536.0);
}

TEST(GradScaler, UnscalesForClipping) {
  GradScaler scaler;
  Model model;
  model.backward(scaler, 3);
  scaler.unscale_(model.optimizer);
  EXPECT_EQ(model.p.grad().to_vector<float>(), (std::vector<float>{3, 1}));
  EXPECT_TRUE(scaler.step(model.optimizer));  // does not divide again
  EXPECT_EQ(model.p.to_vector<float>(), (std::vector<float>{-0.5, 1.5}));
}

TEST(GradScaler, SkipsAndBacksOffThenGrows) {
  GradScaler scaler({.init_scale = 8, .growth_factor = 4, .growth_interval = 2});
  Model model;
  for (const double bad : {double(INFINITY), -double(INFINITY), double(NAN)}) {
    const double before = scaler.get_scale();
    model.backward(scaler, bad);
    EXPECT_FALSE(scaler.step(model.optimizer));
    EXPECT_EQ(model.p.to_vector<float>(), (std::vector<float>{1, 2}));
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), before / 2);
  }
  std::vector<double> scales;
  for (const double g : {0.0, 0.0, 0.0, double(INFINITY), 0.0, 0.0}) {
    model.backward(scaler, g);
    scaler.step(model.optimizer);
    scaler.update();
    scales.push_back(scaler.get_scale());
  }
  EXPECT_EQ(scales, (std::vector<double>{1, 4, 4, 2, 2, 8}));
}

TEST(GradScaler, OneBadOptimizerOfTwo) {
  GradScaler scaler({.init_scale = 8});
  Model good, bad;
  good.backward(scaler, 1);
  bad.backward(scaler, INFINITY);
  EXPECT_TRUE(scaler.step(good.optimizer));
  EXPECT_FALSE(scaler.step(bad.optimizer));
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 4.0);
}

TEST(GradScaler, GrowsNotBeyondFloat32) {
  GradScaler scaler({.init_scale = 0x1p127, .growth_interval = 1});
  Model model;
  model.backward(scaler, 0);
  model.optimizer.zero_grad();
  EXPECT_TRUE(scaler.step(model.optimizer));
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 0x1p127);
}

TEST(GradScaler, StateGoesOn) {
  GradScaler scaler({.init_scale = 8, .growth_interval = 2}), other;
  Model model;
  model.backward(scaler, 0);
  scaler.step(model.optimizer);
  scaler.update();
  other.load_state_dict(scaler.state_dict());
  EXPECT_EQ(other.get_scale(), 8.0);
  model.backward(other, 0);
  other.step(model.optimizer);
  other.update();
  EXPECT_EQ(other.get_scale(), 16.0);

  TensorMap state = scaler.state_dict();
  state.erase("growth_tracker");
  EXPECT_THROW(other.load_state_dict(state), ArgumentError);
  state = scaler.state_dict();
  state["scale"] = Tensor::full({}, -1.0, f64);
  EXPECT_THROW(other.load_state_dict(state), ArgumentError);
  EXPECT_EQ(other.get_scale(), 16.0);
}

TEST(GradScaler, DisabledItOnlySteps) {
  GradScaler scaler({.enabled = false});
  Model model;
  model.backward(scaler, 3);
  scaler.unscale_(model.optimizer);
  EXPECT_TRUE(scaler.step(model.optimizer));
  scaler.update();
  EXPECT_EQ(model.p.to_vector<float>(), (std::vector<float>{-0.5, 1.5}));
}

TEST(GradScaler, Errors) {
  EXPECT_THROW(GradScaler({.init_scale = 0}), ArgumentError);
  EXPECT_THROW(GradScaler({.init_scale = INFINITY}), ArgumentError);
  EXPECT_THROW(GradScaler({.growth_factor = 1}), ArgumentError);
  EXPECT_THROW(GradScaler({.backoff_factor = 1}), ArgumentError);
  EXPECT_THROW(GradScaler({.growth_interval = 0}), ArgumentError);

  GradScaler scaler;
  Model model;
  EXPECT_THROW(scaler.update(), ArgumentError);
  model.backward(scaler, 1);
  scaler.unscale_(model.optimizer);
  EXPECT_THROW(scaler.unscale_(model.optimizer), ArgumentError);
  scaler.step(model.optimizer);
  EXPECT_THROW(scaler.step(model.optimizer), ArgumentError);
  EXPECT_THROW(scaler.unscale_(model.optimizer), ArgumentError);
  scaler.update();

  const Variable half = tensor({1.0}, {.dtype = f16, .requires_grad = true});
  SGD optimizer({half}, 0.5);
  sum(half).backward();
  EXPECT_THROW(scaler.step(optimizer), DTypeError);
}

/// A parameter is used from the third step on, in which all gradients are infinite.
TEST(GradScaler, ASkippedCapturedStepMakesNoState) {
  const auto run = [](bool captured) {
    const Variable p = tensor({1.0, 2.0}, {.dtype = f32, .requires_grad = true});
    Variable q = tensor({3.0, 4.0}, {.dtype = f32});
    q.requires_grad_();
    Adam adam({p, q}, 0.1);
    q.requires_grad_(false);
    GradScaler scaler;
    GraphedStep step(
        [&](const Variable& x) {
          adam.zero_grad();
          const Variable loss = sum(p * q * x);
          scaler.scale(loss).backward();
          scaler.step(adam);
          scaler.update();
          return loss;
        },
        {}, {.enabled = captured, .warmup = 1});
    for (int i = 0; i < 6; ++i) {
      if (i == 3) q.requires_grad_();
      step(tensor({1.0, i < 3 ? 2.0 : INFINITY}, {.dtype = f32}));
    }
    return adam.state_dict();
  };
  const TensorMap eager = run(false), captured = run(true);
  EXPECT_EQ(eager.size(), captured.size());
  for (const auto& [name, value] : eager) {
    ASSERT_TRUE(captured.contains(name)) << name;
    EXPECT_EQ(Variable(value).to_vector<double>(), Variable(captured.at(name)).to_vector<double>())
        << name;
  }
}

TEST(GradScaler, RefusesGradientsThatWereNotScaled) {
  Variable w = ones({2}, {.requires_grad = true});
  SGD sgd({w}, 0.1);
  GradScaler scaler;
  sum(w).backward();
  EXPECT_THROW(scaler.step(sgd), ArgumentError);
  EXPECT_THROW(scaler.unscale_(sgd), ArgumentError);
  sgd.zero_grad();
  scaler.scale(sum(w)).backward();
  EXPECT_TRUE(scaler.step(sgd));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{0.9F, 0.9F}));
}

}  // namespace
}  // namespace tapegrad::optim
