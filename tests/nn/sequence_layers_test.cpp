// Recurrent and attention layers, compared with PyTorch 1.13 with equal parameters.
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "nn/attention.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/recurrent.h"
#include "nn/transformer.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::nn {
namespace {

using Doubles = std::vector<double>;

Variable wave(const Shape& shape, double scale = 1) {
  Doubles numbers(numel(shape));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = std::sin(double(i * i % 97) + 0.5) * scale;
  return tensor(numbers, shape, {.dtype = f64});
}

/// Sets parameter k to a wave of height 0.5 + 0.1 k.
void fill(const Module& module) {
  module.to(f64);
  const std::vector<Variable> parameters = module.parameters();
  for (size_t k = 0; k < parameters.size(); ++k)
    parameters[k].rebind(wave(parameters[k].shape(), 0.5 + 0.1 * double(k)).value());
}

void expect_near(const Variable& got, const Doubles& expected) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 2e-14) << i;
}

RecurrentOptions two_layers() {
  return {.input_size = 2, .hidden_size = 2, .num_layers = 2, .bidirectional = true};
}

TEST(Recurrent, Lstm) {
  const LSTM layer(two_layers());
  fill(layer);
  const auto y = layer.forward(wave({3, 1, 2}));
  expect_near(
      y[0], {-0.035912982307426095, 0.06403217860041184, -0.018833295384677623, 0.05043222607632214,
             -0.03635173453111126, 0.07393896704360074, -0.01829094012403413, 0.04553451439164607,
             -0.03585859374082858, 0.079464692841828, -0.017799494580932985, 0.039387067502654305});
  expect_near(
      y[1], {-0.1430906483145407, 0.14017417933318427, -0.0539989853345093, 0.08077271356962107,
             -0.03585859374082858, 0.079464692841828, -0.018833295384677623, 0.05043222607632214});
  EXPECT_EQ(y[2].shape(), (Shape{4, 1, 2}));
}

TEST(Recurrent, Gru) {
  const GRU layer(two_layers());
  fill(layer);
  const auto y = layer.forward(wave({3, 1, 2}));
  expect_near(y[0],
              {-0.9594101331257039, 0.22147041001173046, -0.9998836126258858, 0.47939286805574166,
               -0.9947650568308645, 0.38833165685014714, -0.9990087085113519, 0.48469830537028735,
               -0.996273702185002, 0.4707112150924502, -0.9757860269433293, 0.36520723984941744});
}

TEST(Recurrent, Rnn) {
  const RNN layer(two_layers());
  fill(layer);
  const auto y = layer.forward(wave({3, 1, 2}));
  expect_near(y[0],
              {0.9452699326699388, 0.7052514565354427, 0.9344911051111037, -0.5763628381001538,
               0.9980309913568145, -0.5920060439991727, 0.9997271047108343, -0.7969866376021136,
               0.955292193287132, -0.47707337714834036, 0.9890642490940719, 0.7025195668581063});
}

TEST(Recurrent, NamesAndOptions) {
  const LSTM layer(two_layers());
  const auto named = layer.named_parameters();
  ASSERT_EQ(named.size(), 16u);
  EXPECT_EQ(named[0].name, "weight_ih_l0");
  EXPECT_EQ(named[7].name, "bias_hh_l0_reverse");
  EXPECT_EQ(named[12].name, "weight_ih_l1_reverse");
  EXPECT_EQ(layer.options(), "input_size=2, hidden_size=2, num_layers=2, bidirectional=true");
  EXPECT_THROW(LSTM({.hidden_size = 2}), ArgumentError);
  EXPECT_THROW(GRU({.input_size = 2}), ArgumentError);
}

TEST(Attention, Multihead) {
  MultiheadAttention layer({.embed_dim = 4, .num_heads = 2});
  fill(layer);
  const Variable x = wave({3, 2, 4});
  expect_near(
      layer.forward(x, x, x),
      {-0.01906427963497026, 0.7385296459532943,  -0.12419110048956017,  -0.09089054889674024,
       0.49670475765631783,  0.40089823811604125, -0.023938133418809793, -0.2558474558203549,
       0.07872320037196673,  0.8425037705219998,  -0.22449168891182392,  -0.09148630931309558,
       0.6845323596575036,   0.5207457779072165,  -0.04824525790937506,  -0.3079576066008356,
       0.17026859434125682,  0.9182596188144257,  -0.3155056503294771,   -0.0968053983340241,
       0.7081790889289177,   0.5332499790534322,  -0.058913375341885565, -0.31208791195692837});
  const Variable later = tensor({0, 1, 1, 0, 0, 1, 0, 0, 0}, {3, 3}) != 0;
  const Variable padding = tensor({0, 0, 0, 0, 1, 0}, {2, 3}) != 0;
  const Doubles masked{
      0.033066817287421724, 1.0035431279454912, -0.8273206378847715,  0.09843068083316489,
      0.810062959322896,    0.308494459429665,  -0.5240098343055613,  -0.18324568924389692,
      0.4905487990179383,   1.2089403647668064, -0.5064144701445563,  -0.1827419619953688,
      0.810062959322896,    0.308494459429665,  -0.5240098343055613,  -0.18324568924389692,
      0.17026859434125682,  0.9182596188144257, -0.3155056503294771,  -0.0968053983340241,
      0.6663151383145018,   0.526643890923705,  -0.18898961457229124, -0.25799216527100166};
  const AttentionMasks masks{.attn_mask = later, .key_padding_mask = padding};
  expect_near(layer.forward(x, x, x, masks), masked);

  MultiheadAttention first({.embed_dim = 4, .num_heads = 2, .batch_first = true});
  fill(first);
  const Variable swapped = transpose(x, 0, 1);
  expect_near(transpose(first.forward(swapped, swapped, swapped, masks), 0, 1), masked);
  EXPECT_THROW(MultiheadAttention({.embed_dim = 4, .num_heads = 3}), ArgumentError);
  EXPECT_THROW(layer.forward(x, x, wave({3, 2, 3})), ShapeError);
}

TEST(Attention, WeightsOnRequest) {
  const MultiheadAttention layer({.embed_dim = 4, .num_heads = 2, .batch_first = true});
  const Variable x = wave({2, 3, 4}).to(f32);
  const Variable y = layer(x, x, x);
  const auto [again, weights] = layer(x, x, x);
  EXPECT_TRUE(again.equal(y));
  EXPECT_EQ(weights.shape(), (Shape{2, 3, 3}));
  EXPECT_LT(max(abs(sum(weights, -1) - 1)).item(), 1e-6);
  EXPECT_EQ(layer(x, x, x).weights(false).shape(), (Shape{2, 2, 3, 3}));

  // A query sees no later key, with a mask and without one.
  const Variable nothing = zeros({2, 3}, {.dtype = boolean});
  for (const AttentionMasks& masks :
       {AttentionMasks{.is_causal = true},
        AttentionMasks{.key_padding_mask = nothing, .is_causal = true}}) {
    const auto [causal, triangle] = layer(x, x, x, masks);
    EXPECT_EQ(max(abs(triu(triangle, 1))).item(), 0);
    EXPECT_LT(max(abs(causal.select(1, 2) - y.select(1, 2))).item(), 1e-6);
  }
}

TEST(Attention, HooksSeeTheResult) {
  MultiheadAttention layer(4, 2);
  int calls = 0;
  const auto handle =
      layer.register_forward_hook([&](Module&, std::span<const Variable>, std::span<Variable> y) {
        ++calls;
        y[0] = y[0] * 0.0;
      });
  const Variable x = wave({3, 2, 4}).to(f32);
  EXPECT_EQ(max(abs(layer(x, x, x))).item(), 0);
  EXPECT_EQ(calls, 1);
}

TEST(Attention, TransformerEncoderLayer) {
  const Variable x = wave({3, 2, 4});
  const auto layer = [](bool norm_first) {
    TransformerEncoderLayer made(
        {.d_model = 4, .nhead = 2, .dim_feedforward = 3, .dropout = 0.0, .norm_first = norm_first});
    fill(made);
    return made;
  };
  expect_near(layer(false)(x),
              {1.571621646891752,  2.6740025157251592, 0.5448081436849102, -0.07503678137936914,
               1.6127215054703414, 2.5124821591627837, 0.578411076622989,  -0.08334654308850394,
               1.6291179126435962, 2.471446378730979,  0.5665487073907046, -0.08295603377607959,
               1.737036525070255,  1.9615012751215333, 0.5610495119397939, -0.1040359447108331,
               1.6655550762839557, 2.3066142259336084, 0.5840883976935632, -0.09101127532282871,
               1.7473672296334497, 1.955100707351859,  0.5382000981282481, -0.10114216909273549});
  expect_near(layer(true)(x),
              {3.79712517670812,   1.0538203580434353,  -7.980219585623894,  -1.1198466275701007,
               2.832774859844859,  -0.3959924241120237, -8.78884344135125,   -1.730809162412286,
               3.2552978941817874, 0.4097272997545269,  -6.391090862857185,  -1.2355859617112352,
               3.832325191898817,  -1.6094054135525455, -7.527756250596564,  -1.1859440309832154,
               4.777082896709461,  -0.5343375422392078, -7.7580063484003805, -0.6978504856216463,
               3.7978590986703153, -1.2731710420725004, -6.949077594522133,  -0.651635333257881});
}

TEST(Transformer, ACausalTargetSeesNothingLater) {
  manual_seed(1);
  const Transformer net({.d_model = 8,
                         .nhead = 2,
                         .num_encoder_layers = 1,
                         .num_decoder_layers = 2,
                         .dim_feedforward = 16,
                         .dropout = 0.0,
                         .batch_first = true});
  const Variable source = randn({2, 5, 8}), target = randn({2, 4, 8});
  Variable changed = target.clone();
  changed.narrow(1, 3, 1).copy_(zeros({2, 1, 8}));
  const auto decode = [&](const Variable& x) {
    return net(source, x, {.tgt_mask = causal_mask(4)});
  };
  EXPECT_TRUE(equal(narrow(decode(target), 1, 0, 3), narrow(decode(changed), 1, 0, 3)));
  EXPECT_FALSE(equal(net(source, target).narrow(1, 0, 3), net(source, changed).narrow(1, 0, 3)));
  // A padded key of the memory takes no part.
  const Variable padding = tensor({{0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}}).to(boolean);
  Variable longer = source.clone();
  longer.narrow(1, 4, 1).copy_(ones({2, 1, 8}));
  const auto padded = [&](const Variable& x) {
    return net(x, target, {.src_key_padding_mask = padding, .memory_key_padding_mask = padding});
  };
  EXPECT_TRUE(equal(padded(source), padded(longer)));
  EXPECT_EQ(net.named_parameters().size(), 12 + 2 * 18 + 4u);
  EXPECT_THROW(net(source, randn({2, 4, 7})), ShapeError);
  EXPECT_THROW(Transformer({.d_model = 8, .nhead = 3}), ArgumentError);
}

TEST(Layers, SizesAndOptionsByName) {
  EXPECT_FALSE(Linear(3, 4, {.bias = false}).bias.defined());
  EXPECT_EQ(Conv2d(1, 4, 3, {.stride = 2, .padding = 1})(ones({1, 1, 8, 8})).shape(),
            (Shape{1, 4, 4, 4}));
  EXPECT_EQ(Conv2d(1, 4, 3, {2, 1})(ones({1, 1, 8, 8})).shape(), (Shape{1, 4, 3, 6}));
  EXPECT_EQ(ConvTranspose2d(1, 4, 4, {.stride = 2, .padding = 1})(ones({1, 1, 8, 8})).shape(),
            (Shape{1, 4, 16, 16}));
  const auto [y, h, c] = LSTM(3, 4, {.batch_first = true, .bidirectional = true})(ones({2, 5, 3}));
  EXPECT_EQ(y.shape(), (Shape{2, 5, 8}));
  EXPECT_EQ(Embedding(7, 3, {.padding_idx = 2}).weight[2].abs().sum().item(), 0);
  EXPECT_EQ(BatchNorm2d(4, {.affine = false}).parameters().size(), 0u);
  EXPECT_EQ(MultiheadAttention(8, 2, {.bias = false}).parameters().size(), 2u);
}

TEST(ConvLayers, OfEveryDimension) {
  Conv1d conv1({.out_channels = 4, .kernel_size = 3, .padding = 1});
  EXPECT_EQ(conv1(ones({2, 3, 5})).shape(), (Shape{2, 4, 5}));
  EXPECT_EQ(conv1.options(), "in_channels=3, out_channels=4, kernel_size=3, padding=1");
  Conv3d conv3({.in_channels = 2, .out_channels = 4, .kernel_size = {1, 2, 3}});
  EXPECT_EQ(conv3(ones({1, 2, 3, 4, 5})).shape(), (Shape{1, 4, 3, 3, 3}));
  EXPECT_EQ(conv3.weight.shape(), (Shape{4, 2, 1, 2, 3}));
  ConvTranspose2d back(
      {.out_channels = 6, .kernel_size = 3, .stride = 2, .output_padding = 1, .groups = 2});
  EXPECT_EQ(back(ones({1, 4, 3, 3})).shape(), (Shape{1, 6, 8, 8}));
  EXPECT_EQ(back.weight.shape(), (Shape{4, 3, 3, 3}));
  EXPECT_EQ(back.bias.shape(), (Shape{6}));
  EXPECT_EQ(back.options(),
            "in_channels=4, out_channels=6, kernel_size=3, stride=2, output_padding=1, groups=2");
  EXPECT_EQ(MaxPool3d(2)(ones({1, 1, 4, 4, 6})).shape(), (Shape{1, 1, 2, 2, 3}));
  EXPECT_EQ(AvgPool1d({.kernel_size = 3, .stride = 1}).options(), "kernel_size=3, stride=1");
  EXPECT_EQ(AdaptiveMaxPool2d({2, 3}).options(), "output_size=(2, 3)");
  EXPECT_THROW(Conv1d({.kernel_size = 3}), ArgumentError);
  EXPECT_THROW(
      ConvTranspose1d({.in_channels = 3, .out_channels = 4, .kernel_size = 1, .groups = 2}),
      ArgumentError);
  EXPECT_THROW(Conv1d({.out_channels = 4, .kernel_size = 3})(ones({2, 3, 4, 4})), ShapeError);
}

}  // namespace
}  // namespace tapegrad::nn
