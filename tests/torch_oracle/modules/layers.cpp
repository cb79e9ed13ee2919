// Activations, dense layers, norms and rearranging layers.
#include "nn/activation.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/image.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "tests/torch_oracle/modules/recorder.h"

namespace tapegrad::torch_oracle {
namespace {

void activations(Recorder& record) {
  const Shape shape{3, 4, 5};
  record("ReLU()", nn::ReLU(), record.normal(shape));
  record("ReLU6()", nn::ReLU6(), record.normal(shape));
  record("SELU()", nn::SELU(), record.normal(shape));
  record("SiLU()", nn::SiLU(), record.normal(shape));
  record("Mish()", nn::Mish(), record.normal(shape));
  record("Sigmoid()", nn::Sigmoid(), record.normal(shape));
  record("LogSigmoid()", nn::LogSigmoid(), record.normal(shape));
  record("Hardsigmoid()", nn::Hardsigmoid(), record.normal(shape));
  record("Hardswish()", nn::Hardswish(), record.normal(shape));
  record("Tanh()", nn::Tanh(), record.normal(shape));
  record("Tanhshrink()", nn::Tanhshrink(), record.normal(shape));
  record("Softsign()", nn::Softsign(), record.normal(shape));
  record("LeakyReLU()", nn::LeakyReLU(), record.normal(shape));
  record("LeakyReLU(0.2)", nn::LeakyReLU(0.2), record.normal(shape));
  record("ELU()", nn::ELU(), record.normal(shape));
  record("ELU(0.7)", nn::ELU(0.7), record.normal(shape));
  record("CELU()", nn::CELU(), record.normal(shape));
  record("CELU(0.7)", nn::CELU(0.7), record.normal(shape));
  record("GELU()", nn::GELU(), record.normal(shape));
  record("GELU('tanh')", nn::GELU(Gelu::kTanh), record.normal(shape));
  record("Softplus()", nn::Softplus(), record.normal(shape));
  record("Softplus(2, 1)", nn::Softplus(2, 1), record.normal(shape));
  record("Hardtanh()", nn::Hardtanh(), record.normal(shape));
  record("Hardtanh(-0.5, 0.75)", nn::Hardtanh(-0.5, 0.75), record.normal(shape));
  record("Softshrink()", nn::Softshrink(), record.normal(shape));
  record("Softshrink(0.25)", nn::Softshrink(0.25), record.normal(shape));
  record("Hardshrink()", nn::Hardshrink(), record.normal(shape));
  record("Hardshrink(0.25)", nn::Hardshrink(0.25), record.normal(shape));
  record("Threshold(0.25, 2)", nn::Threshold(0.25, 2), record.normal(shape));
  record("GLU()", nn::GLU(), record.normal({3, 5, 4}));
  record("GLU(1)", nn::GLU(1), record.normal({3, 4, 5}));
  record("Softmax(-1)", nn::Softmax(), record.normal(shape));
  record("Softmax(1)", nn::Softmax(1), record.normal(shape));
  record("LogSoftmax(-1)", nn::LogSoftmax(), record.normal(shape));
  record("LogSoftmax(0)", nn::LogSoftmax(0), record.normal(shape));
  record("Softmin(-1)", nn::Softmin(), record.normal(shape));
  record("PReLU()", nn::PReLU(), record.normal(shape));
  record("PReLU(4)", nn::PReLU(4), record.normal(shape));
}

void dense(Recorder& record) {
  record("Linear(4, 3)", nn::Linear({.in_features = 4, .out_features = 3}), record.normal({5, 4}));
  record("Linear(4, 3)", nn::Linear({.in_features = 4, .out_features = 3}), record.normal({4}));
  record("Linear(4, 3, bias=False)",
         nn::Linear({.in_features = 4, .out_features = 3, .bias = false}),
         record.normal({2, 5, 4}));
  record("Sequential(Linear(4, 6), Tanh(), Linear(6, 2), LogSoftmax(-1))",
         nn::Sequential({nn::Linear({.in_features = 4, .out_features = 6}), nn::Tanh(),
                         nn::Linear({.in_features = 6, .out_features = 2}), nn::LogSoftmax()}),
         record.normal({5, 4}));
  record("Embedding(7, 3)", nn::Embedding({.num_embeddings = 7, .embedding_dim = 3}),
         record.ids(0, 7, {4, 5}));
  record("Embedding(7, 3, padding_idx=2)",
         nn::Embedding({.num_embeddings = 7, .embedding_dim = 3, .padding_idx = 2}),
         record.ids(0, 4, {4, 5}));
  for (const auto& [name, mode] :
       {std::pair("sum", BagMode::kSum), {"mean", BagMode::kMean}, {"max", BagMode::kMax}})
    record("EmbeddingBag(7, 3, mode='" + std::string(name) + "')",
           nn::EmbeddingBag({.num_embeddings = 7, .embedding_dim = 3, .mode = mode}),
           record.ids(0, 7, {4, 5}));
}

/// In training and evaluation mode, with and without parameters and running statistics.
template <typename Norm>
void running(Recorder& record, const std::string& torch, const Shape& shape) {
  record(torch + "(3, affine=True, track_running_stats=True)",
         Norm({.num_features = 3, .affine = true, .track_running_stats = true}),
         record.normal(shape));
  record(torch + "(3, affine=True, track_running_stats=True)",
         evaluated(Norm({.num_features = 3, .affine = true, .track_running_stats = true})),
         record.normal(shape));
  record(torch + "(3, eps=0.01, momentum=0.3, affine=False, track_running_stats=True)",
         Norm({.num_features = 3,
               .eps = 0.01,
               .momentum = 0.3,
               .affine = false,
               .track_running_stats = true}),
         record.normal(shape));
  record(torch + "(3, affine=True, track_running_stats=False)",
         evaluated(Norm({.num_features = 3, .affine = true, .track_running_stats = false})),
         record.normal(shape));
}

void norms(Recorder& record) {
  running<nn::BatchNorm1d>(record, "BatchNorm1d", {5, 3});
  running<nn::BatchNorm1d>(record, "BatchNorm1d", {4, 3, 5});
  running<nn::BatchNorm2d>(record, "BatchNorm2d", {2, 3, 4, 5});
  running<nn::BatchNorm3d>(record, "BatchNorm3d", {2, 3, 2, 3, 4});
  running<nn::InstanceNorm1d>(record, "InstanceNorm1d", {4, 3, 6});
  running<nn::InstanceNorm2d>(record, "InstanceNorm2d", {2, 3, 4, 5});
  running<nn::InstanceNorm3d>(record, "InstanceNorm3d", {2, 3, 2, 3, 4});
  record("GroupNorm(2, 4)", nn::GroupNorm({.num_groups = 2, .num_channels = 4}),
         record.normal({3, 4, 5}));
  record("GroupNorm(2, 4, affine=False)",
         nn::GroupNorm({.num_groups = 2, .num_channels = 4, .affine = false}),
         record.normal({3, 4, 2, 3}));
  record("LayerNorm([4, 5])", nn::LayerNorm({.normalized_shape = {4, 5}}),
         record.normal({3, 4, 5}));
  record("LayerNorm(5, eps=0.01, elementwise_affine=False)",
         nn::LayerNorm({.normalized_shape = {5}, .eps = 0.01, .elementwise_affine = false}),
         record.normal({3, 4, 5}));
  record("RMSNorm([5], eps=0.01)", nn::RMSNorm({.normalized_shape = {5}, .eps = 0.01}),
         record.normal({3, 4, 5}));
  record("LocalResponseNorm(3)", nn::LocalResponseNorm(3), record.normal({2, 5, 3, 3}));
  record("LocalResponseNorm(2, 0.5, 0.5, 2)", nn::LocalResponseNorm(2, 0.5, 0.5, 2),
         record.normal({2, 5, 4}));
}

void shapes(Recorder& record) {
  const Shape shape{2, 6, 4};
  record("Flatten()", nn::Flatten(), record.normal({2, 3, 4, 5}));
  record("Flatten(0, 1)", nn::Flatten(0, 1), record.normal(shape));
  record("Unflatten(1, (2, 3))", nn::Unflatten(1, {2, 3}), record.normal(shape));
  record("Identity()", nn::Identity(), record.normal(shape));
  record("Dropout(0.5)", evaluated(nn::Dropout(0.5)), record.normal(shape));
  record("Dropout(0.0)", nn::Dropout(0.0), record.normal(shape));
  record("Dropout(1.0)", nn::Dropout(1.0), record.normal(shape));
  record("Dropout1d(0.5)", evaluated(nn::Dropout1d()), record.normal(shape));
  record("Dropout2d(0.5)", evaluated(nn::Dropout2d()), record.normal({2, 3, 4, 5}));
  record("Dropout3d(0.5)", evaluated(nn::Dropout3d()), record.normal({2, 3, 2, 2, 2}));
  record("AlphaDropout(0.5)", evaluated(nn::AlphaDropout()), record.normal(shape));
  record("FeatureAlphaDropout(0.5)", evaluated(nn::FeatureAlphaDropout()), record.normal(shape));
}

}  // namespace

void layer_rows(Recorder& record) {
  activations(record);
  dense(record);
  norms(record);
  shapes(record);
}

}  // namespace tapegrad::torch_oracle
