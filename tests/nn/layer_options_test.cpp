// Layers with options that few programs use, compared with PyTorch 2.15 in float32.
//
// The weights are 0.5 sin(0.7 i + k) for element i of parameter k, counted from 1 in the order of
// named_parameters(), which is PyTorch's order. Each test compares the sums of squares of the
// result, of the gradient of the input and of the gradients of the parameters, where the gradient
// of element i of the result is cos(i).
#include <gtest/gtest.h>

#include "core/tape/recording.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/image.h"
#include "nn/loss.h"
#include "nn/norm.h"
#include "nn/transformer.h"
#include "ops/aliases.h"
#include "ops/create.h"
#include "ops/subscript.h"

namespace tapegrad {
namespace {

struct Sums {
  double result, input, parameters;
};

Variable sines(double step, const Shape& shape) {
  return sin(arange(numel(shape), {.dtype = f32}) * step).reshape(shape);
}
Variable cosines(double step, const Shape& shape) {
  return cos(arange(numel(shape), {.dtype = f32}) * step).reshape(shape);
}

template <typename Layer, typename... Xs>
void expect_sums(const Sums& wanted, Layer layer, const Variable& x, const Xs&... rest) {
  int k = 1;
  for (auto& [name, p] : layer.named_parameters()) {
    const NoGrad no_grad;
    p.copy_(sin(arange(p.numel(), {.dtype = f32}) * 0.7 + k++).reshape(p.shape()) * 0.5);
  }
  layer.zero_grad();
  layer.eval();
  const Variable leaf = x.detach().requires_grad_();
  const Variable y = layer(leaf, rest...);
  sum(y * cosines(1.0, y.shape())).backward();
  double parameters = 0;
  for (const Variable& p : layer.parameters()) parameters += sum(square(p.grad())).item();
  EXPECT_NEAR(sum(square(y)).item(), wanted.result, 2e-6 * wanted.result);
  EXPECT_NEAR(sum(square(leaf.grad())).item(), wanted.input, 2e-6 * (wanted.input + 1));
  EXPECT_NEAR(parameters, wanted.parameters, 2e-6 * (wanted.parameters + 1));
}

const Variable query = sines(0.3, {3, 2, 8});

TEST(LayerOptions, AttentionWithFurtherKeys) {
  const Variable key = cosines(0.4, {5, 2, 4}), value = sines(0.5, {5, 2, 6});
  const Variable padding = tensor({{0, 0, 1, 0, 1}, {0, 0, 0, 0, 1}}).to(boolean);
  const Variable later = triu(ones({3, 5}, {.dtype = boolean}), 1);
  nn::MultiheadAttention all(8, 2,
                             {.add_bias_kv = true, .add_zero_attn = true, .kdim = 4, .vdim = 6});
  expect_sums({14.862188, 0.205285, 78.296089}, all, query, key, value);
  expect_sums({9.681675, 0.488816, 34.201828}, all, query, key, value,
              nn::AttentionMasks{.attn_mask = later, .key_padding_mask = padding});
  const auto [y, weights] = all(query, key, value, {.key_padding_mask = padding});
  EXPECT_EQ(weights.shape(), (Shape{2, 3, 7}));
  EXPECT_NEAR(sum(square(weights)).item(), 1.160210, 2e-6);

  expect_sums({97.422386, 67.446571, 152.857162},
              nn::MultiheadAttention(8, 2, {.add_bias_kv = true}), query, query, query);
  const Sums causal{134.507919, 32.101963, 106.397598};
  nn::MultiheadAttention zero(8, 2, {.add_zero_attn = true});
  expect_sums(causal, zero, query, query, query,
              nn::AttentionMasks{.attn_mask = nn::causal_mask(3)});
  expect_sums(causal, zero, query, query, query, nn::AttentionMasks{.is_causal = true});
}

TEST(LayerOptions, TransformersWithoutBias) {
  const Variable memory = query.flip({0});
  expect_sums({26.634661, 132.894485, 164.272812},
              nn::TransformerEncoderLayer(8, 2, 16, 0.0, {.norm_first = true, .bias = false}),
              query);
  expect_sums({5.049324, 7.003227, 21.340097},
              nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 16, .bias = false}), query);
  expect_sums({5.488563, 0.888181, 20.875607},
              nn::TransformerDecoderLayer(8, 2, 16, 0.0, {.bias = false}), query, memory);
  expect_sums({83.974228, 65.658096, 118.985100},
              nn::TransformerDecoderLayer(8, 2, 16, {.norm_first = true, .bias = false}), query,
              memory);
  const nn::Transformer both({.d_model = 8,
                              .nhead = 2,
                              .num_encoder_layers = 1,
                              .num_decoder_layers = 1,
                              .dim_feedforward = 16,
                              .dropout = 0,
                              .bias = false});
  expect_sums({5.343203, 0.146797, 49.999825}, both, query, memory);
}

TEST(LayerOptions, NormsWithoutBias) {
  const Variable images = sines(0.3, {2, 4, 3, 3});
  nn::BatchNorm2d batch(4, {.bias = false});
  EXPECT_EQ(batch.parameters().size(), 1u);
  expect_sums({4.956807, 4.815560, 0.027049}, batch, images);
  expect_sums({2.198605, 0.000313, 10.182039},
              nn::BatchNorm1d(8, {.track_running_stats = false, .bias = false}), query[0]);
  expect_sums({9.593876, 9.591524, 0.779765}, nn::GroupNorm(2, 4, {.bias = false}), images);
  expect_sums({9.671896, 29.197289, 7.097465},
              nn::InstanceNorm2d(4, {.affine = true, .bias = false}), images);
}

TEST(LayerOptions, EmbeddingsWithScaledGradients) {
  const Variable ids = tensor({{1, 1, 2}, {1, 4, 2}});
  for (const bool sparse : {false, true}) {
    nn::Embedding table(5, 2, {.scale_grad_by_freq = true, .sparse = sparse});
    sum(table(ids) * arange(12, {.dtype = f32}).reshape({2, 3, 2})).backward();
    EXPECT_TRUE(allclose(table.weight.grad(),
                         tensor({{0., 0.}, {8 / 3., 11 / 3.}, {7., 8.}, {0., 0.}, {8., 9.}})));
  }
  nn::EmbeddingBag bag(5, 2, {.max_norm = 0.5, .mode = "sum"});
  bag.weight.data().copy_(sines(1.0, {5, 2}));
  EXPECT_TRUE(allclose(bag(ids), tensor({{0.678409, -0.239129}, {0.645882, -0.123547}}), 1e-5));
  EXPECT_TRUE(allclose(bag.weight[4], tensor({0.461557, 0.192262}), 1e-5));  // is shortened, too
  EXPECT_TRUE(allclose(bag.weight[3], sines(1.0, {5, 2})[3]));               // is not looked up
  EXPECT_THROW(nn::EmbeddingBag(5, 2, {.max_norm = -1.0}), ArgumentError);
}

TEST(LayerOptions, LinearCrossEntropy) {
  nn::LinearCrossEntropyLoss layer(
      4, 3,
      {.bias = true, .weight = tensor({1.0, 2.0, 3.0}), .ignore_index = 2, .label_smoothing = 0.1});
  expect_sums({square(tensor(1.7522479)).item(), 0.2403748, 0.8591055}, layer, sines(0.3, {5, 4}),
              tensor({0, 1, 2, 1, 0}));
  EXPECT_EQ(layer.state_dict().size(), 3u);
  EXPECT_EQ(nn::LinearCrossEntropyLoss(4, 3).parameters().size(), 1u);
  EXPECT_THROW(nn::LinearCrossEntropyLoss(4, 3, {.weight = ones({2})}), ShapeError);
  EXPECT_THROW(nn::LinearCrossEntropyLoss(4, 3, {.label_smoothing = 1.5}), ArgumentError);
}

TEST(LayerOptions, SoftmaxOfChannels) {
  const Variable x = sines(0.3, {2, 4, 3, 3});
  EXPECT_TRUE(equal(nn::Softmax2d()(x), softmax(x, 1)));
  EXPECT_TRUE(equal(nn::Softmax2d()(x[0]), softmax(x[0], 0)));
  EXPECT_THROW(nn::Softmax2d()(ones({2, 3})), ShapeError);
}

TEST(LayerOptions, AdaptiveSizesOfNone) {
  const Variable x = sines(0.3, {2, 4, 3, 3});
  EXPECT_EQ(nn::AdaptiveAvgPool2d({None, 1})(x).shape(), (Shape{2, 4, 3, 1}));
  EXPECT_EQ(nn::AdaptiveMaxPool2d({1, None})(x).shape(), (Shape{2, 4, 1, 3}));
  EXPECT_EQ(nn::AdaptiveAvgPool2d({1, 2})(x).shape(), (Shape{2, 4, 1, 2}));
  EXPECT_EQ(nn::AdaptiveAvgPool3d({None, 1, 2})(x).shape(), (Shape{2, 4, 1, 2}));
  EXPECT_THROW(nn::AdaptiveAvgPool2d({None, -2}), ArgumentError);
}

// None of PyTorch in place of an optional number.
TEST(LayerOptions, NoneIsNoNumber) {
  nn::BatchNorm1d norm({.num_features = 1, .momentum = None});
  norm(tensor({{1.0}, {3.0}}));
  norm(tensor({{5.0}, {7.0}}));
  EXPECT_EQ(norm.running_mean.item(), 4.0);  // the mean of both batches
  const nn::Embedding table({.num_embeddings = 2, .embedding_dim = 3, .max_norm = None});
  EXPECT_EQ(table(tensor({1})).shape(), (Shape{1, 3}));
}

}  // namespace
}  // namespace tapegrad
