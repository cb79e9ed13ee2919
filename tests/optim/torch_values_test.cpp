// NAdam, RAdam, Adamax, Rprop, ASGD and LBFGS, compared with values that PyTorch 2.15 printed (CPU,
// float64 as default dtype).
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "nn/linear.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/adam_variants.h"
#include "optim/lbfgs.h"
#include "optim/optimizers.h"
#include "tests/error_message.h"

namespace tapegrad::optim {
namespace {

using testing::message_of;

Variable leaf(const std::vector<double>& values) { return tensor(values, f64).requires_grad_(); }

void expect_near(const Variable& x, const std::vector<double>& expected) {
  const std::vector<double> values = x.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-12) << i;
}

/// Twelve steps of sum(w^4 / 4 + sin(3 w)) times the sign.
template <typename Make>
void expect_path(const Make& make, const std::vector<double>& expected, double sign = 1) {
  const Variable w = leaf({1.0, -2.0, 0.5});
  const auto take = [&](Optimizer& opt, int steps) {
    for (int i = 0; i < steps; ++i) {
      opt.zero_grad();
      (sign * sum(pow(w, 4) / 4 + sin(3 * w))).backward();
      opt.step();
    }
  };
  auto first = make(Params({w}));
  take(first, 5);
  auto second = make(Params({w}));  // continues from the saved state
  second.load_state_dict(first.state_dict());
  take(second, 7);
  expect_near(w, expected);
}

/// Six steps of sum(w^4 / 4 - w^2 + 0.3 w), of which two are by an optimizer that continues.
template <typename Make>
TensorMap path_of_wells(const Make& make, const std::vector<double>& expected) {
  const Variable w = leaf({1.0, -2.0, 0.5, 3.0});
  const auto take = [&](Optimizer& opt, int steps) {
    for (int i = 0; i < steps; ++i) {
      opt.zero_grad();
      sum(pow(w, 4) / 4 - w * w + 0.3 * w).backward();
      opt.step();
    }
  };
  auto first = make(Params({w}));
  take(first, 4);
  auto second = make(Params({w}));
  second.load_state_dict(first.state_dict());
  take(second, 2);
  expect_near(w, expected);
  return second.state_dict();
}

TEST(TorchValues, Rprop) {
  path_of_wells([](Params p) { return Rprop(std::move(p), 0.1); },
                {1.292, -1.5495999999999999, 1.4929919999999999, 2.0070079999999999});
}

TEST(TorchValues, ASGD) {
  const TensorMap state = path_of_wells(
      [](Params p) {
        return ASGD(std::move(p), {.lr = 0.1, .lambd = 0.01, .t0 = 2, .weight_decay = 0.1});
      },
      {1.234895700036184, -1.4549928610741389, 0.87722352005799653, 1.1358813249553044});
  expect_near(Variable(state.at("state.0.ax")),
              {1.2124150566640894, -1.4619616854480484, 0.80772476525643311, 1.0867327151348007});
}

TEST(TorchValues, NAdam) {
  expect_path([](Params p) { return NAdam(std::move(p)); },
              {1.0195565541163802, -1.9804935347683419, 0.47903662491473681});
  expect_path(
      [](Params p) {
        return NAdam(
            std::move(p),
            {.lr = 0.05, .betas = {0.8, 0.9}, .weight_decay = 0.1, .momentum_decay = 0.01});
      },
      {1.3019225114964286, -1.4702569214323047, -0.16439862048308004});
  expect_path(
      [](Params p) {
        return NAdam(std::move(p),
                     {.lr = 0.05, .weight_decay = 0.1, .decoupled_weight_decay = true});
      },
      {1.2901255765272426, -1.4331922374049653, -0.13451384483223924});
}

TEST(TorchValues, RAdam) {
  expect_path([](Params p) { return RAdam(std::move(p), 0.01); },
              {1.0988000321520115, -1.7609677389705978, 0.47849362942694185});
  expect_path(
      [](Params p) {
        return RAdam(std::move(p), {.lr = 0.05, .betas = {0.8, 0.9}, .weight_decay = 0.1});
      },
      {1.3033912614609535, -0.70502951793334101, 0.19215140576378545});
  expect_path(
      [](Params p) {
        return RAdam(std::move(p), {.lr = 0.05,
                                    .betas = {0.8, 0.95},
                                    .weight_decay = 0.1,
                                    .decoupled_weight_decay = true});
      },
      {1.2944290361173536, -0.72421356951021076, 0.22279254797621201});
}

TEST(TorchValues, Adamax) {
  expect_path([](Params p) { return Adamax(std::move(p)); },
              {1.0239809900402226, -1.9761475553556962, 0.47787527882566616});
  // The options of a group replace those of the optimizer.
  expect_path(
      [](Params p) {
        ParamGroup group{
            .params = p.groups()[0].params, .lr = 0.05, .betas = {{0.8, 0.9}}, .eps = 1e-6};
        return Adamax(std::vector{group}, {.weight_decay = 0.1});
      },
      {1.3172660432651706, -1.3742635916337425, 0.032359198161497876});
}

TEST(TorchValues, Maximize) {
  const auto expect_ascent = [](const auto& make, const std::vector<double>& expected) {
    expect_path(make, expected, -1);
  };
  expect_ascent([](Params p) { return Adagrad(std::move(p), {.lr = 0.05, .maximize = true}); },
                {1.232838649206224, -1.7376247898797923, 0.12679756411780432});
  expect_ascent([](Params p) { return Adadelta(std::move(p), {.rho = 0.8, .maximize = true}); },
                {1.0310787766810512, -1.9691230869689929, 0.46195678372432436});
  expect_ascent([](Params p) { return NAdam(std::move(p), {.lr = 0.02, .maximize = true}); },
                {1.1812754126304563, -1.8127398070540572, 0.24930343133412258});
  expect_ascent([](Params p) { return RAdam(std::move(p), {.lr = 0.02, .maximize = true}); },
                {1.1888853156043135, -1.5415792706760285, 0.4536398848180388});
  expect_ascent([](Params p) { return Adamax(std::move(p), {.lr = 0.02, .maximize = true}); },
                {1.2142257054957497, -1.7803943792610935, 0.3175128349506168});
  expect_ascent([](Params p) { return Rprop(std::move(p), {.lr = 0.02, .maximize = true}); },
                {1.3120657919999998, -1.2083899551744004, -0.29161004482559993});
  expect_ascent([](Params p) { return ASGD(std::move(p), {.lr = 0.02, .maximize = true}); },
                {1.2723101957569374, -0.9919061424493573, 0.2888483829326504});
}

struct Rosenbrock {
  Variable w = leaf({-1.2, 1.0}), v = leaf({-0.5, 0.8});
  int calls = 0;

  std::function<Variable()> closure(Optimizer& opt) {
    return [this, &opt] {
      ++calls;
      opt.zero_grad();
      const Variable x = cat({w, v}), a = narrow(x, 0, 0, 3), b = narrow(x, 0, 1, 3);
      Variable loss = sum(100 * square(b - square(a)) + square(1 - a));
      loss.backward();
      return loss;
    };
  }
};

void expect_lbfgs(LBFGSOptions options, int steps, const std::vector<double>& expected, double loss,
                  int calls) {
  Rosenbrock problem;
  Variable last;
  for (int i = 0; i < steps; ++i) {
    // Each step continues from the saved state of the last one.
    static TensorMap state;
    LBFGS opt({problem.w, problem.v}, options);
    if (i > 0) opt.load_state_dict(state);
    last = opt.step(problem.closure(opt));
    state = opt.state_dict();
  }
  expect_near(cat({problem.w.detach(), problem.v.detach()}), expected);
  EXPECT_NEAR(last.item(), loss, 1e-12 * loss);
  EXPECT_EQ(problem.calls, calls);
}

TEST(TorchValues, LBFGS) {
  expect_lbfgs(
      {.max_iter = 5}, 1,
      {-0.44849740321390169, 0.20149187085709366, 0.044303693634063598, 0.016895591162471961},
      281.69999999999999, 5);
  expect_lbfgs(
      {.max_iter = 1}, 1,
      {-0.99080147486900827, 0.50320201824180089, -0.31273044828255381, 0.69326605860663693},
      281.69999999999999, 1);
  expect_lbfgs({.lr = 0.1, .max_iter = 8}, 3,
               {-0.85075361890986423, 0.70491972901602917, 0.4176340718711849, 0.19844529659529864},
               9.109372561380825, 24);
  expect_lbfgs(
      {.lr = 0.1, .max_iter = 8, .history_size = 3}, 3,
      {-0.86521911209536195, 0.72943686140441699, 0.44392026054422207, 0.20827127513397498},
      9.2800849124210902, 24);
  expect_lbfgs({.lr = 0.01}, 2,
               {-1.068511999382143, 0.94638862781121613, 0.27028826551366142, 0.32675923274043495},
               139.28409088763908, 40);
}

TEST(TorchValues, LBFGSEndsAfterASmallChange) {
  expect_lbfgs({.max_iter = 30, .tolerance_change = 0.5, .line_search_fn = "strong_wolfe"}, 1,
               {-0.9908014748690083, 0.5032020182418009, -0.3127304482825538, 0.6932660586066369},
               281.7, 2);
  expect_lbfgs({.tolerance_change = 1e6}, 1, {-1.2, 1.0, -0.5, 0.8}, 281.7, 1);
}

TEST(TorchValues, LBFGSWithALineSearch) {
  expect_lbfgs(
      {.max_iter = 8, .line_search_fn = "strong_wolfe"}, 1,
      {-0.43175220511611778, 0.20068354016615303, 0.050604858827616832, 0.0004591899904692661},
      281.69999999999999, 9);
  expect_lbfgs(
      {.max_iter = 4, .line_search_fn = "strong_wolfe"}, 3,
      {-0.19767877525797881, 0.050825317764084547, -0.028366392336012861, 0.0045631939491321549},
      3.6216604078262162, 16);
  expect_lbfgs(
      {.max_iter = 6, .max_eval = 30, .history_size = 2, .line_search_fn = "strong_wolfe"}, 2,
      {0.17198973398932624, 0.079446736959771252, -0.015035316635519347, 0.0054319644704898867},
      3.6392441200133696, 18);
  // The minimum, where rounding errors have grown.
  Rosenbrock problem;
  LBFGS opt({problem.w, problem.v}, {.max_iter = 100, .line_search_fn = "strong_wolfe"});
  opt.step(problem.closure(opt));
  for (const double each : problem.w.to_vector<double>()) EXPECT_NEAR(each, 1, 1e-6);
}

TEST(TorchValues, LBFGSRefusesWhatItCannotDo) {
  Rosenbrock problem;
  LBFGS opt({problem.w, problem.v}, 0.5);
  problem.closure(opt)();
  EXPECT_NE(message_of<ArgumentError>([&] { opt.step(); }).find("opt.step([&]"), std::string::npos);
  EXPECT_NE(message_of<ArgumentError>([&] { opt.step(std::function<Variable()>()); }).find("empty"),
            std::string::npos);
  EXPECT_NE(
      message_of<ArgumentError>([&] { opt.step([&] { return problem.w; }); }).find("one element"),
      std::string::npos);
  EXPECT_NE(message_of<ArgumentError>([&] {
              LBFGS({problem.w}, {.line_search_fn = "wolfe"});
            }).find("wolfe"),
            std::string::npos);
  EXPECT_NE(
      message_of<ArgumentError>([&] { LBFGS({problem.w}, {.max_iter = 0}); }).find("max_iter"),
      std::string::npos);
  EXPECT_NE(message_of<ArgumentError>([&] {
              NAdam({problem.w}, {.betas = {1.5, 0.9}});
            }).find("betas"),
            std::string::npos);
  // A state of another size changes nothing.
  opt.step(problem.closure(opt));
  TensorMap state = opt.state_dict();
  state["lbfgs.direction"] = Tensor::full({3}, 0, f64);
  const auto direction = [&] {
    return Variable(opt.state_dict()["lbfgs.direction"]).to_vector<double>();
  };
  const std::vector<double> before = direction();
  EXPECT_NE(message_of<ArgumentError>([&] { opt.load_state_dict(state); }).find("lbfgs.direction"),
            std::string::npos);
  EXPECT_EQ(direction(), before);
}

TEST(TorchValues, SixteenBitParametersKeepStateInFloat32) {
  nn::Linear layer(3, 2);
  layer.to(f16);
  for (int kind = 0; kind < 3; ++kind) {
    const auto step = [&](Optimizer&& opt) {
      opt.zero_grad();
      sum(layer(ones({1, 3}, f16))).backward();
      opt.step();
      EXPECT_EQ(opt.state()[0].dtype(), f32);
    };
    if (kind == 0) step(NAdam(layer));
    if (kind == 1) step(RAdam(layer));
    if (kind == 2) step(Adamax(layer));
  }
  EXPECT_EQ(layer.weight.dtype(), f16);
}

}  // namespace
}  // namespace tapegrad::optim
