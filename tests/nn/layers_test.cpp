// Layers, initialisation, the builder, the summary, and gradients of whole modules.
#include <gtest/gtest.h>

#include <cmath>

#include "core/tape/recording.h"
#include "nn/builder.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/gradcheck.h"
#include "nn/init.h"
#include "nn/loss.h"
#include "nn/norm.h"
#include "nn/summary.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/extremes.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad::nn {
namespace {

TEST(Init, Bounds) {
  manual_seed(1);
  const auto largest = [](const Variable& x) {
    double top = 0;
    for (const double value : x.to_vector<double>()) top = std::max(top, std::abs(value));
    return top;
  };
  Variable w = zeros({40, 50, 3, 3}, {.dtype = f64, .requires_grad = true});
  const double in = 450, out = 360;
  init::xavier_uniform_(w, 2.0);
  EXPECT_NEAR(largest(w), 2 * std::sqrt(6 / (in + out)), 1e-3);
  EXPECT_LE(largest(w), 2 * std::sqrt(6 / (in + out)));
  init::kaiming_uniform_(w);
  EXPECT_NEAR(largest(w), std::sqrt(2.0) * std::sqrt(3 / in), 1e-3);
  init::kaiming_uniform_(w, {.gain = 1.0, .mode = init::FanMode::kFanOut});
  EXPECT_NEAR(largest(w), std::sqrt(3 / out), 1e-3);
  const auto deviation = [](const Variable& x) {
    double sum = 0;
    for (const double value : x.to_vector<double>()) sum += value * value;
    return std::sqrt(sum / double(x.numel()));
  };
  init::xavier_normal_(w);
  EXPECT_NEAR(deviation(w) / std::sqrt(2 / (in + out)), 1, 0.03);
  init::kaiming_normal_(w);
  EXPECT_NEAR(deviation(w) / std::sqrt(2 / in), 1, 0.03);
  init::constant_(w, 3);
  EXPECT_EQ(largest(w), 3);
  EXPECT_TRUE(w.is_leaf() && w.requires_grad());
  Variable vector = zeros({3});
  EXPECT_THROW(init::xavier_uniform_(vector), ShapeError);
}

TEST(Init, OrthogonalRowsOrColumns) {
  for (const Shape& shape : {Shape{4, 7}, Shape{7, 4}, Shape{3, 2, 2}}) {
    Variable w = zeros(shape, {.dtype = f64});
    init::orthogonal_(w, 2.0);
    const int64_t rows = shape[0], columns = w.numel() / rows;
    const auto v = w.to_vector<double>();
    for (int64_t a = 0; a < std::min(rows, columns); ++a)
      for (int64_t b = 0; b < std::min(rows, columns); ++b) {
        double dot = 0;
        for (int64_t i = 0; i < std::max(rows, columns); ++i)
          dot += rows <= columns ? v[a * columns + i] * v[b * columns + i]
                                 : v[i * columns + a] * v[i * columns + b];
        EXPECT_NEAR(dot, a == b ? 4.0 : 0.0, 1e-12);
      }
  }
}

TEST(Init, DefaultIsPyTorchsAndKerasIsGlorot) {
  Sequential model({Linear({.out_features = 50})}, {.input_shape = Shape{100}});
  const auto check = [&](double bound, bool zero_bias) {
    double top = 0;
    for (const double value : model[0].as<Linear>().weight.to_vector<double>())
      top = std::max(top, std::abs(value));
    EXPECT_LE(top, bound * (1 + 1e-6));
    EXPECT_GT(top, bound * 0.98);
    double bias = 0;
    for (const double value : model[0].as<Linear>().bias.to_vector<double>())
      bias = std::max(bias, std::abs(value));
    EXPECT_EQ(bias == 0, zero_bias);
  };
  check(0.1, false);
  initialize(model, init::keras);
  check(std::sqrt(6.0 / 150), true);
  model =
      Sequential({Linear({.out_features = 50})}, {.input_shape = Shape{100}, .init = init::keras});
  check(std::sqrt(6.0 / 150), true);
}

TEST(LayerBuilder, FitsEachLayerToTheOneBefore) {
  LayerBuilder net({1, 28, 28});
  net.add('c', {.out = 10, .kernel_size = 3, .padding = 1})
      .add('p', {.kernel_size = 2})
      .add('m', {.out = 100})
      .add('o', {.out = 10});
  EXPECT_EQ(net[0].out_shape(), (Shape{10, 28, 28}));
  EXPECT_EQ(net[1].out_shape(), (Shape{10, 14, 14}));
  EXPECT_EQ(net[-1].out_shape(), Shape{10});
  EXPECT_EQ(net.model().parameter_count(), 197'210);
  EXPECT_EQ(net.model()(zeros({2, 1, 28, 28})).shape(), (Shape{2, 10}));
  for (const Variable& parameter : net.model().parameters())
    for (const double value : parameter.to_vector<double>()) ASSERT_LE(std::abs(value), 0.05f);
  LayerBuilder wide(Shape{50});
  wide.add('o', {.out = 10, .weight_range = 0.5});
  const double largest = amax(abs(wide.model().parameters()[0])).item();
  EXPECT_GT(largest, 0.4) << "the largest of 500 numbers in +-0.5";
  EXPECT_LE(largest, 0.5);
  EXPECT_THROW(net.add('x', {}), ArgumentError);
  EXPECT_THROW(net.add('m', {}), ArgumentError);
  EXPECT_EQ(net.size(), 4);
}

TEST(LayerBuilder, AnImageOfTwoDimensionsHasOneChannel) {
  LayerBuilder net({28, 28}), pooled({28, 28}), dense({28, 28});
  net.add('c', {.out = 10, .kernel_size = 3, .padding = 1}).add('p', {.kernel_size = 2});
  net.add('m', {.out = 100}).add('o', {.out = 10});
  EXPECT_EQ(net[0].out_shape(), (Shape{10, 28, 28}));
  EXPECT_EQ(net.model().parameter_count(), 197'210);
  EXPECT_EQ(net.model()(zeros({2, 28, 28})).shape(), (Shape{2, 10}));
  pooled.add('p', {.kernel_size = 2});
  EXPECT_EQ(pooled[0].out_shape(), (Shape{1, 14, 14}));
  dense.add('o', {.out = 10});
  EXPECT_EQ(dense.model()(zeros({2, 28, 28})).shape(), (Shape{2, 10}));
}

TEST(Summary, KerasNet) {
  Sequential model({Conv2d({.out_channels = 32, .kernel_size = 3}), ReLU(),
                    Conv2d({.out_channels = 64, .kernel_size = 3}), ReLU(), MaxPool2d(2),
                    Dropout(0.25), Flatten(), Linear({.out_features = 128}), ReLU(), Dropout(0.5),
                    Linear({.out_features = 10})},
                   {.input_shape = Shape{1, 28, 28}, .init = init::keras});
  EXPECT_EQ(model.parameter_count(), 1'199'882);
  const std::string text = summary(model, {1, 28, 28});
  for (const char* part :
       {"0 (Conv2d)     [-1, 32, 26, 26]  320\n", "[-1, 64, 24, 24]  18,496\n",
        "7 (Linear)     [-1, 128]         1,179,776\n", "1,290\n", "Total parameters: 1,199,882\n"})
    EXPECT_NE(text.find(part), text.npos) << part << " in\n" << text;
}

TEST(Summary, NamesOfASharedParameter) {
  struct Net : Model<Net> {
    std::vector<Linear> layers =
        std::vector<Linear>(3, Linear({.in_features = 2, .out_features = 2}));
    void members(Members& m) override { m("layers", layers); }
    Variable forward(const Variable& x) const { return layers[2](layers[1](layers[0](x))); }
  } net;
  std::string text = summary(net, {2});
  for (const char* part :
       {"Total parameters: 6\n",
        "3 names, one parameter: layers.0.weight, layers.1.weight, layers.2.weight\n",
        "3 names, one parameter: layers.0.bias, layers.1.bias, layers.2.bias\n"})
    EXPECT_NE(text.find(part), text.npos) << part << " in\n" << text;
  for (Linear& layer : net.layers) layer = layer.clone();
  text = summary(net, {2});
  EXPECT_EQ(text.find("names"), text.npos) << text;
  EXPECT_NE(text.find("Total parameters: 18\n"), text.npos) << text;
}

TEST(BatchNorm, T44_RunningStatistics) {
  BatchNorm1d layer({.num_features = 2});
  const Variable x = tensor({0.f, 0.f, 2.f, 4.f}, {2, 2});
  layer(x);
  const auto mean = layer.running_mean.to_vector<float>();
  const auto var = layer.running_var.to_vector<float>();
  EXPECT_FLOAT_EQ(mean[0], 0.1f);
  EXPECT_FLOAT_EQ(mean[1], 0.2f);
  EXPECT_FLOAT_EQ(var[0], 1.1f);
  EXPECT_FLOAT_EQ(var[1], 1.7f);
  EXPECT_EQ(layer.num_batches_tracked.item(), 1);
  layer.eval();
  layer(x);
  EXPECT_EQ(layer.running_mean.to_vector<float>(), mean);
  EXPECT_EQ(layer.num_batches_tracked.item(), 1);
  EXPECT_THROW(layer(ones({2, 2, 2, 2})), ShapeError);
}

TEST(Dropout, T45_EvaluationIsTheIdentity) {
  Dropout layer(0.5);
  const Variable x = ones({4});
  layer.eval();
  EXPECT_TRUE(layer(x).is_same(x));
}

TEST(Embedding, PaddingRow) {
  const Embedding layer({.num_embeddings = 4, .embedding_dim = 2, .padding_idx = 1});
  const Variable y = layer(tensor({1, 2}));
  EXPECT_EQ(y.to_vector<float>()[0], 0);
  sum(y).backward();
  const auto g = layer.weight.grad().to_vector<float>();
  EXPECT_EQ(g, (std::vector<float>{0, 0, 0, 0, 1, 1, 0, 0}));
}

TEST(Gradcheck, WholeModules) {
  manual_seed(2);
  Sequential model({Conv2d({.out_channels = 2, .kernel_size = 2}), Tanh(), Flatten(),
                    Linear({.out_features = 2})},
                   {.input_shape = Shape{1, 3, 3}});
  model.to(f64);
  const Variable weight = model[0].as<Conv2d>().weight;
  const Variable x = randn({2, 1, 3, 3}, {.dtype = f64, .requires_grad = true});
  const GradcheckResult result = nn::gradcheck(model, {x}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
  EXPECT_TRUE(model[0].as<Conv2d>().weight.is_same(weight));
  struct Wrong : Model<Wrong> {
    Variable w = ones({2}, {.dtype = f64, .requires_grad = true});
    void members(Members& m) override { m("w", w); }
    Variable forward(const Variable& x) const { return x * w * Variable(w.value()); }
  } wrong;
  EXPECT_FALSE(nn::gradcheck(wrong, {ones({2}, {.dtype = f64})}));
}

TEST(Loss, Modules) {
  const Variable x = tensor({1.0, 2.0}, {.dtype = f64}), t = tensor({0.0, 0.0}, {.dtype = f64});
  EXPECT_EQ(MSELoss()(x, t).item(), 2.5);
  EXPECT_EQ(L1Loss(Reduction::kSum)(x, t).item(), 3);
  EXPECT_EQ(HuberLoss({.delta = 1.0})(x, t).item(), (0.5 + 1.5) / 2);
  CrossEntropyLoss loss({.weight = ones({2})});
  loss.to(f64);
  EXPECT_NEAR(loss(reshape(t, {1, 2}), tensor({1})).item(), std::log(2.0), 1e-15);
}

}  // namespace
}  // namespace tapegrad::nn
