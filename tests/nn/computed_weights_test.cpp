// weight_norm, parametrize, spectral_norm, Bilinear, RReLU and AdaptiveLogSoftmaxWithLoss against
// PyTorch 2.15.
#include <gtest/gtest.h>

#include <cmath>

#include "tapegrad.h"
#include "tests/error_message.h"

namespace tapegrad::nn {
namespace {

void expect(const Variable& found, const std::vector<double>& expected, double tolerance = 1e-12) {
  const std::vector<double> values = found.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << i;
}

Linear layer_of_doubles() {
  Linear layer(3, 2);
  layer.to(f64);
  layer.weight.detach().copy_(tensor({{1.0, 2.0, 2.0}, {3.0, 0.0, 4.0}}, {.dtype = f64}));
  layer.bias.detach().zero_();
  return layer;
}
const Variable kX = tensor({{1.0, -1.0, 0.5}}, {.dtype = f64});

// The weight is triu(w) + triu(w, 1)^T, as in PyTorch's tutorial on parametrizations.
struct Symmetric : Model<Symmetric> {
  void members(Members&) override {}
  Variable forward(const Variable& w) const { return w.triu() + w.triu(1).transpose(-1, -2); }
};

TEST(Parametrize, ComputesTheWeight) {
  Linear layer(2, 2, false);
  layer.weight.detach().copy_(tensor({{1.0, 2.0}, {3.0, 4.0}}));
  const Variable handle = layer.weight;
  optim::SGD sgd(layer, 1.0);  // knows the parameter already
  torch::nn::utils::parametrize::register_parametrization(layer, "weight", Symmetric());
  EXPECT_TRUE(utils::parametrize::is_parametrized(layer));
  expect(layer.weight, {1, 2, 2, 4});
  const Variable x = tensor({{1.0, 10.0}});
  expect(layer(x), {21, 42});
  EXPECT_EQ(layer.named_parameters()[0].name, "parametrizations.weight.original");
  sum(layer(x)).backward();
  expect(handle.grad(), {1, 11, 0, 10});  // the rows of dW are x; the upper half gets both halves
  sgd.step();
  expect(layer(x), {-90, -69});
  // A second module is applied to the result of the first one.
  utils::parametrize::register_parametrization(layer, "weight",
                                               [](const Variable& w) { return 2.0 * w; });
  expect(layer(x), {-180, -138});
  const Linear copy = layer.clone();
  expect(copy(x), {-180, -138});
  utils::parametrize::remove_parametrizations(layer, "weight");
  EXPECT_FALSE(utils::parametrize::is_parametrized(layer));
  expect(layer.weight, {0, -18, -18, -12});
  expect(handle, {0, -18, -18, -12});
  expect(copy(x), {-180, -138});
}

TEST(Parametrize, TrainsTheModule) {
  struct Scale : Model<Scale> {
    Parameter factor{ones({1})};
    void members(Members& m) override { m("factor", factor); }
    Variable forward(const Variable& w) const { return factor * w; }
  };
  Linear layer = utils::parametrize::register_parametrization(Linear(3, 2), "weight", Scale());
  const auto named = layer.named_parameters();
  ASSERT_EQ(named.size(), 3u);
  EXPECT_TRUE(named["parametrizations.weight.0.factor"].requires_grad());
  sum(layer(ones({1, 3}))).backward();
  const Variable original = named["parametrizations.weight.original"];
  EXPECT_NEAR(named["parametrizations.weight.0.factor"].grad().item(), sum(original).item(), 1e-5);
  utils::parametrize::remove_parametrizations(layer, "weight", false);
  EXPECT_TRUE(layer.weight.equal(original));
}

TEST(Parametrize, RefusesOtherNamesAndShapes) {
  Linear layer(3, 2);
  const auto first_row = [](const Variable& w) { return w[0]; };
  testing::expect_error<ShapeError>("makes a weight [3] of [2, 3]; the shape must stay", [&] {
    utils::parametrize::register_parametrization(layer, "weight", first_row);
  });
  testing::expect_error<ArgumentError>("\"bias\"; only the weight is computed", [&] {
    utils::parametrize::register_parametrization(layer, "bias", Symmetric());
  });
  testing::expect_error<ArgumentError>("the weight of Linear is not parametrized", [&] {
    utils::parametrize::remove_parametrizations(layer, "weight");
  });
  utils::weight_norm(layer);
  testing::expect_error<ArgumentError>("the weight of Linear is computed already", [&] {
    utils::parametrize::register_parametrization(layer, "weight", Symmetric());
  });
}

TEST(WeightNorm, EqualsPyTorch) {
  Linear layer = utils::weight_norm(layer_of_doubles());
  const std::vector<NamedVariable> parts = layer.named_parameters();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, "bias");
  EXPECT_EQ(parts[1].name, "parametrizations.weight.original0");
  EXPECT_EQ(parts[2].name, "parametrizations.weight.original1");
  expect(layer(kX), {0, 5});  // the weight has not changed
  parts[1].variable.detach().copy_(tensor({{2.0}, {1.0}}, {.dtype = f64}));
  const Variable y = layer(kX);
  expect(y, {0, 1});
  sum(square(y)).backward();
  expect(parts[1].variable.grad(), {0, 2});
  expect(parts[2].variable.grad(), {0, 0, 0, 0.16, -0.4, -0.12});
  expect(layer.weight, {2.0 / 3, 4.0 / 3, 4.0 / 3, 0.6, 0, 0.8});
  EXPECT_THROW(utils::weight_norm(layer), ArgumentError);
  utils::remove_weight_norm(layer);
  EXPECT_EQ(layer.named_parameters()[0].name, "weight");
  expect(layer(kX), {0, 1});
}

TEST(SpectralNorm, EqualsPyTorch) {
  Linear layer = utils::parametrizations::spectral_norm(layer_of_doubles(), "weight", 50);
  const Variable y = layer(kX);
  expect(y, {0, 0.903855190077981});
  sum(square(y)).backward();
  const TensorMap state = layer.state_dict();
  ASSERT_EQ(state.size(), 4u);
  EXPECT_TRUE(state.contains("parametrizations.weight.0._u"));
  EXPECT_TRUE(state.contains("parametrizations.weight.0._v"));
  expect(layer.get_parameter("parametrizations.weight.original").grad(),
         {-0.0757658327573898, -0.0219888036474807, -0.108350711559013, 0.177995008954312,
          -0.369962635808128, -0.0493850409231399});
  EXPECT_NEAR(linalg::matrix_norm(layer.weight, 2.0).item(), 1, 1e-12);
}

TEST(SpectralNorm, OfConvolutions) {
  manual_seed(1);
  Conv2d conv = utils::spectral_norm(Conv2d(3, 8, 3));
  ConvTranspose2d transposed = utils::spectral_norm(ConvTranspose2d(3, 8, 3));
  for (int i = 0; i < 50; ++i) conv(zeros({1, 3, 4, 4})), transposed(zeros({1, 3, 4, 4}));
  EXPECT_NEAR(linalg::matrix_norm(flatten(conv.weight, 1), 2.0).item(), 1, 1e-3);
  EXPECT_NEAR(linalg::matrix_norm(flatten(transpose(transposed.weight, 0, 1), 1), 2.0).item(), 1,
              1e-3);
}

TEST(ComputedWeights, CloneSaveAndEvaluate) {
  manual_seed(2);
  Sequential net(utils::spectral_norm(Linear(3, 4)), ReLU(), utils::weight_norm(Linear(4, 1)));
  const Variable x = randn({2, 3});
  net.eval();
  const Variable before = net(x);
  EXPECT_TRUE(equal(net(x), before));
  Sequential copy = net.clone();
  EXPECT_TRUE(equal(copy(x), before));
  for (Variable& p : copy.parameters()) p.detach().zero_();
  EXPECT_TRUE(equal(net(x), before));  // nothing is shared
  copy.load_state_dict(net.state_dict());
  EXPECT_TRUE(equal(copy(x), before));
  nn::initialize(net, init::keras);
  EXPECT_FALSE(equal(net(x), before));
  EXPECT_THROW(utils::weight_norm(Linear({.out_features = 2})), ArgumentError);
  EXPECT_THROW(utils::spectral_norm(Linear(2, 2), "bias"), ArgumentError);
  EXPECT_THROW(utils::weight_norm(Linear(2, 2), "weight", 2), IndexError);
}

TEST(BilinearLayer, EqualsPyTorch) {
  Bilinear layer(2, 3, 2);
  layer.to(f64);
  layer.weight.detach().copy_((arange(12).to(f64) / 5.0 - 1.0).view({2, 2, 3}));
  layer.bias.detach().copy_(tensor({0.5, -0.5}, {.dtype = f64}));
  const Variable a = tensor({{1.0, 2.0}}, {.dtype = f64});
  expect(layer(a, tensor({{0.5, -1.0, 3.0}}, {.dtype = f64})), {-1, 7});
  EXPECT_EQ(layer.options(), "in1_features=2, in2_features=3, out_features=2");
}

TEST(RReLULayer, DrawsSlopesInTraining) {
  manual_seed(4);
  RReLU layer(0.1, 0.3);
  const Variable x = -ones({1000});
  const Variable y = layer(x);
  EXPECT_GE(amin(y).item(), -0.3);
  EXPECT_LE(amax(y).item(), -0.1);
  EXPECT_NEAR(mean(y).item(), -0.2, 0.01);
  layer.eval();
  EXPECT_NEAR(layer(x)[0].item(), -0.2, 1e-7);
  EXPECT_EQ(layer(-x)[0].item(), 1);
  EXPECT_THROW(rrelu(x, 0.3, 0.1), ArgumentError);
}

/// Gives element i of parameter k the value i (7 + k) mod 11 / 10 - 0.5.
void set_parameters(const std::vector<NamedVariable>& parameters) {
  for (size_t k = 0; k < parameters.size(); ++k) {
    const Variable p = parameters[k].variable;
    const Variable values = (arange(p.numel()) * int64_t(7 + k)).remainder(11).to(f64) / 10.0 - 0.5;
    p.detach().copy_(values.view(p.shape()));
  }
}

Variable softmax_input() {
  return ((arange(20) * 3).remainder(7).to(f64) / 5.0 - 0.6).view({5, 4});
}

TEST(AdaptiveLogSoftmax, EqualsPyTorch) {
  AdaptiveLogSoftmaxWithLoss layer(4, 10, {3, 6}, {.div_value = 2.0});
  layer.to(f64);
  const std::vector<NamedVariable> parameters = layer.named_parameters();
  ASSERT_EQ(parameters.size(), 5u);
  EXPECT_EQ(parameters[4].name, "tail.1.1.weight");
  set_parameters(parameters);
  const Variable x = softmax_input();
  const auto [output, loss] = layer(x, tensor({0, 2, 4, 9, 6}));
  expect(output, {-1.72402974731606, -1.60771358367911, -2.89055715144315, -2.8627700054926,
                  -3.0982087381233});
  expect(loss, {2.43665584521084});
  expect(layer.log_prob(x)[1],
         {-2.22771358367911, -1.36771358367911, -1.60771358367911, -2.33271857349784,
          -2.56671857349784, -2.64671857349784, -3.034007944799, -3.034007944799, -3.034007944799,
          -3.034007944799});
  expect(layer.predict(x), {2, 1, 0, 0, 1});
  loss.backward();
  expect(sum(parameters[1].variable.grad()), {-0.0584689781442804});
  expect(layer(x[0], tensor(0)).output, {-1.72402974731606});
  EXPECT_THROW(layer(x, tensor({0, 2, 4, 10, 6})), IndexError);
  EXPECT_THROW(AdaptiveLogSoftmaxWithLoss(4, 10, {6, 3}), ArgumentError);
  EXPECT_THROW(AdaptiveLogSoftmaxWithLoss(4, 10, {3, 10}), ArgumentError);
}

TEST(AdaptiveLogSoftmax, BiasOfTheHead) {
  AdaptiveLogSoftmaxWithLoss layer(4, 10, {3, 6}, {.div_value = 2.0, .head_bias = true});
  layer.to(f64);
  const std::vector<NamedVariable> parameters = layer.named_parameters();
  ASSERT_EQ(parameters.size(), 6u);
  EXPECT_EQ(parameters[1].name, "head.bias");
  set_parameters(parameters);
  const auto [output, loss] = layer(softmax_input(), tensor({0, 2, 4, 9, 6}));
  expect(output, {-2.3076581864528287, -1.7104044394183007, -3.1813368378536646,
                  -2.3596189159488876, -2.6601467828958176});
  expect(loss, {2.4438330325138997});
}

}  // namespace
}  // namespace tapegrad::nn
