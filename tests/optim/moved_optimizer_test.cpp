// Optimizers that are moved: their parameters, states, schedulers and captured steps follow.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "core/base/error.h"
#include "nn/linear.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "optim/adam_variants.h"
#include "optim/custom.h"
#include "optim/grad_scaler.h"
#include "optim/lbfgs.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "train/graphed_step.h"

namespace tapegrad::optim {
namespace {

struct Signs : CustomOptimizer {
  explicit Signs(Params params) : CustomOptimizer("Signs", std::move(params), 0.5, 0.0, {"sum"}) {}
  void update(Parameter& p) override {
    p.state[0] = p.state[0] + p.grad;
    p.value = p.value - p.lr * p.state[0];
  }
};

Variable leaf() { return tensor({1.0, -2.0}, {.requires_grad = true}); }
void take_step(Optimizer& optimizer, const Variable& w) {
  optimizer.zero_grad();
  sum(w * w * w).backward();
  optimizer.step();
}

/// Steps before and after a move give the weights of as many steps without a move.
template <typename Make>
void expect_same_path(const Make& make) {
  const Variable w = leaf(), moved = leaf();
  auto whole = make(w);
  for (int i = 0; i < 4; ++i) take_step(whole, w);
  auto first = make(moved);
  const uint64_t id = first.id();
  take_step(first, moved);
  std::vector<decltype(first)> list;
  list.push_back(std::move(first));
  take_step(list[0], moved);
  list.push_back(make(leaf()));  // moves the first one again
  take_step(list[0], moved);
  auto last = make(leaf());
  last = std::move(list[0]);
  take_step(last, moved);
  EXPECT_EQ(last.id(), id);
  EXPECT_EQ(w.to_vector<double>(), moved.to_vector<double>()) << last.kind();
  EXPECT_THROW(first.step(), ArgumentError);
  EXPECT_THROW(first.zero_grad(), ArgumentError);
  EXPECT_THROW(first.set_lr(0.5), ArgumentError);
  EXPECT_THROW(first.param_groups(), ArgumentError);
  EXPECT_THROW(first.add_param_group({.params = {w}}), ArgumentError);
  const TensorMap state = last.state_dict();
  EXPECT_THROW(first.load_state_dict(state), ArgumentError);
  EXPECT_THROW(first.state_dict(), ArgumentError);
  EXPECT_NE(first.id(), id);
  EXPECT_EQ(first.group_count(), 0);
}

TEST(MovedOptimizer, GoesOn) {
  expect_same_path([](const Variable& w) { return SGD({w}, 0.01, 0.9); });
  expect_same_path([](const Variable& w) { return Adam({w}, 0.01); });
  expect_same_path([](const Variable& w) { return AdamW({w}, 0.01); });
  expect_same_path([](const Variable& w) { return NAdam({w}, 0.01); });
  expect_same_path([](const Variable& w) { return RMSprop({w}, 0.01); });
  expect_same_path([](const Variable& w) { return Adagrad({w}, 0.01); });
  expect_same_path([](const Variable& w) { return Signs({w}); });
}

TEST(MovedOptimizer, LbfgsGoesOn) {
  const Variable w = leaf(), moved = leaf();
  const auto step = [](LBFGS& optimizer, const Variable& w) {
    optimizer.step([&] {
      optimizer.zero_grad();
      const Variable loss = sum(w * w * w * w - w);
      loss.backward();
      return loss;
    });
  };
  LBFGS whole({w}, {.lr = 0.1, .max_iter = 2}), first({moved}, {.lr = 0.1, .max_iter = 2});
  step(whole, w), step(whole, w);
  step(first, moved);
  LBFGS second = std::move(first);
  step(second, moved);
  EXPECT_EQ(w.to_vector<double>(), moved.to_vector<double>());
}

TEST(MovedOptimizer, SchedulersFollowIt) {
  std::optional<SGD> first(std::in_place, std::vector{leaf()}, 1.0);
  ExponentialLR decay(*first, 0.5);
  ReduceLROnPlateau plateau(*first, {.factor = 0.1, .patience = 0});
  SGD second = std::move(*first);
  first.reset();
  decay.step();
  EXPECT_EQ(second.lr(), 0.5);
  EXPECT_EQ(decay.get_last_lr(), std::vector<double>{0.5});
  plateau.step(1.0), plateau.step(2.0);
  EXPECT_NEAR(second.lr(), 0.05, 1e-16);
}

TEST(MovedOptimizer, SchedulersOfADestroyedOneThrow) {
  std::optional<SGD> optimizer(std::in_place, std::vector{leaf()}, 1.0);
  ExponentialLR decay(*optimizer, 0.5);
  ReduceLROnPlateau plateau(*optimizer);
  optimizer.emplace(std::vector{leaf()}, 1.0);  // another optimizer in the same place
  EXPECT_THROW(decay.step(), ArgumentError);
  EXPECT_THROW(plateau.get_last_lr(), ArgumentError);
  SGD assigned({leaf()}, 1.0);
  StepLR step(assigned, 1);
  assigned = SGD({leaf()}, 1.0);
  EXPECT_THROW(step.step(), ArgumentError);
  EXPECT_EQ(assigned.lr(), 1.0);
  const SGD elsewhere = std::move(assigned);
  EXPECT_THROW(StepLR(assigned, 1), ArgumentError);
}

TEST(MovedOptimizer, CapturedStepsFollowIt) {
  nn::Linear net(2, 1), copy = net.clone();
  const Variable x = tensor({{1.0, 2.0}, {0.5, -1.0}});
  std::optional<Adam> adam(std::in_place, net.parameters(), 0.1);
  GraphedStep step([&](const Variable& inputs) {
    adam->zero_grad();
    const Variable loss = sum(net(inputs) * net(inputs));
    loss.backward();
    adam->step();
    return loss;
  });
  Adam plain(copy.parameters(), 0.1);
  for (int i = 0; i < 6; ++i) {
    if (i == 4) {
      Adam moved = std::move(*adam);
      adam.emplace(std::move(moved));
    }
    step(x);
    EXPECT_TRUE(i < 3 || step.is_graphed()) << step.reason();
    plain.zero_grad();
    sum(copy(x) * copy(x)).backward();
    plain.step();
  }
  EXPECT_EQ(net.weight.to_vector<double>(), copy.weight.to_vector<double>());
}

}  // namespace
}  // namespace tapegrad::optim
