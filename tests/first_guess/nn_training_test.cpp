// Spellings that users of PyTorch, libtorch, Keras and Flux type first for optimizers, schedules,
// data and loops. Each expectation is one guess; see nn_layers_test.cpp.
#include <gtest/gtest.h>

#include "core/tape/recording.h"
#include "data/loader.h"
#include "data/split.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "optim/clip.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"

namespace tapegrad {
namespace {

struct Quadratic : nn::Model<Quadratic> {
  nn::Parameter w{ones({3})};
  void members(nn::Members& m) override { m("w", w); }
  Variable forward(const Variable& x) const { return sum(w * w * x); }
};

TEST(FirstGuess, Optimizers) {
  Quadratic model;
  const Variable x = ones({3});
  const auto train = [&](optim::Optimizer& opt) {
    opt.zero_grad();
    Variable loss = model(x);
    loss.backward();
    opt.step();
    return loss.item();
  };
  const auto falls = [&](optim::Optimizer&& opt) {
    const double first = train(opt);
    return train(opt) < first;
  };
  EXPECT_TRUE(falls(optim::SGD(model.parameters(), 0.1)));
  EXPECT_TRUE(falls(optim::SGD(model, 0.1)));
  EXPECT_TRUE(falls(optim::SGD(model->parameters(), 0.01, 0.9)));
  EXPECT_TRUE(falls(optim::SGD(model.parameters(), {.lr = 0.1, .momentum = 0.9})));
  EXPECT_TRUE(falls(optim::SGD({model.w}, 0.1)));
  EXPECT_TRUE(falls(optim::Adam(model.parameters(), 1e-3)));
  EXPECT_TRUE(falls(optim::Adam(model.parameters())));
  EXPECT_TRUE(falls(optim::Adam(model, 1e-3, {0.9, 0.99})));
  EXPECT_TRUE(falls(optim::AdamW(model.parameters(), 1e-3)));
  EXPECT_TRUE(falls(optim::RMSprop(model.parameters(), 1e-3)));
  EXPECT_TRUE(falls(optim::Adagrad(model.parameters(), 1e-3)));
  EXPECT_TRUE(falls(optim::Adadelta(model.parameters(), 1e-3)));

  optim::SGD opt(model.parameters(), 0.1);
  const Variable loss = opt.step([&] {
    opt.zero_grad();
    Variable y = model(x);
    y.backward();
    return y;
  });
  EXPECT_LT(model(x).item(), loss.item());
  EXPECT_EQ(opt.lr(), 0.1);
  opt.set_lr(0.01);
  optim::Adam other(model.parameters());
  optim::Adam same(model.parameters());
  train(other);
  same.load_state_dict(other.state_dict());
  EXPECT_EQ(same.state_dict().size(), other.state_dict().size());

  model(x).backward();
  EXPECT_GT(nn::utils::clip_grad_norm_(model.parameters(), 1.0), 0);
  EXPECT_LE(clip_grad_norm_(model.parameters(), 1.0), 1.0001);
  clip_grad_value_(model.parameters(), 0.1);
  EXPECT_LE(max(model.w.grad()).item(), 0.1001);
}

TEST(FirstGuess, FrozenParametersStay) {
  nn::Sequential net(nn::Linear(2, 3), nn::Linear(3, 1));
  for (auto& p : net[0].parameters()) p.requires_grad_(false);
  optim::Adam opt(net.parameters(), 0.1);
  const auto before = net[0].parameters()[0].to_vector<float>();
  const auto last = net[1].parameters()[0].to_vector<float>();
  sum(net(ones({1, 2}))).backward();
  opt.step();
  EXPECT_EQ(net[0].parameters()[0].to_vector<float>(), before);
  EXPECT_NE(net[1].parameters()[0].to_vector<float>(), last);
  optim::SGD head(net[1].parameters(), 0.1);
  net[0].requires_grad_(true);
  head.add_param_group({.params = net[0].parameters(), .lr = 0.01});
  EXPECT_EQ(head.lr(1), 0.01);
}

TEST(FirstGuess, Schedules) {
  Quadratic model;
  const auto rate_after = [&](auto make, int steps) {
    optim::SGD opt(model.parameters(), 1.0);
    auto scheduler = make(opt);
    for (int i = 0; i < steps; ++i) scheduler.step();
    EXPECT_EQ(scheduler.get_last_lr()[0], opt.lr());
    return opt.lr();
  };
  using optim::Optimizer;
  namespace lr_scheduler = optim::lr_scheduler;
  EXPECT_EQ(rate_after([](Optimizer& opt) { return lr_scheduler::StepLR(opt, 2); }, 2), 0.1);
  EXPECT_EQ(rate_after([](Optimizer& opt) { return optim::StepLR(opt, 30, 0.1); }, 30), 0.1);
  EXPECT_EQ(rate_after(
                [](Optimizer& opt) {
                  return optim::MultiStepLR(opt, {3, 8}, 0.5);
                },
                8),
            0.25);
  EXPECT_EQ(rate_after([](Optimizer& opt) { return optim::ExponentialLR(opt, 0.5); }, 2), 0.25);
  EXPECT_NEAR(rate_after([](Optimizer& opt) { return optim::CosineAnnealingLR(opt, 100); }, 50),
              0.5, 1e-12);
  EXPECT_EQ(rate_after([](Optimizer& opt) { return optim::LinearLR(opt, 0.5, 1.0, 4); }, 0), 0.5);
  EXPECT_NEAR(rate_after([](Optimizer& opt) { return optim::OneCycleLR(opt, 0.5, 100); }, 29), 0.5,
              1e-12);
  EXPECT_EQ(rate_after(
                [](Optimizer& opt) {
                  return optim::LambdaLR(opt, [](int epoch) { return epoch == 3 ? 0.25 : 1; });
                },
                3),
            0.25);
  EXPECT_EQ(
      rate_after([](Optimizer& opt) { return optim::CosineAnnealingWarmRestarts(opt, 10); }, 20),
      1.0);
  optim::SGD opt(model.parameters(), 1.0);
  optim::ReduceLROnPlateau plateau(opt);
  plateau.step(0.5);
  plateau.step(model(ones({3})));
  EXPECT_EQ(opt.lr(), 1.0);
}

class Squares : public Dataset {
 public:
  int64_t size() const override { return 10; }
  Example get(int64_t i, RandomGenerator&) const override {
    return {full({1}, double(i)), full({1}, double(i * i))};
  }
};

TEST(FirstGuess, Data) {
  TensorDataset ds(randn({10, 4}), arange(10));
  EXPECT_EQ(ds.size(), 10);
  EXPECT_EQ(ds[3].data.shape(), (Shape{4}));
  DataLoader loader(ds, 4, true);
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(loader.dataset().size(), 10);
  int64_t rows = 0;
  for (auto& [x, y] : loader) rows += x.size(0);
  for (auto [x, y] : DataLoader(ds, 32)) rows += y.size(0);
  for (auto& batch : loader) rows += batch.data.size(0) - batch.target.size(0);
  EXPECT_EQ(rows, 20);
  EXPECT_EQ(DataLoader(ds, {.batch_size = 5, .shuffle = true, .num_workers = 1}).size(), 2);
  EXPECT_EQ(DataLoader(Squares(), 5).size(), 2);
  DataLoader own(std::make_shared<Squares>(), 5);
  EXPECT_EQ(own.begin()->target.to_vector<float>(), (std::vector<float>{0, 1, 4, 9, 16}));
  auto parts = random_split(ds, {0.8, 0.2});
  EXPECT_EQ(parts[0].size(), 8);
  EXPECT_EQ(DataLoader(parts[1], 2).size(), 1);
  auto [train, test] = random_split(ds, {7, 3});
  EXPECT_EQ(train.size(), 7);
  EXPECT_EQ(test.size(), 3);
  const std::vector<Subset> list = random_split(ds, {0.5, 0.3, 0.2});
  EXPECT_EQ(list[2].size(), 2);
  EXPECT_THROW(random_split(ds, {7, 4}), ArgumentError);
  EXPECT_EQ(Subset(Squares(), {3, 3})[1].target.item(), 9);
  ConcatDataset both(ds, Squares());
  EXPECT_EQ(both.size(), 20);
  EXPECT_EQ(both[12].target.item(), 4);
}

TEST(FirstGuess, Loop) {
  manual_seed(0);
  const Device device = cpu;
  const Variable x = randn({64, 2}), y = sum(x, {1}, true);
  DataLoader loader(TensorDataset(x, y), 16, true);
  nn::Sequential model(nn::Linear(2, 8), nn::Tanh(), nn::Linear(8, 1));
  model.to(device);
  nn::MSELoss criterion;
  optim::Adam optimizer(model.parameters(), 1e-2);
  optim::StepLR scheduler(optimizer, 30, 0.1);
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    model.train();
    for (auto& [data, target] : loader) {
      optimizer.zero_grad();
      auto output = model(data.to(device));
      auto loss = criterion(output, target.to(device));
      loss.backward();
      nn::utils::clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      last = loss.item();
      if (first == 0) first = last;
    }
    scheduler.step();
  }
  EXPECT_LT(last, first / 2);
  model.eval();
  NoGrad no_grad;
  EXPECT_FALSE(model(x).requires_grad());
}

}  // namespace
}  // namespace tapegrad
