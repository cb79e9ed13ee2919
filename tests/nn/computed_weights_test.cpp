// weight_norm, spectral_norm, Bilinear, RReLU and AdaptiveLogSoftmaxWithLoss against PyTorch 2.15.
#include <gtest/gtest.h>

#include <cmath>

#include "tapegrad.h"

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

TEST(AdaptiveLogSoftmax, EqualsPyTorch) {
  AdaptiveLogSoftmaxWithLoss layer(4, 10, {3, 6}, {.div_value = 2.0});
  layer.to(f64);
  const std::vector<NamedVariable> parameters = layer.named_parameters();
  ASSERT_EQ(parameters.size(), 5u);
  EXPECT_EQ(parameters[4].name, "tail.1.1.weight");
  for (size_t i = 0; i < 5; ++i) {
    const Variable p = parameters[i].variable;
    const Variable values = (arange(p.numel()) * int64_t(7 + i)).remainder(11).to(f64) / 10.0 - 0.5;
    p.detach().copy_(values.view(p.shape()));
  }
  const Variable x = ((arange(20) * 3).remainder(7).to(f64) / 5.0 - 0.6).view({5, 4});
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

}  // namespace
}  // namespace tapegrad::nn
