// Optimizers that users derive, and options of groups.
#include "optim/custom.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/linear.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"

namespace tapegrad::optim {
namespace {

/// Adam, written with ops.
struct MyAdam : CustomOptimizer {
  explicit MyAdam(Params params, double lr = 1e-3)
      : CustomOptimizer("MyAdam", std::move(params), lr, 0.0, {"exp_avg", "exp_avg_sq"}) {}
  void update(Parameter& p) override {
    Variable &m = p.state[0], &v = p.state[1];
    m = 0.9 * m + 0.1 * p.grad;
    v = 0.999 * v + 0.001 * p.grad * p.grad;
    const double correction = 1 - std::pow(0.9, double(p.step));
    const Variable root = sqrt(v / (1 - std::pow(0.999, double(p.step)))) + 1e-8;
    sub_(p.value, p.lr / correction * m / root);
  }
};

Variable loss_of(const nn::Linear& layer) {
  return sum(square(layer(arange(6.0, {.dtype = f64}).to(f64) * ones({2, 6}, {.dtype = f64}))));
}

TEST(CustomOptimizer, EqualsTheKernel) {
  manual_seed(3);
  nn::Linear a(6, 2);
  a.to(f64);
  nn::Linear b = a.clone();
  MyAdam mine(a, 0.01);
  Adam theirs(b, 0.01);
  StepLR my_schedule(mine, 2, 0.5), their_schedule(theirs, 2, 0.5);
  for (int i = 0; i < 6; ++i) {
    for (auto& [layer, optimizer] :
         {std::pair<nn::Linear*, Optimizer*>{&a, &mine}, {&b, &theirs}}) {
      optimizer->zero_grad();
      loss_of(*layer).backward();
      optimizer->step();
    }
    my_schedule.step(), their_schedule.step();
  }
  const auto x = a.weight.to_vector<double>(), y = b.weight.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-13);
  EXPECT_TRUE(mine.state_dict().contains("state.1.exp_avg_sq"));

  MyAdam resumed(a, 0.5);
  resumed.load_state_dict(mine.state_dict());
  EXPECT_EQ(resumed.lr(), mine.lr());
  EXPECT_EQ(resumed.state_dict().at("state.0.step").item(), 6);
}

TEST(CustomOptimizer, RefusesAnotherShape) {
  struct Wrong : CustomOptimizer {
    explicit Wrong(Params params) : CustomOptimizer("Wrong", std::move(params), 0.1) {}
    void update(Parameter& p) override { p.value = sum(p.value); }
  };
  nn::Linear layer(2, 2);
  Wrong wrong(layer);
  sum(layer(ones({1, 2}))).backward();
  EXPECT_THROW(wrong.step(), ShapeError);
}

TEST(ParamGroup, HasEveryOptionOfItsOwn) {
  const auto leaf = [] { return full({3}, 2.0, {.dtype = f64, .requires_grad = true}); };
  const auto run = [](Optimizer& optimizer, const std::vector<Variable>& params) {
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      for (const Variable& p : params) sum(p * p).backward();
      optimizer.step();
    }
  };
  const Variable a = leaf(), b = leaf(), c = leaf(), d = leaf();
  SGD both({{.params = {a}}, {.params = {b}, .lr = 0.2, .momentum = 0.9, .nesterov = true}},
           {.lr = 0.1});
  SGD plain({c}, {.lr = 0.1});
  SGD fast({d}, {.lr = 0.2, .momentum = 0.9, .nesterov = true});
  run(both, {a, b}), run(plain, {c}), run(fast, {d});
  EXPECT_EQ(a.to_vector<double>(), c.to_vector<double>());
  EXPECT_EQ(b.to_vector<double>(), d.to_vector<double>());
  EXPECT_EQ(both.state_dict().contains("state.0.momentum_buffer"), false);
  EXPECT_EQ(both.state_dict().contains("state.1.momentum_buffer"), true);

  const Variable e = leaf(), f = leaf(), g = leaf();
  Adam adam(
      {{.params = {e}, .betas = {{0.5, 0.999}}, .eps = 1e-3, .amsgrad = true}, {.params = {f}}},
      {});
  Adam alone({g}, {.betas = {0.5, 0.999}, .eps = 1e-3, .amsgrad = true});
  run(adam, {e, f}), run(alone, {g});
  EXPECT_EQ(e.to_vector<double>(), g.to_vector<double>());
  Adam loaded(
      {{.params = {e}, .betas = {{0.5, 0.999}}, .eps = 1e-3, .amsgrad = true}, {.params = {f}}},
      {});
  loaded.load_state_dict(adam.state_dict());
  EXPECT_EQ(loaded.state_dict().size(), adam.state_dict().size());

  EXPECT_THROW(Adam({{.params = {e}, .momentum = 0.9}}, {}), ArgumentError);
  EXPECT_THROW(Adam({{.params = {e}, .betas = {{1.5, 0.9}}}}, {}), ArgumentError);
  EXPECT_THROW(adam.add_param_group({.params = {leaf()}, .betas = {{0.9, -1.0}}}), ArgumentError);
  EXPECT_EQ(adam.group_count(), 2);
  EXPECT_EQ(Adam({leaf()}, {}).lr(), 1e-3);  // not the number 0
}

}  // namespace
}  // namespace tapegrad::optim
