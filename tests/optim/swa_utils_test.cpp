// Averaged models and schedules, compared with values that PyTorch 2.15 printed (CPU).
#include "optim/swa_utils.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "data/dataset.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"

namespace tapegrad {
namespace {

using namespace optim::swa_utils;
using Doubles = std::vector<double>;

void set(nn::Sequential& net, double value) {
  auto& layer = dynamic_cast<nn::Linear&>(net[0]);
  const NoGrad no_grad;
  layer.weight.fill_(value), layer.bias.fill_(2 * value);
  dynamic_cast<nn::BatchNorm1d&>(net[1]).running_mean.fill_(10 * value);
}

/// Returns the weight, the running mean and the number of updates.
Doubles state_of(const AveragedModel<nn::Sequential>& average) {
  const TensorMap state = average.state_dict();
  return {state.at("module.0.weight").item(), state.at("module.1.running_mean").item(),
          state.at("n_averaged").item()};
}

void expect_near(const Doubles& got, const Doubles& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-6) << i;
}

TEST(SwaUtils, AveragesOfParametersAndBuffers) {
  nn::Sequential net{nn::Linear(1, 1), nn::BatchNorm1d(1)};
  set(net, 1);
  AveragedModel mean(net), ema(net, {.avg_fn = get_ema_multi_avg_fn(0.9)});
  AveragedModel with_buffers(net, {.use_buffers = true});
  AveragedModel multi(net, {.avg_fn = get_swa_avg_fn(), .multi_avg_fn = get_ema_multi_avg_fn(0.9)});
  const Doubles expected[][3] = {{{2, 20, 1}, {2, 20, 1}, {2, 20, 1}},
                                 {{3.5, 50, 2}, {2.299999952316284, 50, 2}, {3.5, 35, 2}},
                                 {{6, 110, 3}, {3.169999837875366, 110, 3}, {6, 60, 3}}};
  for (int i = 0; i < 3; ++i) {
    set(net, Doubles{2, 5, 11}[size_t(i)]);
    for (AveragedModel<nn::Sequential>* each : {&mean, &ema, &with_buffers, &multi})
      each->update_parameters(net);
    expect_near(state_of(mean), expected[i][0]);
    expect_near(state_of(ema), expected[i][1]);
    expect_near(state_of(with_buffers), expected[i][2]);
    EXPECT_EQ(state_of(multi), state_of(ema));
  }
  mean.eval();
  const Variable x = full({2, 1}, 3.0);
  const Variable direct = mean.module(x);
  EXPECT_EQ(mean(x).to_vector<float>(), direct.to_vector<float>());
  EXPECT_THROW(mean.update_parameters(nn::Linear(1, 1)), ArgumentError);
  EXPECT_THROW(get_ema_avg_fn(1.5), ArgumentError);
  AveragedModel copy(net);
  copy.load_state_dict(mean.state_dict());
  EXPECT_EQ(state_of(copy), state_of(mean));
}

TEST(SwaUtils, UpdateBn) {
  nn::Sequential net{nn::BatchNorm1d(1), nn::Linear(1, 1)};
  net.eval();
  auto& norm = dynamic_cast<nn::BatchNorm1d&>(net[0]);
  const std::vector<Variable> batches{tensor({1., 2., 3.}).view({3, 1}),
                                      tensor({4., 8.}).view({2, 1}),
                                      tensor({0., 10., 20., 30.}).view({4, 1})};
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second time from other statistics
    update_bn(batches, net);
    EXPECT_NEAR(norm.running_mean.item(), 7.6666665077, 1e-6);
    EXPECT_NEAR(norm.running_var.item(), 58.5555572510, 1e-5);
    EXPECT_EQ(norm.num_batches_tracked.item(), 3);
    EXPECT_EQ(norm.momentum(), 0.1);
    EXPECT_FALSE(net.is_training());
    EXPECT_FALSE(norm.is_training());
  }
  std::vector<Example> examples;
  for (const Variable& x : batches) examples.push_back({x, zeros({x.size(0)})});
  norm.reset_running_stats();
  update_bn(examples, net);
  EXPECT_NEAR(norm.running_mean.item(), 7.6666665077, 1e-6);
  nn::Linear without(1, 1);
  update_bn(batches, without);
}

Doubles rates_of(optim::AnnealStrategy strategy, int64_t epochs) {
  nn::Linear net(1, 1);
  optim::SGD sgd(net, 1.0);
  SWALR schedule(sgd, {.swa_lr = 0.1, .anneal_epochs = epochs, .anneal_strategy = strategy});
  Doubles rates{sgd.lr()};
  for (int i = 0; i < 6; ++i) {
    schedule.step();
    rates.push_back(sgd.lr());
  }
  return rates;
}

struct SumOfTwo : nn::Model<SumOfTwo> {
  nn::Linear of_x{2, 1}, of_y{3, 1};
  void members(nn::Members& m) override { m("of_x", of_x)("of_y", of_y); }
  Variable forward(const Variable& x, const Variable& y) const { return of_x(x) + of_y(y); }
};

TEST(SwaUtils, AModelOfTwoInputs) {
  const SumOfTwo net;
  AveragedModel average(net);
  average.update_parameters(net);
  const Variable x = ones({4, 2}), y = ones({4, 3});
  EXPECT_EQ(average(x, y).to_vector<double>(), net(x, y).to_vector<double>());
  EXPECT_THROW(average.call(x, Where::current()), ArgumentError);
}

TEST(SwaUtils, SWALR) {
  const auto close = [](const Doubles& got, const Doubles& expected) {
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-15) << i;
  };
  close(rates_of(optim::AnnealStrategy::kCos, 4),
        {1, 0.8681980515339464, 0.55, 0.23180194846605365, 0.1, 0.1, 0.1});
  close(rates_of(optim::AnnealStrategy::kLinear, 4), {1, 0.775, 0.55, 0.325, 0.1, 0.1, 0.1});
  close(rates_of(optim::AnnealStrategy::kLinear, 0), {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1});
  nn::Linear net(1, 1);
  optim::SGD sgd(net, 1.0);
  EXPECT_THROW(SWALR(sgd, -0.1), ArgumentError);
  EXPECT_THROW(SWALR(sgd, 0.1, -1), ArgumentError);
  EXPECT_THROW(SWALR(sgd, 0.1, 3, "sine"), ArgumentError);
}

TEST(Plateau, OptionsByName) {
  nn::Linear net(1, 1);
  const auto run = [&](const Doubles& measures, auto make) {
    optim::SGD sgd(net, 1.0);
    auto schedule = make(sgd);
    Doubles rates;
    for (const double measure : measures) {
      schedule.step(measure);
      rates.push_back(schedule.get_last_lr()[0]);
    }
    return rates;
  };
  const Doubles measures{1, 1.05, 1.2, 1.25, 1.28, 1.29, 1.3, 1.29, 1.2, 1.1, 1.0, 0.9, 0.8};
  const Doubles expected{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2};
  EXPECT_EQ(run(measures,
                [](optim::Optimizer& o) {
                  return optim::ReduceLROnPlateau(o, {.mode = "max",
                                                      .factor = 0.5,
                                                      .patience = 1,
                                                      .threshold = 0.1,
                                                      .threshold_mode = "abs",
                                                      .cooldown = 1,
                                                      .min_lr = 0.2});
                }),
            expected);
  EXPECT_EQ(run(measures,
                [](optim::Optimizer& o) {
                  return optim::ReduceLROnPlateau(o, "max", 0.5, 1, 0.1, "abs", 1, 0.2);
                }),
            expected);
  EXPECT_EQ(run({1, 0.6, 0.4, 0.3, 0.1},
                [](optim::Optimizer& o) {
                  return optim::ReduceLROnPlateau(o, "min", 0.1, 0, 0.5, "rel");
                }),
            (Doubles{1, 0.1, 0.1, 0.010000000000000002, 0.010000000000000002}));
  optim::SGD sgd(net, 1.0);
  EXPECT_THROW(optim::ReduceLROnPlateau(sgd, "least"), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
