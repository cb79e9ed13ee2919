// Constructors of layers and losses refuse options without meaning. The message names the layer,
// the option, the value and the line.
#include "nn/option_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/bilinear.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/image.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/margin_loss.h"
#include "nn/norm.h"
#include "nn/recurrent.h"
#include "nn/transformer.h"
#include "ops/create.h"
#include "ops/distance.h"
#include "ops/margin_loss.h"
#include "ops/norm_composed.h"

namespace tapegrad::nn {
namespace {

/// Expects an error with the text, which also names this file.
void refuse(const std::string& text, const std::function<void()>& construct) {
  SCOPED_TRACE(text);
  try {
    construct();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(text), std::string::npos) << message;
    EXPECT_NE(message.find("option_checks_test.cpp:"), std::string::npos) << message;
  }
}

TEST(OptionChecks, Noise) {
  refuse("Dropout: p is 3, not in [0, 1]", [] { Dropout(3.0); });
  refuse("Dropout: p is nan", [] { Dropout({.p = NAN}); });
  refuse("Dropout1d: p is 1.5", [] { Dropout1d(1.5); });
  refuse("Dropout2d: p is 3", [] { Dropout2d(3.0); });
  refuse("Dropout3d: p is -0.5", [] { Dropout3d({.p = -0.5}); });
  refuse("AlphaDropout: p is -1", [] { AlphaDropout(-1); });
  refuse("FeatureAlphaDropout: p is 2", [] { FeatureAlphaDropout(2); });
  EXPECT_NO_THROW(Dropout2d(1.0));
}

TEST(OptionChecks, Activations) {
  refuse("PReLU: the option .num_parameters is missing, or 0", [] { PReLU(0); });
  refuse("RReLU: lower is 1, not at most upper, 0.5", [] { RReLU(1, 0.5); });
  refuse("CELU: alpha must not be 0", [] { CELU(0); });
  refuse("Softplus: beta is 0", [] { Softplus(0); });
  refuse("Softplus: beta is -1", [] { Softplus({.beta = -1}); });
  refuse("Hardtanh: min_val is 1, not below max_val, -1", [] { Hardtanh(1, -1); });
  refuse("Hardtanh: min_val is nan", [] { Hardtanh({.min_val = NAN}); });
  refuse("Softshrink: lambd is -1", [] { Softshrink(-1); });
}

TEST(OptionChecks, Pooling) {
  refuse("MaxPool1d: the option .kernel_size is missing, or 0", [] { MaxPool1d({.stride = 2}); });
  refuse("MaxPool2d: the option .kernel_size is missing, or 0", [] { MaxPool2d(0); });
  refuse("MaxPool2d: .kernel_size is negative: -2", [] { MaxPool2d({.kernel_size = {3, -2}}); });
  refuse("MaxPool2d: .stride is 0, not at least 1", [] { MaxPool2d(2, 0); });
  refuse("MaxPool2d: .padding is -1", [] { MaxPool2d(2, {}, -1); });
  refuse("MaxPool2d: .padding is 2, more than half of .kernel_size, 3", [] { MaxPool2d(3, 1, 2); });
  refuse("MaxPool3d: .dilation is 0", [] { MaxPool3d(2, {.dilation = 0}); });
  refuse("AvgPool2d: .stride is -1", [] { AvgPool2d({.kernel_size = 2, .stride = -1}); });
  refuse("LPPool2d: .norm_type is 0, not > 0", [] { LPPool2d(0, 2); });
  refuse("LPPool1d: .stride is 0",
         [] { LPPool1d({.norm_type = 2, .kernel_size = 2, .stride = 0}); });
  refuse("MaxUnpool2d: the option .kernel_size is missing", [] { MaxUnpool2d(0); });
  refuse("AdaptiveAvgPool2d: output_size is -2", [] { AdaptiveAvgPool2d({3, -2}); });
  refuse("AdaptiveMaxPool1d: output_size is -7", [] { AdaptiveMaxPool1d(-7); });
  EXPECT_NO_THROW(AdaptiveAvgPool2d({-1, 1}));
  EXPECT_NO_THROW(MaxPool2d(3, {}, 1));
}

TEST(OptionChecks, Convolutions) {
  refuse("Conv2d: .stride is 0, not at least 1", [] { Conv2d(1, 1, 3, 0); });
  refuse("Conv2d: .padding is -1", [] { Conv2d(1, 1, 3, {.padding = -1}); });
  refuse("Conv1d: .dilation is 0", [] { Conv1d(1, 1, 3, {.dilation = 0}); });
  refuse("Conv3d: the option .kernel_size is missing", [] { Conv3d(1, 1, 0); });
  refuse("Conv2d: 2 groups do not divide 3 input channels", [] { Conv2d(3, 4, 3, {.groups = 2}); });
  refuse("ConvTranspose2d: .output_padding is -1",
         [] { ConvTranspose2d(1, 1, 3, {.output_padding = -1}); });
  EXPECT_NO_THROW(Conv2d(1, 1, 3, {.padding = "same"}));
}

TEST(OptionChecks, Images) {
  refuse("PixelShuffle: upscale_factor is 0, not at least 1", [] { PixelShuffle(0); });
  refuse("PixelUnshuffle: downscale_factor is -2", [] { PixelUnshuffle(-2); });
  refuse("ChannelShuffle: groups is 0", [] { ChannelShuffle(0); });
  refuse("Unfold: the option .kernel_size is missing", [] { Unfold(0); });
  refuse("Unfold: .stride is 0", [] { Unfold(2, {.stride = 0}); });
  refuse("Fold: output_size is 0", [] { Fold({4, 0}, {.kernel_size = 2}); });
  refuse("Upsample: give one of the options .size and .scale_factor",
         [] { Upsample({.mode = "nearest"}); });
  refuse("Upsample: .scale_factor is -2, not > 0", [] { Upsample({.scale_factor = -2.0}); });
  refuse("UpsamplingBilinear2d: .size is 0", [] { UpsamplingBilinear2d({.size = {4, 0}}); });
  refuse("CosineSimilarity: eps is -1", [] { CosineSimilarity(1, -1); });
}

TEST(OptionChecks, Losses) {
  refuse("CTCLoss: .blank is -1, not at least 0", [] { CTCLoss({.blank = -1}); });
  refuse("CTCLoss: .blank is -3", [] { CTCLoss(-3); });
  refuse("CrossEntropyLoss: .label_smoothing is 2, not in [0, 1]",
         [] { CrossEntropyLoss({.label_smoothing = 2}); });
  refuse("SmoothL1Loss: .beta is -1", [] { SmoothL1Loss(-1.0); });
  refuse("HuberLoss: .delta is 0, not > 0", [] { HuberLoss({.delta = 0}); });
  refuse("TripletMarginLoss: .margin is -1", [] { TripletMarginLoss(-1); });
  refuse("TripletMarginLoss: .p is 0", [] { TripletMarginLoss({.p = 0}); });
  refuse("MultiMarginLoss: .p is 3, not 1 or 2", [] { MultiMarginLoss({.p = 3}); });
  refuse("GaussianNLLLoss: .eps is 0", [] { GaussianNLLLoss({.eps = 0}); });
}

/// Functions take the options of the layers.
TEST(OptionChecks, Functions) {
  const Variable x = ones({4, 6}), positive = ones({4, 6}), ids = zeros({4}, {.dtype = i64});
  refuse("layer_norm: eps is nan", [&] { layer_norm(x, {6}, {}, {}, NAN); });
  refuse("layer_norm: eps is -1, not a number from 0", [&] { layer_norm(x, {6}, {}, {}, -1); });
  refuse("group_norm: eps is -1", [&] { group_norm(x, 2, {}, {}, -1); });
  refuse("rms_norm: eps is nan", [&] { rms_norm(x, {6}, {}, NAN); });
  refuse("batch_norm: eps is -1", [&] {
    batch_norm(x, {}, {}, {}, {}, tapegrad::BatchNormOptions{.training = true, .eps = -1});
  });
  refuse("batch_norm: momentum is nan", [&] {
    batch_norm(x, {}, {}, {}, {}, tapegrad::BatchNormOptions{.training = true, .momentum = NAN});
  });
  refuse("instance_norm: eps is nan", [&] {
    instance_norm(ones({2, 3, 4}), {}, {}, {}, {}, tapegrad::InstanceNormOptions{.eps = NAN});
  });
  refuse("smooth_l1_loss: beta is nan", [&] { smooth_l1_loss(x, x, NAN); });
  refuse("huber_loss: delta is nan", [&] { huber_loss(x, x, NAN); });
  refuse("cross_entropy: label_smoothing is nan",
         [&] { cross_entropy(x, ids, {.label_smoothing = NAN}); });
  refuse("triplet_margin_loss: margin is 0, not > 0",
         [&] { triplet_margin_loss(x, x, x, {.margin = 0}); });
  refuse("triplet_margin_loss: eps is nan", [&] { triplet_margin_loss(x, x, x, {.eps = NAN}); });
  refuse("triplet_margin_with_distance_loss: margin is -1",
         [&] { triplet_margin_with_distance_loss(x, x, x, {.margin = -1}); });
  refuse("multi_margin_loss: margin is nan", [&] { multi_margin_loss(x, ids, {.margin = NAN}); });
  refuse("margin_ranking_loss: margin is nan", [&] { margin_ranking_loss(x, x, x, NAN); });
  refuse("hinge_embedding_loss: margin is nan", [&] { hinge_embedding_loss(x, x, NAN); });
  refuse("cosine_embedding_loss: margin is nan",
         [&] { cosine_embedding_loss(x, x, ones({4}), NAN); });
  refuse("poisson_nll_loss: eps is nan", [&] { poisson_nll_loss(x, x, {.eps = NAN}); });
  refuse("gaussian_nll_loss: eps is nan", [&] { gaussian_nll_loss(x, x, positive, {.eps = NAN}); });
  refuse("cosine_similarity: eps is -1", [&] { cosine_similarity(x, x, 1, -1); });
  refuse("normalize: eps is nan", [&] { normalize(x, 2.0, 1, NAN); });
  refuse("pairwise_distance: eps is nan", [&] { pairwise_distance(x, x, 2.0, NAN); });
}

TEST(OptionChecks, OtherLayers) {
  refuse("Embedding: padding_idx -4", [] { Embedding(3, 2, -4); });
  refuse("Embedding: .norm_type is 0", [] { Embedding(3, 2, {.max_norm = 1, .norm_type = 0}); });
  refuse("Embedding: .max_norm is -1", [] { Embedding(3, 2, {.max_norm = -1}); });
  refuse("LocalResponseNorm: the option size is missing", [] { LocalResponseNorm(0); });
  refuse("Bilinear: in2_features is negative: -3", [] { Bilinear(2, -3, 4); });
  refuse("LSTMCell: the option hidden_size is missing", [] { LSTMCell(3, 0); });
  refuse("GRUCell: input_size is negative: -1", [] { GRUCell(-1, 2); });
  refuse("RNNCell: the option hidden_size is missing", [] { RNNCell(3, 0); });
  refuse("RNN: .dropout is 2", [] { RNN(3, 4, 1, "relu", true, false, 2.0); });
  refuse("RNN: the option .num_layers is missing", [] { RNN(3, 4, 0); });
  refuse("MultiheadAttention: 3 heads do not divide 8", [] { MultiheadAttention(8, 3); });
  refuse("TransformerEncoder: the option num_layers is missing, or 0",
         [] { TransformerEncoder(TransformerEncoderLayer(8, 2), 0); });
  refuse("Linear: .out_features is negative: -4", [] { TransformerDecoderLayer(8, 2, -4); });
  refuse("TransformerDecoder: num_layers is negative: -1",
         [] { Transformer({.d_model = 8, .nhead = 2, .num_decoder_layers = -1}); });
  refuse("padding: 4 amounts are wanted, not 3", [] { ZeroPad2d({1, 2, 3}); });
}

}  // namespace
}  // namespace tapegrad::nn
