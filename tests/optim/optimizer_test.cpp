// Compares each optimizer with its published formula in double.
#include "optim/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/tape/recording.h"
#include "nn/linear.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "optim/adam_variants.h"
#include "optim/scheduler.h"
#include "tests/error_message.h"

namespace tapegrad::optim {
namespace {

using testing::expect_error;

constexpr int kSize = 37, kSteps = 6;

double start(int i) { return std::sin(0.7 * i) + 0.1; }
/// Returns a gradient that depends on the step and the parameter.
double slope(int step, int i, double p) { return std::cos(0.3 * i + step) + 0.5 * p; }

/// A formula's state of one element.
struct Element {
  double p, a = 0, b = 0, c = 0;
};

Variable parameter(DType dtype = f64) {
  std::vector<double> values;
  for (int i = 0; i < kSize; ++i) values.push_back(start(i));
  return tensor(values, {.dtype = dtype, .requires_grad = true});
}

/// Gives the parameter the gradient g by backward(): d sum(p g) / dp = g.
void set_gradient(const Variable& p, const std::vector<double>& g) {
  p.zero_grad();
  p.backward(Variable(Tensor::from<double>(g, p.shape()).to(p.dtype())));
}

/// Runs the optimizer and the formula, and compares the parameters.
void expect_follows(Optimizer& optimizer, const Variable& p,
                    const std::function<void(Element&, double g, int t)>& formula) {
  std::vector<Element> expected;
  for (int i = 0; i < kSize; ++i) expected.push_back({start(i)});
  for (int t = 1; t <= kSteps; ++t) {
    std::vector<double> g;
    for (int i = 0; i < kSize; ++i) g.push_back(slope(t, i, expected[i].p));
    set_gradient(p, g);
    optimizer.step();
    for (int i = 0; i < kSize; ++i) formula(expected[i], g[i], t);
    const std::vector<double> got = p.to_vector<double>();
    for (int i = 0; i < kSize; ++i) ASSERT_NEAR(got[i], expected[i].p, 1e-12) << t << ' ' << i;
  }
}

TEST(SGD, FollowsTheFormula) {
  const Variable p = parameter();
  SGD optimizer({p}, 0.1);
  expect_follows(optimizer, p, [](Element& e, double g, int) { e.p -= 0.1 * g; });
}

/// A subnormal mean would slow down all later steps.
void expect_mean_vanishes(Optimizer&& optimizer, const Variable& p, const char* mean) {
  int seen = 0;
  for (int t = 0; t < 1500; ++t) {
    set_gradient(p, std::vector<double>(kSize, t == 0 ? 1e-4 : 0));
    optimizer.step();
    for (const auto& [name, x] : optimizer.state_dict()) {
      if (!name.ends_with(mean)) continue;
      ++seen;
      for (const float m : Variable(x).to_vector<float>())
        ASSERT_TRUE(m == 0 || std::isnormal(m)) << name << ' ' << m << " in step " << t;
    }
  }
  EXPECT_EQ(seen, 1500) << mean;
}

TEST(Optimizers, MeansOfVanishedGradientsAreNotSubnormal) {
  const Variable p = parameter(f32);
  expect_mean_vanishes(SGD({p}, {.lr = 0.1, .momentum = 0.9}), p, "momentum_buffer");
  expect_mean_vanishes(Adam({p}), p, "exp_avg");
  expect_mean_vanishes(NAdam({p}), p, "exp_avg");
  expect_mean_vanishes(RAdam({p}), p, "exp_avg");
  expect_mean_vanishes(Adamax({p}), p, "exp_avg");
  expect_mean_vanishes(RMSprop({p}, {.lr = 0.1, .momentum = 0.9}), p, "momentum_buffer");
  expect_mean_vanishes(RMSprop({p}, {.lr = 0.1, .alpha = 0.9, .centered = true}), p, "grad_avg");
}

TEST(SGD, MomentumDampeningDecay) {
  const Variable p = parameter();
  SGD optimizer({p}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.02});
  expect_follows(optimizer, p, [](Element& e, double g, int t) {
    g += 0.02 * e.p;
    e.a = t == 1 ? g : 0.9 * e.a + 0.7 * g;
    e.p -= 0.1 * e.a;
  });
}

TEST(SGD, Nesterov) {
  const Variable p = parameter();
  SGD optimizer({p}, {.lr = 0.05, .momentum = 0.8, .weight_decay = 0.01, .nesterov = true});
  expect_follows(optimizer, p, [](Element& e, double g, int t) {
    g += 0.01 * e.p;
    e.a = t == 1 ? g : 0.8 * e.a + g;
    e.p -= 0.05 * (g + 0.8 * e.a);
  });
}

void adam_formula(Element& e, double g, int t, double lr, bool amsgrad) {
  e.a = 0.8 * e.a + 0.2 * g;
  e.b = 0.95 * e.b + 0.05 * g * g;
  e.c = std::max(e.c, e.b);
  const double m = e.a / (1 - std::pow(0.8, t));
  const double v = (amsgrad ? e.c : e.b) / (1 - std::pow(0.95, t));
  e.p -= lr * m / (std::sqrt(v) + 1e-6);
}

TEST(Adam, FollowsTheFormula) {
  for (const bool amsgrad : {false, true}) {
    const Variable p = parameter();
    Adam optimizer(
        {p},
        {.lr = 0.02, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0.03, .amsgrad = amsgrad});
    expect_follows(optimizer, p, [&](Element& e, double g, int t) {
      adam_formula(e, g + 0.03 * e.p, t, 0.02, amsgrad);
    });
  }
}

TEST(AdamW, DecaysTheParameterItself) {
  const Variable p = parameter();
  AdamW optimizer({p}, {.lr = 0.02, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0.3});
  expect_follows(optimizer, p, [](Element& e, double g, int t) {
    e.p *= 1 - 0.02 * 0.3;
    adam_formula(e, g, t, 0.02, false);
  });
}

TEST(Adagrad, FollowsTheFormula) {
  const Variable p = parameter();
  Adagrad optimizer({p}, {.lr = 0.1,
                          .lr_decay = 0.2,
                          .weight_decay = 0.01,
                          .initial_accumulator_value = 0.5,
                          .eps = 1e-7});
  expect_follows(optimizer, p, [](Element& e, double g, int t) {
    g += 0.01 * e.p;
    e.a += g * g;
    e.p -= 0.1 / (1 + (t - 1) * 0.2) * g / (std::sqrt(0.5 + e.a) + 1e-7);
  });
}

TEST(RMSprop, FollowsTheFormula) {
  for (const bool centered : {false, true})
    for (const double momentum : {0.0, 0.6}) {
      const Variable p = parameter();
      RMSprop optimizer({p}, {.lr = 0.01,
                              .alpha = 0.9,
                              .eps = 1e-4,
                              .weight_decay = 0.02,
                              .momentum = momentum,
                              .centered = centered});
      expect_follows(optimizer, p, [&](Element& e, double g, int) {
        g += 0.02 * e.p;
        e.a = 0.9 * e.a + 0.1 * g * g;
        e.b = 0.9 * e.b + 0.1 * g;
        const double u = g / (std::sqrt(centered ? e.a - e.b * e.b : e.a) + 1e-4);
        e.c = momentum * e.c + u;
        e.p -= 0.01 * (momentum > 0 ? e.c : u);
      });
    }
}

void adadelta_formula(Element& e, double g, double lr, double rho, double eps) {
  e.a = rho * e.a + (1 - rho) * g * g;
  const double u = std::sqrt(e.b + eps) / std::sqrt(e.a + eps) * g;
  e.b = rho * e.b + (1 - rho) * u * u;
  e.p -= lr * u;
}

TEST(Adadelta, BothDefaultsByName) {
  const Variable p = parameter();
  Adadelta standard({p});
  expect_follows(standard, p,
                 [](Element& e, double g, int) { adadelta_formula(e, g, 1.0, 0.9, 1e-6); });
  const Variable q = parameter();
  Adadelta keras = Adadelta::keras({q});
  expect_follows(keras, q,
                 [](Element& e, double g, int) { adadelta_formula(e, g, 0.001, 0.95, 1e-7); });
}

TEST(Optimizer, LargeParametersStepInParallelAlike) {
  const int64_t n = 100'003;
  Variable p = full({n}, 1.0, {.dtype = f64, .requires_grad = true});
  Adam optimizer({p}, 0.5);
  p.backward(full({n}, 3.0, {.dtype = f64}));
  optimizer.step();
  for (const double value : p.to_vector<double>())
    ASSERT_NEAR(value, 1 - 0.5 * 3 / (3 + 1e-8), 1e-12);
}

TEST(Optimizer, SixteenBitParametersKeepFloatState) {
  for (const DType dtype : {f16, bf16}) {
    const Variable p = parameter(dtype);
    Adam optimizer({p}, 0.1);
    // The square, 1e-10, underflows to 0 in float16; with a float16 state the step would be 0.1 /
    // eps.
    p.backward(Variable(Tensor::full({kSize}, 1e-5, dtype)));
    const std::vector<double> before = p.to_vector<double>();
    optimizer.step();
    EXPECT_EQ(optimizer.state_dict().at("state.0.exp_avg_sq").dtype(), f32);
    const std::vector<double> after = p.to_vector<double>();
    for (int i = 0; i < kSize; ++i) EXPECT_NEAR(before[i] - after[i], 0.1, 0.012);
  }
}

TEST(Optimizer, SkipsParametersWithoutAGradient) {
  const Variable used = parameter(), unused = parameter();
  AdamW optimizer({used, unused}, {.weight_decay = 0.5});
  set_gradient(used, std::vector<double>(kSize, 1.0));
  optimizer.step();
  EXPECT_EQ(unused.to_vector<double>(), parameter().to_vector<double>());
  EXPECT_NE(used.to_vector<double>(), parameter().to_vector<double>());
}

TEST(Optimizer, GroupsHaveRatesOfTheirOwn) {
  const Variable a = parameter(), b = parameter();
  SGD optimizer({{.params = {a}}, {.params = {b}, .lr = 0.5, .weight_decay = 0.1}}, {.lr = 0.25});
  EXPECT_EQ(optimizer.lr(0), 0.25);
  EXPECT_EQ(optimizer.lr(1), 0.5);
  for (const Variable& p : {a, b}) set_gradient(p, std::vector<double>(kSize, 1.0));
  optimizer.step();
  EXPECT_NEAR(a.to_vector<double>()[3], start(3) - 0.25, 1e-15);
  EXPECT_NEAR(b.to_vector<double>()[3], start(3) - 0.5 * (1 + 0.1 * start(3)), 1e-15);
  optimizer.set_lr(0.125);
  EXPECT_EQ(optimizer.lr(1), 0.125);
  EXPECT_THROW(optimizer.set_lr(2, 0.1), IndexError);
  EXPECT_THROW(optimizer.set_lr(-1.0), ArgumentError);
}

TEST(Optimizer, StepIsSeenByTheVersion) {
  const Variable p = parameter();
  SGD optimizer({p}, 0.1);
  set_gradient(p, std::vector<double>(kSize, 1.0));
  const uint32_t before = p.value().storage().version();
  optimizer.step();
  EXPECT_GT(p.value().storage().version(), before);
}

TEST(Optimizer, T53_StateGoesOnBitForBit) {
  const auto train = [](Optimizer& optimizer, const Variable& p, int from, int to) {
    for (int t = from; t < to; ++t) {
      std::vector<double> g;
      for (int i = 0; i < kSize; ++i) g.push_back(slope(t, i, 0));
      set_gradient(p, g);
      optimizer.step();
    }
  };
  const auto check = [&](auto make) {
    const Variable whole = parameter(), half = parameter();
    auto first = make(whole);
    train(*first, whole, 0, 10);
    auto second = make(half);
    train(*second, half, 0, 5);
    second->set_lr(0.07);
    const TensorMap state = second->state_dict();
    const Variable resumed(half.value().clone());
    Variable(resumed).requires_grad_();
    auto third = make(resumed);
    third->load_state_dict(state);
    EXPECT_EQ(third->lr(), 0.07);
    third->set_lr(first->lr());
    train(*third, resumed, 5, 10);
    EXPECT_EQ(resumed.to_vector<double>(), whole.to_vector<double>());
  };
  check([](Variable p) {
    return std::make_unique<SGD>(Params{p}, SGDOptions{.lr = 0.1, .momentum = 0.9});
  });
  check([](Variable p) { return std::make_unique<Adam>(Params{p}, AdamOptions{.amsgrad = true}); });
  check([](Variable p) { return std::make_unique<AdamW>(Params{p}, 0.01); });
  check([](Variable p) { return std::make_unique<Adagrad>(Params{p}, 0.01); });
  check([](Variable p) { return std::make_unique<Adadelta>(Params{p}, 0.5); });
  check([](Variable p) {
    return std::make_unique<RMSprop>(Params{p}, RMSpropOptions{.momentum = 0.5, .centered = true});
  });
}

TEST(Optimizer, StateThatDoesNotFitIsOneErrorAndChangesNothing) {
  const Variable p = parameter();
  Adam optimizer({p}, 0.1);
  set_gradient(p, std::vector<double>(kSize, 1.0));
  optimizer.step();
  TensorMap state = optimizer.state_dict();
  state["state.0.exp_avg"] = Tensor::full({2}, 0.0, f64);
  state.erase("groups.0.lr");
  state["stranger"] = Tensor::full({}, 0.0, f64);
  try {
    optimizer.load_state_dict(state);
    FAIL();
  } catch (const ArgumentError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("state.0.exp_avg is [2]"), text.npos) << text;
    EXPECT_NE(text.find("missing: groups.0.lr"), text.npos) << text;
    EXPECT_NE(text.find("1 names"), text.npos) << text;
  }
  EXPECT_EQ(optimizer.state_dict().at("state.0.exp_avg").numel(), kSize);
}

TEST(Optimizer, StateOfAnotherNumberOfParametersIsAnError) {
  const Variable p = parameter(), q = parameter(), r = parameter();
  const SGD two(std::vector<ParamGroup>{{.params = {p}}, {.params = {q}}}, {.lr = 0.1});
  SGD three(std::vector<ParamGroup>{{.params = {p}}, {.params = {q, r}}}, {.lr = 0.1});
  TensorMap state = two.state_dict();  // nothing else than the number differs before a step
  try {
    three.load_state_dict(state);
    ADD_FAILURE();
  } catch (const ArgumentError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("group 1 has 1 parameters in the state, 2 in the optimizer"), text.npos)
        << text;
  }
  state["groups.0.params"] = Tensor::full({2}, 1, i64);
  expect_error<ArgumentError>("groups.0.params is not one number",
                              [&] { three.load_state_dict(state); });
  state.erase("groups.0.params"), state.erase("groups.1.params");
  EXPECT_NO_THROW(three.load_state_dict(state));  // as files of earlier versions
}

TEST(Optimizer, StateFollowsTheParameter) {
  const Variable p = parameter();
  Adam optimizer({p}, 0.1);
  set_gradient(p, std::vector<double>(kSize, 1.0));
  optimizer.step();
  p.rebind(p.value().to(f32));
  set_gradient(p, std::vector<double>(kSize, 1.0));
  optimizer.step();
  const TensorMap state = optimizer.state_dict();
  EXPECT_EQ(state.at("state.0.exp_avg").dtype(), f32);
  EXPECT_EQ(state.at("state.0.step").number().to<int64_t>(), 2);
  EXPECT_NEAR(p.to_vector<double>()[0], start(0) - 0.2, 1e-5);
}

TEST(Optimizer, Errors) {
  const Variable p = parameter();
  EXPECT_THROW(SGD(std::vector<Variable>{}, 0.1), ArgumentError);
  EXPECT_THROW(SGD({p, p}, 0.1), ArgumentError);
  EXPECT_THROW(SGD({zeros({2})}, 0.1), ArgumentError);
  EXPECT_THROW(SGD({p}, -0.1), ArgumentError);
  EXPECT_THROW(SGD({p}, {.nesterov = true}), ArgumentError);
  EXPECT_THROW(Adam({p}, {.betas = {1.0, 0.999}}), ArgumentError);
  EXPECT_THROW(Adam({p}, std::nan("")), ArgumentError);
}

/// Returns the text that f() prints to stderr.
std::string errors_of(const std::function<void()>& f) {
  ::testing::internal::CaptureStderr();
  f();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Optimizer, WarnsOnceOfStepsWithoutGradients) {
  Variable w = ones({2}, {.requires_grad = true}), other = ones({2}, {.requires_grad = true});
  SGD sgd({w}, 0.1);
  other.sum().backward();  // a loss of another model
  const std::string text = errors_of([&] { sgd.step(); });
  EXPECT_TRUE(text.starts_with("tapegrad: warning: SGD: step() changes nothing")) << text;
  EXPECT_NE(text.find("optimizer_test.cpp:"), std::string::npos) << text;
  EXPECT_EQ(errors_of([&] { sgd.step(); }), "");
  // The line of std::make_unique is in a header of the standard library.
  const auto made = std::make_unique<SGD>(std::vector<Variable>{w}, 0.1);
  const std::string without_line = errors_of([&] { made->step(); });
  EXPECT_NE(without_line.find("step() changes nothing"), std::string::npos);
  EXPECT_EQ(without_line.find("optimizer of"), std::string::npos) << without_line;
  SGD trained({w}, 0.1);
  w.sum().backward();
  EXPECT_EQ(errors_of([&] { trained.step(); }), "");
}

TEST(Optimizer, TakesNamedParameters) {
  nn::Linear net(2, 1);
  SGD sgd(net.named_parameters(), 0.1);
  EXPECT_EQ(sgd.parameters().size(), 2);
  EXPECT_TRUE(sgd.parameters()[0].is_same(net.weight));
}

TEST(Optimizer, OptionsOfAGroupByName) {
  const Variable p = ones({2}).requires_grad_();
  SGD sgd({p}, 0.1);
  sgd.param_groups()[0]["lr"] = 0.5;
  EXPECT_EQ(sgd.lr(), 0.5);
  EXPECT_THROW(sgd.param_groups()[0]["rate"], ArgumentError);
}

TEST(Optimizer, SomeOptionsMayBeOne) {
  const Variable p = ones({2}).requires_grad_();
  SGD sgd({p}, 0.1);
  EXPECT_NO_THROW(RMSprop({p}, {.alpha = 1}));
  EXPECT_NO_THROW(ConstantLR(sgd, {.factor = 1}));
  expect_error<ArgumentError>([&] { RMSprop({p}, {.alpha = 1.5}); },
                              {"RMSprop: alpha is 1.5, not in [0, 1]"});
  expect_error<ArgumentError>([&] { Adadelta({p}, {.rho = -1}); },
                              {"Adadelta: rho is -1, not in [0, 1]"});
  expect_error<ArgumentError>([&] { ConstantLR(sgd, {.factor = 2}); },
                              {"ConstantLR: factor is 2, not in [0, 1]"});
}

}  // namespace
}  // namespace tapegrad::optim
