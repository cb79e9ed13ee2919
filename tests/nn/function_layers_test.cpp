// Layers that call one function, and layers of norms, images, bags and noise. Each is compared with
// its op, whose values are tested elsewhere. Defaults are PyTorch's.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/gradcheck.h"
#include "nn/image.h"
#include "nn/loss.h"
#include "nn/margin_loss.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/distance.h"
#include "ops/dropout.h"
#include "ops/norm.h"
#include "ops/random.h"
#include "ops/reduce.h"

namespace tapegrad::nn {
namespace {

using Doubles = std::vector<double>;

Variable noise(const Shape& shape) {
  static RandomGenerator generator(3);
  return randn(shape, {.dtype = f64}, generator);
}

/// Calls the layer through the module interface, like Sequential.
void expect_layer(Module&& layer, const Variable& x, const Variable& expected) {
  const Variable y = layer.call(x, Where::current());
  EXPECT_EQ(y.shape(), expected.shape()) << layer.kind();
  EXPECT_EQ(y.to_vector<double>(), expected.to_vector<double>()) << layer.kind();
  const Variable input = Variable(x.value()).requires_grad_();
  const GradcheckResult result = gradcheck(layer, {input}, {.order = 2});
  EXPECT_TRUE(result) << layer.kind() << ": " << result.message;
}

TEST(FunctionLayers, Activations) {
  const Variable x = noise({2, 4, 3}) * 2;
  expect_layer(ReLU(), x, relu(x));
  expect_layer(ReLU6(), x, relu6(x));
  expect_layer(SELU(), x, selu(x));
  expect_layer(SiLU(), x, silu(x));
  expect_layer(Mish(), x, mish(x));
  expect_layer(Sigmoid(), x, sigmoid(x));
  expect_layer(LogSigmoid(), x, logsigmoid(x));
  expect_layer(Hardsigmoid(), x, hardsigmoid(x));
  expect_layer(Hardswish(), x, hardswish(x));
  expect_layer(Tanh(), x, tanh(x));
  expect_layer(Tanhshrink(), x, tanhshrink(x));
  expect_layer(Softsign(), x, softsign(x));
  expect_layer(LeakyReLU(), x, leaky_relu(x, 0.01));
  expect_layer(ELU(), x, elu(x, 1.0));
  expect_layer(CELU(2.0), x, celu(x, 2.0));
  expect_layer(GELU(), x, gelu(x));
  expect_layer(Softplus(), x, softplus(x, 1.0, 20.0));
  expect_layer(Hardtanh(), x, hardtanh(x, -1.0, 1.0));
  expect_layer(Softshrink(), x, softshrink(x, 0.5));
  expect_layer(Hardshrink(), x, hardshrink(x, 0.5));
  expect_layer(Threshold(0.1, 20.0), x, threshold(x, 0.1, 20.0));
  expect_layer(GLU(1), x, glu(x, 1));
  expect_layer(Softmax(1), x, softmax(x, 1));
  expect_layer(LogSoftmax(), x, log_softmax(x, -1));
  expect_layer(Softmin(2), x, softmin(x, 2));
  expect_layer(Flatten(), x, reshape(x, {2, 12}));
  expect_layer(Unflatten(1, {2, -1}), x, reshape(x, {2, 2, 2, 3}));
  PReLU prelu_layer(4);
  prelu_layer.to(f64);
  expect_layer(std::move(prelu_layer), x, prelu(x, full({4}, 0.25, {.dtype = f64})));
  EXPECT_EQ(PReLU().named_parameters()[0].name, "weight");
  EXPECT_EQ(CELU().kind(), "CELU");
  EXPECT_EQ(Sequential({Hardtanh(), GLU(1)})(x).shape(), (Shape{2, 2, 3}));
}

TEST(FunctionLayers, Norms) {
  const Variable line = noise({3, 4, 5}), plane = noise({2, 4, 3, 2});
  const Variable volume = noise({2, 4, 2, 1, 2});
  expect_layer(std::move(GroupNorm({.num_groups = 2, .num_channels = 4}).to(f64)), plane,
               group_norm(plane, 2));
  expect_layer(InstanceNorm1d(), line, instance_norm(line));
  expect_layer(InstanceNorm2d(), plane, instance_norm(plane));
  expect_layer(InstanceNorm3d(), volume, instance_norm(volume));
  // An input without a batch.
  expect_layer(InstanceNorm1d(), select(line, 0, 1), select(instance_norm(line), 0, 1));
  expect_layer(InstanceNorm2d(), select(plane, 0, 1), select(instance_norm(plane), 0, 1));
  expect_layer(InstanceNorm3d(), select(volume, 0, 1), select(instance_norm(volume), 0, 1));
  expect_layer(std::move(RMSNorm({.normalized_shape = {3, 2}}).to(f64)), plane,
               rms_norm(plane, {3, 2}));
  expect_layer(LocalResponseNorm(2), plane, local_response_norm(plane, 2));
  InstanceNorm2d moving({.num_features = 4, .affine = true, .track_running_stats = true});
  moving.to(f64);
  moving(plane);
  EXPECT_EQ(moving.parameter_count(), 8);
  EXPECT_NEAR(moving.running_mean.to_vector<double>()[1], 0.1 * mean(select(plane, 1, 1)).item(),
              1e-15);
  moving.eval();
  EXPECT_EQ(moving(plane).to_vector<double>(),
            instance_norm(plane, moving.running_mean, moving.running_var, moving.weight,
                          moving.bias, {.use_input_stats = false})
                .to_vector<double>());
  BatchNorm3d batch({.num_features = 4});
  batch.to(f64);
  EXPECT_EQ(batch(volume).shape(), volume.shape());
  EXPECT_THROW(batch(plane), ShapeError);
  EXPECT_THROW(InstanceNorm1d()(plane), ShapeError);
  EXPECT_THROW(GroupNorm({.num_groups = 3, .num_channels = 4}), ArgumentError);
  EXPECT_THROW(GroupNorm({.num_groups = 2, .num_channels = 8})(plane), ShapeError);
}

TEST(FunctionLayers, Images) {
  const Variable x = noise({2, 4, 3, 3}), signal = noise({2, 2, 4});
  expect_layer(Upsample({.scale_factor = 2.0}), x, interpolate(x, {.scale_factor = 2.0}));
  expect_layer(UpsamplingNearest2d({.size = {7, 9}}), x, interpolate(x, {.size = {7, 9}}));
  expect_layer(UpsamplingBilinear2d({.scale_factor = 2.0}), x,
               interpolate(x, {.scale_factor = 2.0, .mode = "bilinear", .align_corners = true}));
  expect_layer(PixelShuffle(2), x, pixel_shuffle(x, 2));
  expect_layer(PixelUnshuffle(3), x, pixel_unshuffle(x, 3));
  expect_layer(ChannelShuffle(2), x, channel_shuffle(x, 2));
  expect_layer(Unfold({.kernel_size = 2}), x, unfold(x, {.kernel_size = 2}));
  expect_layer(ConstantPad1d(1, 3.5), signal, pad(signal, {1, 1}, 3.5));
  expect_layer(ConstantPad2d({1, 0, 2, 1}, -1), x, pad(x, {1, 0, 2, 1}, -1.0));
  expect_layer(ZeroPad2d({1, 0, -1, 1}), x, pad(x, {1, 0, -1, 1}));
  expect_layer(ZeroPad1d({1, 2}), x, pad(x, {1, 2}));
  expect_layer(ZeroPad3d(1), x, pad(x, {1, 1, 1, 1, 1, 1}));
  expect_layer(ReflectionPad1d({1, 2}), signal, pad(signal, {1, 2}, PadMode::kReflect));
  expect_layer(ReflectionPad2d(1), x, pad(x, {1, 1, 1, 1}, PadMode::kReflect));
  expect_layer(ReplicationPad1d(3), signal, pad(signal, {3, 3}, PadMode::kReplicate));
  expect_layer(ReplicationPad2d(1), x, pad(x, {1, 1, 1, 1}, PadMode::kReplicate));
  const Variable volume = noise({1, 1, 2, 2, 3});
  expect_layer(ReplicationPad3d(1), volume, pad(volume, {1, 1, 1, 1, 1, 1}, PadMode::kReplicate));
  expect_layer(ReflectionPad3d(1), volume, pad(volume, {1, 1, 1, 1, 1, 1}, PadMode::kReflect));
  expect_layer(ConstantPad3d(1, 2), volume, pad(volume, {1, 1, 1, 1, 1, 1}, 2.0));
  EXPECT_THROW(ReflectionPad2d({1, 2, 3}), ArgumentError);
  const Variable positive = x * x + 0.1;
  expect_layer(LPPool2d({.norm_type = 2, .kernel_size = 2}), positive,
               lp_pool2d(positive, {.norm_type = 2, .kernel_size = 2}));
  const auto [values, indices] = max_pool2d_with_indices(x, {.kernel_size = 3});
  EXPECT_EQ(MaxUnpool2d({.kernel_size = 3})(values, indices).to_vector<double>(),
            max_unpool2d(values, indices, {.kernel_size = 3}).to_vector<double>());
  const Variable columns = unfold(x, {.kernel_size = 2});
  expect_layer(Fold(3, {.kernel_size = 2}), columns, fold(columns, 3, {.kernel_size = 2}));
}

TEST(FunctionLayers, BagsAndNoise) {
  EmbeddingBag bag({.num_embeddings = 5, .embedding_dim = 2, .mode = BagMode::kSum});
  const Variable ids = tensor({0, 3, 3, 4}), offsets = tensor({0, 1});
  EXPECT_EQ(bag(ids, offsets).to_vector<float>(),
            embedding_bag(ids, bag.weight, offsets, {.mode = BagMode::kSum}).to_vector<float>());
  EXPECT_EQ(bag(reshape(ids, {2, 2})).shape(), (Shape{2, 2}));
  EXPECT_THROW(EmbeddingBag({.num_embeddings = 5}), ArgumentError);
  const Variable x = ones({4, 8, 3});
  const auto check = [&](auto layer, const auto& function) {
    manual_seed(9);
    const auto drawn = layer(x).template to_vector<float>();
    manual_seed(9);
    EXPECT_EQ(drawn, function(x, 0.5, true).template to_vector<float>());
    layer.eval();
    EXPECT_TRUE(layer(x).is_same(x));
  };
  check(Dropout1d(), [](auto... a) { return dropout1d(a...); });
  check(AlphaDropout(), [](auto... a) { return alpha_dropout(a...); });
  check(FeatureAlphaDropout(), [](auto... a) { return feature_alpha_dropout(a...); });
  Dropout2d(0.3)(ones({1, 2, 2, 2}));
  Dropout3d(0.3)(ones({1, 2, 2, 2, 2}));
}

TEST(FunctionLayers, Losses) {
  const Variable a = noise({3, 4}), b = noise({3, 4}), c = noise({3, 4});
  const Variable signs = tensor({1.0, -1.0, 1.0}, {.dtype = f64}), ids = tensor({0, 3, 1});
  const auto same = [](const Variable& got, const Variable& expected) {
    EXPECT_EQ(got.item(), expected.item());
  };
  same(TripletMarginLoss()(a, b, c), triplet_margin_loss(a, b, c));
  const Variable first = select(a, 1, 0), second = select(b, 1, 0);
  same(MarginRankingLoss({.margin = 0.5})(first, second, signs),
       margin_ranking_loss(first, second, signs, 0.5));
  same(CosineEmbeddingLoss()(a, b, signs), cosine_embedding_loss(a, b, signs));
  same(HingeEmbeddingLoss()(first, signs), hinge_embedding_loss(first, signs, 1.0));
  same(SoftMarginLoss(Reduction::kSum)(first, signs),
       soft_margin_loss(first, signs, Reduction::kSum));
  same(MultiMarginLoss()(a, ids), multi_margin_loss(a, ids));
  same(MultiLabelMarginLoss()(a, tensor({0, 1, -1, 0, 3, -1, 0, 0, 2, 1, 0, 3}, {3, 4})),
       multilabel_margin_loss(a, tensor({0, 1, -1, 0, 3, -1, 0, 0, 2, 1, 0, 3}, {3, 4})));
  const Variable labels = (b > 0).to(f64);
  same(MultiLabelSoftMarginLoss()(a, labels), multilabel_soft_margin_loss(a, labels));
  same(PoissonNLLLoss()(a, labels), poisson_nll_loss(a, labels));
  same(GaussianNLLLoss()(a, b, c * c), gaussian_nll_loss(a, b, c * c));
  const Variable scores = log_softmax(noise({6, 2, 4}), 2), text = tensor({1, 2, 3, 1}, {2, 2});
  const std::vector<int64_t> steps{6, 5}, lengths{2, 1};
  same(CTCLoss()(scores, text, steps, lengths), ctc_loss(scores, text, steps, lengths));
  EXPECT_EQ(CosineSimilarity()(a, b).to_vector<double>(),
            cosine_similarity(a, b).to_vector<double>());
  EXPECT_EQ(PairwiseDistance(1.0)(a, b).to_vector<double>(),
            pairwise_distance(a, b, 1.0).to_vector<double>());
}

}  // namespace
}  // namespace tapegrad::nn
