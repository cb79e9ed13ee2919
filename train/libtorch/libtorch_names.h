// Names of libtorch. After `using namespace tapegrad;`, `torch::nn::Linear`, `torch::relu`,
// `torch::optim::SGD` ... are the classes and functions of this library, `torch::Tensor` is
// Variable, and options can be chained as in libtorch:
//
//   torch::nn::Conv2d conv(torch::nn::Conv2dOptions(1, 32, 3).stride(2).bias(false));
//   torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
//   torch::Tensor x = torch::rand({2, 3}, torch::dtype(torch::kFloat64));
//
// The namespace is tapegrad::torch, so a program may also use libtorch; such a program must write
// `tapegrad::torch` for the names of this library.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/autograd/checkpoint.h"
#include "core/base/chained.h"
#include "core/cuda.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "nn/activation.h"
#include "nn/attention.h"
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
#include "ops/aliases.h"
#include "ops/conv_positional.h"
#include "ops/create.h"
#include "ops/distance.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/random.h"
#include "ops/resample.h"
#include "ops/softmax.h"
#include "ops/subscript.h"
#include "optim/lbfgs.h"
#include "optim/optimizers.h"
#include "train/libtorch/libtorch_data.h"
#include "train/libtorch/libtorch_functional.h"
#include "train/libtorch/refused_names.h"

namespace tapegrad::torch {

using namespace ::tapegrad;
using Tensor = Variable;
using Generator = RandomGenerator;

using DeviceType = Device;
using IntArrayRef = Dims;
using TensorList = VariableList;
using std::nullopt;
using std::optional;

/// A number with the names of libtorch's conversions.
struct Scalar : Number {
  using Number::Number;
  double toDouble() const;
  float toFloat() const;
  int64_t toLong() const;
  int toInt() const;
  bool toBool() const;
};

/// Concatenates the parts: torch::str("step-", 3, ".pt").
template <typename... Parts>
std::string str(const Parts&... parts) {
  ::tapegrad::detail::ErrorText text;
  (text.add(parts), ...);
  return text.text();
}

namespace backends::cudnn {
// Have no effect: algorithms are chosen without measurements.
inline bool benchmark = false, deterministic = true;
}  // namespace backends::cudnn

using autocast = Autocast;
// Python's `with torch.no_grad():` is `torch::no_grad guard;` here.
using enable_grad = EnableGrad;
using inference_mode = InferenceMode;
using no_grad = NoGrad;
namespace utils {
namespace data = ::tapegrad::data;
namespace checkpoint {
using ::tapegrad::checkpoint;
}
}  // namespace utils

TensorOptions dtype(DType type);
TensorOptions device(Device where);
TensorOptions requires_grad(bool on = true);

namespace indexing = ::tapegrad;
/// A reduction that also converts to its name, for options of other types such as
/// EmbeddingBagOptions.
struct NamedReduction {
  Reduction value;
  const char* name;
  constexpr operator Reduction() const { return value; }
  constexpr operator std::string_view() const { return name; }
};
inline constexpr NamedReduction kMean{Reduction::kMean, "mean"}, kSum{Reduction::kSum, "sum"},
    kNone{Reduction::kNone, "none"};
// Values of options:
inline constexpr const char *kNearest = "nearest", *kLinear = "linear", *kBilinear = "bilinear",
                            *kBicubic = "bicubic", *kTrilinear = "trilinear",
                            *kConstant = "constant", *kReflect = "reflect",
                            *kReplicate = "replicate", *kCircular = "circular", *kZeros = "zeros",
                            *kBorder = "border", *kReflection = "reflection", *kGELU = "gelu",
                            *kReLU = "relu", *kTanh = "tanh", *kBatchMean = "batchmean",
                            *kMax = "max", *kSigmoid = "sigmoid", *kLeakyReLU = "leaky_relu",
                            *kFanIn = "fan_in", *kFanOut = "fan_out";

namespace nn {

using namespace ::tapegrad::nn;
namespace plain = ::tapegrad::nn;
using Module
    [[deprecated("write `struct Net : nn::Model<Net>`, with members() in place of "
                 "register_module (docs/from_pytorch.md)")]] = ::tapegrad::nn::Module;

using LinearOptions = Chained<plain::LinearSettings, &plain::LinearSettings::in_features,
                              &plain::LinearSettings::out_features>;
template <typename Plain>
using ConvOptionsOf =
    Chained<Plain, &Plain::in_channels, &Plain::out_channels, &Plain::kernel_size>;
using Conv1dOptions = ConvOptionsOf<plain::ConvOptions<int64_t>>;
using Conv2dOptions = ConvOptionsOf<plain::ConvOptions<Size2d>>;
using Conv3dOptions = ConvOptionsOf<plain::ConvOptions<Size3d>>;
using ConvTranspose1dOptions = ConvOptionsOf<plain::ConvTransposeOptions<int64_t>>;
using ConvTranspose2dOptions = ConvOptionsOf<plain::ConvTransposeOptions<Size2d>>;
template <typename Plain>
using PoolOptionsOf = Chained<Plain, &Plain::kernel_size>;
using MaxPool1dOptions = PoolOptionsOf<MaxPoolOptions<int64_t>>;
using MaxPool2dOptions = PoolOptionsOf<MaxPoolOptions<Size2d>>;
using AvgPool1dOptions = PoolOptionsOf<AvgPoolOptions<int64_t>>;
using AvgPool2dOptions = PoolOptionsOf<AvgPoolOptions<Size2d>>;
using BatchNormOptions = Chained<plain::BatchNormOptions, &plain::BatchNormOptions::num_features>;
using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;
using InstanceNorm2dOptions =
    Chained<plain::InstanceNormOptions, &plain::InstanceNormOptions::num_features>;
using LayerNormOptions =
    Chained<plain::LayerNormOptions, &plain::LayerNormOptions::normalized_shape>;
using GroupNormOptions = Chained<plain::GroupNormOptions, &plain::GroupNormOptions::num_groups,
                                 &plain::GroupNormOptions::num_channels>;
using EmbeddingOptions =
    Chained<plain::EmbeddingSettings, &plain::EmbeddingSettings::num_embeddings,
            &plain::EmbeddingSettings::embedding_dim>;
using EmbeddingBagOptions =
    Chained<plain::EmbeddingBagOptions, &plain::EmbeddingBagOptions::num_embeddings,
            &plain::EmbeddingBagOptions::embedding_dim>;
/// Options of LSTM, GRU and RNN.
using RecurrentOptions = Chained<plain::RecurrentOptions, &plain::RecurrentOptions::input_size,
                                 &plain::RecurrentOptions::hidden_size>;
using LSTMOptions = RecurrentOptions;
using GRUOptions = RecurrentOptions;
using RNNOptions = RecurrentOptions;
using MultiheadAttentionOptions =
    Chained<plain::MultiheadAttentionOptions, &plain::MultiheadAttentionOptions::embed_dim,
            &plain::MultiheadAttentionOptions::num_heads>;
using TransformerEncoderLayerOptions =
    Chained<plain::TransformerEncoderLayerOptions, &plain::TransformerEncoderLayerOptions::d_model,
            &plain::TransformerEncoderLayerOptions::nhead>;
using DropoutOptions = Chained<plain::DropoutOptions, &plain::DropoutOptions::p>;
using Dropout2dOptions = DropoutOptions;
using LeakyReLUOptions = Chained<plain::LeakyReLUOptions>;
using ELUOptions = Chained<plain::ELUOptions>;
/// Makes a layer of a function: torch::nn::Functional(torch::relu).
plain::Lambda Functional(Variable (*function)(Variable, Where));
plain::Lambda Functional(std::function<Variable(const Variable&)> function);
using TransformerOptions = Chained<plain::TransformerOptions, &plain::TransformerOptions::d_model,
                                   &plain::TransformerOptions::nhead>;
using UpsampleOptions = Chained<InterpolateOptions>;
using CrossEntropyLossOptions = Chained<CrossEntropyOptions>;
using NLLLossOptions = Chained<NllLossOptions>;
using BCELossOptions = Chained<BCEOptions>;
using BCEWithLogitsLossOptions = Chained<BceWithLogitsOptions>;
using MSELossOptions = Chained<LossOptions, &LossOptions::reduction>;
using L1LossOptions = MSELossOptions;
using SmoothL1LossOptions = Chained<SmoothL1Options, &SmoothL1Options::reduction>;
using HuberLossOptions = Chained<HuberOptions, &HuberOptions::reduction>;
using KLDivLossOptions = Chained<KLDivOptions, &KLDivOptions::reduction>;
using CTCLossOptions = Chained<CtcLossOptions>;
using TripletMarginLossOptions = Chained<TripletMarginOptions>;

namespace functional {
// Templates, so that a program that calls none of the functions compiles none of them.
using namespace ::tapegrad;
using ::tapegrad::nn::functional::unfold;
struct PadOptions : ::tapegrad::PadOptions {
  std::vector<int64_t> amounts = {};
};
using PadFuncOptions = Chained<PadOptions, &PadOptions::amounts>;
using ::tapegrad::pad;
template <std::same_as<PadFuncOptions> O>
Variable pad(const Variable& x, const O& options, Where where = Where::current()) {
  return pad(x, options.amounts, static_cast<const ::tapegrad::PadOptions&>(options), where);
}
struct LayerNormOptions {
  Shape normalized_shape = {};
  Variable weight = {}, bias = {};
  double eps = 1e-5;
};
using LayerNormFuncOptions = Chained<LayerNormOptions, &LayerNormOptions::normalized_shape>;
using ::tapegrad::layer_norm;
template <std::same_as<LayerNormFuncOptions> O>
Variable layer_norm(const Variable& x, const O& options, Where where = Where::current()) {
  const LayerNormOptions& of = options;
  return layer_norm(x, of.normalized_shape, of.weight, of.bias, of.eps, where);
}
using InterpolateFuncOptions = Chained<InterpolateOptions>;
using GridSampleFuncOptions = Chained<GridSampleOptions>;
using CosineSimilarityFuncOptions = Chained<CosineSimilarityOptions>;
using PairwiseDistanceFuncOptions = Chained<PairwiseDistanceOptions>;
using NormalizeFuncOptions = Chained<NormalizeOptions>;
using GumbelSoftmaxFuncOptions = Chained<GumbelSoftmaxOptions>;
using SoftmaxFuncOptions = Chained<SoftmaxOptions, &SoftmaxOptions::dim>;
using LogSoftmaxFuncOptions = SoftmaxFuncOptions;
using MaxPool2dFuncOptions = MaxPool2dOptions;
using AvgPool2dFuncOptions = AvgPool2dOptions;
using Conv2dFuncOptions = Chained<::tapegrad::ConvOptions<Size2d>>;
using MSELossFuncOptions = MSELossOptions;
using L1LossFuncOptions = L1LossOptions;
using CrossEntropyFuncOptions = CrossEntropyLossOptions;
using NLLLossFuncOptions = NLLLossOptions;
using BinaryCrossEntropyFuncOptions = BCELossOptions;
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;
using SmoothL1LossFuncOptions = SmoothL1LossOptions;
using HuberLossFuncOptions = HuberLossOptions;
using KLDivFuncOptions = KLDivLossOptions;
using ::tapegrad::kl_div;
template <std::same_as<KLDivFuncOptions> O>
Variable kl_div(const Variable& x, const Variable& target, const O& options,
                Where where = Where::current()) {
  return KLDivLoss(static_cast<const KLDivOptions&>(options)).forward(x, target, where);
}
using CTCLossFuncOptions = CTCLossOptions;
using TripletMarginLossFuncOptions = TripletMarginLossOptions;
}  // namespace functional

}  // namespace nn

namespace optim {

using namespace ::tapegrad::optim;
namespace plain = ::tapegrad::optim;
template <typename Plain>
using OptionsOf = Chained<Plain, &Plain::lr>;
using SGDOptions = OptionsOf<plain::SGDOptions>;
using AdamOptions = OptionsOf<plain::AdamOptions>;
using AdamWOptions = OptionsOf<plain::AdamWOptions>;
using RMSpropOptions = OptionsOf<plain::RMSpropOptions>;
using AdagradOptions = OptionsOf<plain::AdagradOptions>;
using LBFGSOptions = OptionsOf<plain::LBFGSOptions>;
/// For groups.emplace_back(net.parameters(), std::make_unique<AdamWOptions>(AdamWOptions(1e-3))).
/// The group gets the options that ParamGroup has; all other options are those of the optimizer.
struct OptimizerParamGroup : plain::ParamGroup {
  OptimizerParamGroup(std::vector<Variable> of);
  template <typename Plain, auto... kFirst>
  OptimizerParamGroup(std::vector<Variable> of,
                      const std::unique_ptr<Chained<Plain, kFirst...>>& options)
      : OptimizerParamGroup(std::move(of)) {
    const Plain& from = *options;
    lr = from.lr;
    if constexpr (requires { from.weight_decay; }) weight_decay = from.weight_decay;
    if constexpr (requires { from.momentum; }) momentum = from.momentum;
    if constexpr (requires { from.dampening; }) dampening = from.dampening;
    if constexpr (requires { from.nesterov; }) nesterov = from.nesterov;
    if constexpr (requires { from.betas; }) betas = from.betas;
    if constexpr (requires { from.eps; }) eps = from.eps;
    if constexpr (requires { from.amsgrad; }) amsgrad = from.amsgrad;
    if constexpr (requires { from.lr_decay; }) lr_decay = from.lr_decay;
    if constexpr (requires { from.alpha; }) alpha = from.alpha;
    if constexpr (requires { from.centered; }) centered = from.centered;
  }
};

}  // namespace optim

}  // namespace tapegrad::torch

// Options under names that nn does not use otherwise: nn::LSTMOptions(4, 8).num_layers(2).
namespace tapegrad::nn {
using torch::nn::AvgPool1dOptions;
using torch::nn::AvgPool2dOptions;
using torch::nn::BatchNorm1dOptions;
using torch::nn::BatchNorm2dOptions;
using torch::nn::BCELossOptions;
using torch::nn::BCEWithLogitsLossOptions;
using torch::nn::Conv1dOptions;
using torch::nn::Conv2dOptions;
using torch::nn::Conv3dOptions;
using torch::nn::ConvTranspose1dOptions;
using torch::nn::ConvTranspose2dOptions;
using torch::nn::CrossEntropyLossOptions;
using torch::nn::CTCLossOptions;
using torch::nn::EmbeddingOptions;
using torch::nn::GRUOptions;
using torch::nn::HuberLossOptions;
using torch::nn::InstanceNorm2dOptions;
using torch::nn::KLDivLossOptions;
using torch::nn::L1LossOptions;
using torch::nn::LinearOptions;
using torch::nn::LSTMOptions;
using torch::nn::MaxPool1dOptions;
using torch::nn::MaxPool2dOptions;
using torch::nn::MSELossOptions;
using torch::nn::NLLLossOptions;
using torch::nn::RNNOptions;
using torch::nn::SmoothL1LossOptions;
using torch::nn::TripletMarginLossOptions;
}  // namespace tapegrad::nn

// libtorch's macros, as a function and a type. If a program includes libtorch first, the macros are
// used.
namespace tapegrad {
namespace detail {
struct Condition {
  template <typename T>
  Condition(const T& condition, Where at = Where::current()) : holds(condition), where(at) {}
  bool holds;
  Where where;
};
}  // namespace detail
#ifndef TORCH_CHECK
/// TORCH_CHECK(x.dim() == 2, "a matrix wanted, not ", x.sizes()): throws ArgumentError unless the
/// condition holds.
template <typename... Parts>
void TORCH_CHECK(detail::Condition condition, const Parts&... message) {
  if (condition.holds) return;
  ArgumentError error(torch::str(message...));
  detail::locate(error, condition.where);
  throw error;
}
#endif
#ifndef TORCH_MODULE
struct TORCH_MODULE {
  template <typename T = void>
  TORCH_MODULE() {
    static_assert(detail::kNever<T>,
                  "TORCH_MODULE(Net): remove this line, and write `struct Net : nn::Model<Net>` in "
                  "place of NetImpl: a model is a handle");
  }
};
#endif
}  // namespace tapegrad

namespace tapegrad::utils {
using ::tapegrad::to_categorical;  // keras.utils
}
namespace tapegrad::c10 {
using std::nullopt;
using std::optional;
using torch::IntArrayRef;
using torch::Scalar;
}  // namespace tapegrad::c10
