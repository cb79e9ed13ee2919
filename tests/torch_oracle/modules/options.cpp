// Rarer options of convolutions, pooling, padding, norms and tables, inputs without a batch
// dimension, and empty batches.
#include "nn/bilinear.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/image.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/weight_norm.h"
#include "ops/create.h"
#include "tests/torch_oracle/modules/recorder.h"

namespace tapegrad::torch_oracle {
namespace {

void convolutions(Recorder& record) {
  for (const char* mode : {"zeros", "reflect", "replicate", "circular"}) {
    const std::string options = ", padding_mode='" + std::string(mode) + "')";
    record("Conv1d(4, 2, 3, 1, 2, 2" + options,
           nn::Conv1d({.in_channels = 4,
                       .out_channels = 2,
                       .kernel_size = 3,
                       .padding = 2,
                       .dilation = 2,
                       .padding_mode = mode}),
           record.normal({2, 4, 6}));
    record("Conv2d(2, 4, (3, 2), 1, (2, 1), groups=2" + options,
           nn::Conv2d({.in_channels = 2,
                       .out_channels = 4,
                       .kernel_size = {3, 2},
                       .padding = Size2d{2, 1},
                       .groups = 2,
                       .padding_mode = mode}),
           record.normal({2, 2, 4, 5}));
    record("Conv2d(2, 3, (4, 3), padding='same'" + options,
           nn::Conv2d({.in_channels = 2,
                       .out_channels = 3,
                       .kernel_size = {4, 3},
                       .padding = "same",
                       .padding_mode = mode}),
           record.normal({2, 4, 5}));
    record("Conv3d(2, 1, 2, (1, 2, 1), 1" + options,
           nn::Conv3d({.in_channels = 2,
                       .out_channels = 1,
                       .kernel_size = 2,
                       .stride = {1, 2, 1},
                       .padding = 1,
                       .padding_mode = mode}),
           record.normal({1, 2, 3, 4, 3}));
  }
  record("Conv1d(4, 5, 3)", nn::Conv1d({.in_channels = 4, .out_channels = 5, .kernel_size = 3}),
         record.normal({4, 6}));
  record("Conv2d(2, 3, 3)", nn::Conv2d({.in_channels = 2, .out_channels = 3, .kernel_size = 3}),
         record.normal({0, 2, 5, 6}));
  record("ConvTranspose1d(4, 6, 3, 2, 1, 1, 2, True, 2)",
         nn::ConvTranspose1d({.in_channels = 4,
                              .out_channels = 6,
                              .kernel_size = 3,
                              .stride = 2,
                              .padding = 1,
                              .output_padding = 1,
                              .groups = 2,
                              .dilation = 2}),
         record.normal({4, 5}));
  record("ConvTranspose2d(4, 2, 3, (3, 1), 0, (2, 0), 2)",
         nn::ConvTranspose2d({.in_channels = 4,
                              .out_channels = 2,
                              .kernel_size = 3,
                              .stride = {3, 1},
                              .output_padding = {2, 0},
                              .groups = 2}),
         record.normal({4, 3, 4}));
  record("ConvTranspose3d(2, 4, (2, 3, 1), (2, 1, 3), (1, 0, 0), (1, 0, 2), 2, False)",
         nn::ConvTranspose3d({.in_channels = 2,
                              .out_channels = 4,
                              .kernel_size = {2, 3, 1},
                              .stride = {2, 1, 3},
                              .padding = {1, 0, 0},
                              .output_padding = {1, 0, 2},
                              .groups = 2,
                              .bias = false}),
         record.normal({1, 2, 2, 3, 2}));
}

void pools(Recorder& record) {
  for (const bool ceil_mode : {false, true}) {
    const std::string ceil = ceil_mode ? ", ceil_mode=True" : "";
    record("MaxPool1d(3, 2, 1" + ceil + ")",
           nn::MaxPool1d({.kernel_size = 3, .stride = 2, .padding = 1, .ceil_mode = ceil_mode}),
           record.normal({3, 8}));
    record(
        "MaxPool2d(3, 2, 1, 2" + ceil + ")",
        nn::MaxPool2d(
            {.kernel_size = 3, .stride = 2, .padding = 1, .dilation = 2, .ceil_mode = ceil_mode}),
        record.normal({3, 8, 9}));
    record("MaxPool3d(2, (2, 3, 1), 1" + ceil + ")",
           nn::MaxPool3d(
               {.kernel_size = 2, .stride = Size3d{2, 3, 1}, .padding = 1, .ceil_mode = ceil_mode}),
           record.normal({2, 4, 5, 3}));
    for (const bool count : {false, true}) {
      const std::string options = ceil + (count ? "" : ", count_include_pad=False") + ")";
      record("AvgPool1d(3, 2, 1" + options,
             nn::AvgPool1d({.kernel_size = 3,
                            .stride = 2,
                            .padding = 1,
                            .ceil_mode = ceil_mode,
                            .count_include_pad = count}),
             record.normal({3, 8}));
      record("AvgPool2d(3, (2, 3), (1, 0)" + options,
             nn::AvgPool2d({.kernel_size = 3,
                            .stride = Size2d{2, 3},
                            .padding = {1, 0},
                            .ceil_mode = ceil_mode,
                            .count_include_pad = count}),
             record.normal({3, 8, 7}));
      record("AvgPool3d(3, 2, 1" + options,
             nn::AvgPool3d({.kernel_size = 3,
                            .stride = 2,
                            .padding = 1,
                            .ceil_mode = ceil_mode,
                            .count_include_pad = count}),
             record.normal({2, 4, 6, 5}));
    }
    record("LPPool1d(1.5, 2, 3" + ceil + ")",
           nn::LPPool1d({.norm_type = 1.5, .kernel_size = 2, .stride = 3, .ceil_mode = ceil_mode}),
           record.positive({3, 9}));
    record("LPPool2d(2, 3, 2" + ceil + ")",
           nn::LPPool2d({.norm_type = 2, .kernel_size = 3, .stride = 2, .ceil_mode = ceil_mode}),
           record.normal({1, 2, 6, 8}));
  }
  record("LPPool3d(2, 2, 2)", nn::LPPool3d({.norm_type = 2, .kernel_size = 2, .stride = 2}),
         record.normal({1, 2, 5, 4, 4}));
  record("AdaptiveAvgPool2d((7, 3))", nn::AdaptiveAvgPool2d({7, 3}), record.normal({3, 5, 6}));
  record("AdaptiveAvgPool3d((3, 2, 2))", nn::AdaptiveAvgPool3d({3, 2, 2}),
         record.normal({2, 5, 2, 7}));
  record("AdaptiveMaxPool2d((7, 3))", nn::AdaptiveMaxPool2d({7, 3}), record.normal({3, 5, 6}));
  record("AdaptiveMaxPool3d(3)", nn::AdaptiveMaxPool3d(3), record.normal({2, 5, 4, 7}));
  record("MaxPool2d(2)", nn::MaxPool2d(2), record.normal({0, 3, 4, 4}));
  record("AdaptiveAvgPool2d(1)", nn::AdaptiveAvgPool2d(1), record.normal({0, 3, 4, 4}));
}

void paddings(Recorder& record) {
  record("CircularPad1d((3, 1))", nn::CircularPad1d({3, 1}), record.normal({1, 2, 3}));
  record("CircularPad2d((3, 3, 2, 1))", nn::CircularPad2d({3, 3, 2, 1}),
         record.normal({1, 1, 3, 3}));
  record("CircularPad3d((3, 2, 2, 1, 1, 2))", nn::CircularPad3d({3, 2, 2, 1, 1, 2}),
         record.normal({1, 1, 2, 2, 3}));
  record("CircularPad2d((2, -1, 0, 1))", nn::CircularPad2d({2, -1, 0, 1}),
         record.normal({1, 2, 3, 4}));
  record("ReflectionPad2d((2, -1, 0, 1))", nn::ReflectionPad2d({2, -1, 0, 1}),
         record.normal({2, 3, 4}));
  record("ReplicationPad2d((2, -1, 0, 4))", nn::ReplicationPad2d({2, -1, 0, 4}),
         record.normal({2, 3, 4}));
  record("ReflectionPad1d(2)", nn::ReflectionPad1d(2), record.normal({2, 4}));
  record("ReplicationPad3d(2)", nn::ReplicationPad3d(2), record.normal({2, 3, 2, 4}));
  record("ZeroPad1d((1, 2))", nn::ZeroPad1d({1, 2}), record.normal({3, 4}));
  record("ZeroPad3d((1, 2, 0, 1, -1, 1))", nn::ZeroPad3d({1, 2, 0, 1, -1, 1}),
         record.normal({2, 3, 4, 5}));
}

template <typename Norm>
void running(Recorder& record, const std::string& torch, const Shape& shape, const Shape& empty) {
  const auto mean = [] {
    return Norm({.num_features = 3, .eps = 0.001, .momentum = std::nullopt});
  };
  record(torch + "(3, 0.001, None)", mean(), record.normal(shape));
  record(torch + "(3, 0.001, None)", evaluated(mean()), record.normal(shape));
  record(torch + "(3, momentum=0.0)", Norm({.num_features = 3, .momentum = 0.0}),
         record.normal(shape));
  record(torch + "(3, momentum=1.0)", Norm({.num_features = 3, .momentum = 1.0}),
         record.normal(shape));
  const auto bare = [] {
    return Norm({.num_features = 3, .affine = false, .track_running_stats = false});
  };
  record(torch + "(3, affine=False, track_running_stats=False)", bare(), record.normal(shape));
  record(torch + "(3, affine=False, track_running_stats=False)", evaluated(bare()),
         record.normal(shape));
  record(torch + "(3)", evaluated(Norm({.num_features = 3})), record.normal(empty));
}

void norms(Recorder& record) {
  running<nn::BatchNorm1d>(record, "BatchNorm1d", {4, 3}, {0, 3});
  running<nn::BatchNorm1d>(record, "BatchNorm1d", {4, 3, 2}, {0, 3, 5});
  running<nn::BatchNorm2d>(record, "BatchNorm2d", {2, 3, 2, 4}, {0, 3, 2, 2});
  running<nn::BatchNorm3d>(record, "BatchNorm3d", {2, 3, 2, 2, 2}, {0, 3, 2, 2, 2});
  record("InstanceNorm1d(3, momentum=0.4, affine=True, track_running_stats=True)",
         nn::InstanceNorm1d(
             {.num_features = 3, .momentum = 0.4, .affine = true, .track_running_stats = true}),
         record.normal({3, 5}));
  record("InstanceNorm2d(3)", nn::InstanceNorm2d({.num_features = 3}), record.normal({3, 2, 4}));
  record("InstanceNorm2d(3, track_running_stats=True)",
         evaluated(nn::InstanceNorm2d({.num_features = 3, .track_running_stats = true})),
         record.normal({3, 2, 4}));
  record("InstanceNorm3d(3, eps=0.3)", nn::InstanceNorm3d({.num_features = 3, .eps = 0.3}),
         record.normal({3, 2, 2, 3}));
  record("GroupNorm(1, 6, eps=0.1)",
         nn::GroupNorm({.num_groups = 1, .num_channels = 6, .eps = 0.1}), record.normal({2, 6}));
  record("GroupNorm(6, 6)", nn::GroupNorm({.num_groups = 6, .num_channels = 6}),
         record.normal({2, 6, 3}));
  record("GroupNorm(3, 6)", nn::GroupNorm({.num_groups = 3, .num_channels = 6}),
         record.normal({0, 6, 3}));
  record("LayerNorm([2, 5], bias=False)",
         nn::LayerNorm({.normalized_shape = {2, 5}, .bias = false}), record.normal({3, 2, 5}));
  record("LayerNorm(5)", nn::LayerNorm({.normalized_shape = {5}}), record.normal({5}));
  record("LayerNorm(5)", nn::LayerNorm({.normalized_shape = {5}}), record.normal({0, 5}));
  record("RMSNorm([3, 5], 0.1, False)",
         nn::RMSNorm({.normalized_shape = {3, 5}, .eps = 0.1, .elementwise_affine = false}),
         record.normal({2, 3, 5}));
  record("LocalResponseNorm(4, 0.1, 2.0, 0.5)", nn::LocalResponseNorm(4, 0.1, 2.0, 0.5),
         record.normal({2, 6}).detach().reshape({2, 6, 1}).requires_grad_());
}

void tables(Recorder& record) {
  record("Embedding(7, 3, padding_idx=-2)",
         nn::Embedding({.num_embeddings = 7, .embedding_dim = 3, .padding_idx = -2}),
         record.ids(3, 7, {4, 5}));
  record("Embedding(7, 3)", nn::Embedding({.num_embeddings = 7, .embedding_dim = 3}),
         record.ids(0, 7, {}));
  record("Embedding(7, 3)", nn::Embedding({.num_embeddings = 7, .embedding_dim = 3}),
         record.ids(0, 7, {0, 2}));
  for (const double p : {1.0, 2.0, 3.5})
    record(
        "Embedding(7, 3, max_norm=0.5, norm_type=" + std::to_string(p) + ")",
        nn::Embedding({.num_embeddings = 7, .embedding_dim = 3, .max_norm = 0.5, .norm_type = p}),
        record.ids(0, 7, {6}));
  for (const auto& [name, mode] :
       {std::pair("sum", BagMode::kSum), {"mean", BagMode::kMean}, {"max", BagMode::kMax}})
    for (const bool last : {false, true}) {
      const nn::EmbeddingBag bag({.num_embeddings = 7,
                                  .embedding_dim = 3,
                                  .mode = mode,
                                  .include_last_offset = last,
                                  .padding_idx = 2});
      const Variable ids = record.ids(0, 7, {9});
      const Variable offsets = last ? tensor({0, 3, 3, 7, 9}) : tensor({0, 3, 3, 7});
      record.compare("EmbeddingBag(7, 3, mode='" + std::string(name) +
                         "', include_last_offset=" + (last ? "True" : "False") + ", padding_idx=2)",
                     "m(*x)", bag, {ids, offsets}, [&] { return Variables{bag(ids, offsets)}; });
    }
  const nn::EmbeddingBag sum(
      {.num_embeddings = 7, .embedding_dim = 3, .mode = BagMode::kSum, .padding_idx = 1});
  const Variable ids = record.ids(0, 7, {3, 4}), weights = record.normal({3, 4});
  record.compare("EmbeddingBag(7, 3, mode='sum', padding_idx=1)",
                 "m(x[0], per_sample_weights=x[1])", sum, {ids, weights},
                 [&] { return Variables{sum.forward(ids, {}, weights)}; });
  record("Bilinear(2, 3, 4)", nn::Bilinear(2, 3, 4), record.normal({2}), record.normal({3}));
  record("Bilinear(2, 3, 4, bias=False)", nn::Bilinear(2, 3, 4, false), record.normal({5, 2, 2}),
         record.normal({5, 2, 3}));
  record("Linear(3, 5)", nn::Linear({.in_features = 3, .out_features = 5}), record.normal({0, 3}));
}

}  // namespace

void option_rows(Recorder& record) {
  convolutions(record);
  pools(record);
  paddings(record);
  norms(record);
  tables(record);
}

/// Weights that are computed from other parameters, and the buffers of the power iteration.
void computed_weight_rows(Recorder& record) {
  const std::string of = "torch.nn.utils.parametrizations.";
  const nn::LinearSettings linear{.in_features = 3, .out_features = 4};
  const auto conv = [] {
    return nn::Conv2d({.in_channels = 2, .out_channels = 3, .kernel_size = 2});
  };
  const auto transposed = [] {
    return nn::ConvTranspose1d({.in_channels = 2, .out_channels = 3, .kernel_size = 2});
  };
  record(of + "weight_norm(Linear(3, 4))", nn::utils::weight_norm(nn::Linear(linear)),
         record.normal({5, 3}));
  record(of + "weight_norm(Linear(3, 4), dim=1)",
         nn::utils::weight_norm(nn::Linear(linear), "weight", 1), record.normal({5, 3}));
  record(of + "weight_norm(Conv2d(2, 3, 2), dim=None)",
         nn::utils::weight_norm(conv(), "weight", -1), record.normal({1, 2, 4, 4}));
  record(of + "spectral_norm(Linear(3, 4))", nn::utils::spectral_norm(nn::Linear(linear)),
         record.normal({5, 3}));
  record(of + "spectral_norm(Linear(3, 4))",
         evaluated(nn::utils::spectral_norm(nn::Linear(linear))), record.normal({5, 3}));
  record(of + "spectral_norm(Conv2d(2, 3, 2), n_power_iterations=3)",
         nn::utils::spectral_norm(conv(), "weight", 3), record.normal({1, 2, 4, 4}));
  record(of + "spectral_norm(ConvTranspose1d(2, 3, 2))", nn::utils::spectral_norm(transposed()),
         record.normal({2, 2, 4}));
}

}  // namespace tapegrad::torch_oracle
