// Rows for the public classes and functions of nn.
#include <sstream>

#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/builder.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/gradcheck.h"
#include "nn/image.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/margin_loss.h"
#include "nn/norm.h"
#include "nn/recurrent.h"
#include "nn/sequential.h"
#include "nn/summary.h"
#include "nn/transformer.h"
#include "nn/weighted.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "tests/hostile/kit.h"

namespace tapegrad::testing {
namespace {

using namespace nn;

/// Uses a layer as a program would: prints, calls and differentiates it.
template <typename Layer, typename... Xs>
void use(Layer layer, const Xs&... xs) {
  std::ostringstream out;
  out << layer, layer.parameter_count(), layer.num_parameters(), layer.options(),
      layer.state_dict();
  const auto run = [&] {
    const auto y = layer(xs...);
    if constexpr (std::same_as<decltype(y), const Variable>) {
      if (y.requires_grad()) sum(y).backward();
    } else {
      for (const Variable& each : y)
        if (each.requires_grad()) sum(each).backward({.retain_graph = true});
    }
  };
  run();
  layer.eval();
  run();
}

Reduction reduction_of(int k) { return k % 2 == 0 ? Reduction::kSum : Reduction::kMean; }

template <typename Layer>
void add_unary_layer(Table& table, const std::string& name) {
  table.add(name + "::" + name + " Function::forward",
            [](const Image& x) { use(Layer(), Variable(x)); });
}

template <typename Layer>
void add_real_layer(Table& table, const std::string& name) {
  table.add(name + "::" + name, [](const Image& x, double a) { use(Layer(a), Variable(x)); });
}

void add_activation_rows(Table& table) {
  add_unary_layer<ReLU>(table, "ReLU");
  add_unary_layer<ReLU6>(table, "ReLU6");
  add_unary_layer<SELU>(table, "SELU");
  add_unary_layer<SiLU>(table, "SiLU");
  add_unary_layer<Mish>(table, "Mish");
  add_unary_layer<Sigmoid>(table, "Sigmoid");
  add_unary_layer<LogSigmoid>(table, "LogSigmoid");
  add_unary_layer<Hardsigmoid>(table, "Hardsigmoid");
  add_unary_layer<Hardswish>(table, "Hardswish");
  add_unary_layer<Tanh>(table, "Tanh");
  add_unary_layer<Tanhshrink>(table, "Tanhshrink");
  add_unary_layer<Softsign>(table, "Softsign");
  add_unary_layer<Step>(table, "Step");
  add_unary_layer<Identity>(table, "Identity");
  add_real_layer<LeakyReLU>(table, "LeakyReLU");
  add_real_layer<ELU>(table, "ELU");
  add_real_layer<CELU>(table, "CELU");
  add_real_layer<Softshrink>(table, "Softshrink");
  add_real_layer<Hardshrink>(table, "Hardshrink");
  table.add("GELU::GELU GELU::approximate", [](const Image& x, bool tanh) {
    const GELU layer(tanh ? Gelu::kTanh : Gelu::kErf);
    layer.approximate();
    use(layer, Variable(x));
  });
  table.add("Softplus::Softplus Hardtanh::Hardtanh Threshold::Threshold",
            [](const Image& x, double a, double b) {
              use(Softplus(a, b), Variable(x));
              use(Threshold(a, b), Variable(x));
              use(Hardtanh(a, b), Variable(x));
            });
  table.add("GLU::GLU", [](const Image& x, int dim) { use(GLU(dim), Variable(x)); });
  table.add("Softmax2d::forward", [](const Image& x) { use(Softmax2d(), Variable(x)); });
  table.add("Softmax::Softmax LogSoftmax::LogSoftmax Softmin::Softmin",
            [](const Image& x, int dim) {
              use(Softmax(dim), Variable(x));
              use(LogSoftmax(dim), Variable(x));
              use(Softmin(dim), Variable(x));
            });
  table.add("PReLU::PReLU PReLU::forward PReLU::members",
            [](const Image& x, int64_t parameters, double init) {
              use(PReLU(parameters, init), Variable(x));
            });
  table.add("Flatten::Flatten",
            [](const Image& x, int a, int b) { use(Flatten(a, b), Variable(x)); });
  table.add("Unflatten::Unflatten Unflatten::forward",
            [](const Image& x, int dim, const Shape& s) { use(Unflatten(dim, s), Variable(x)); });
  table.add("Identity::forward Lambda::Lambda Lambda::forward",
            [](const Image& x, const Variable& y) {
              use(Lambda([&](const Variable&) { return y; }), Variable(x));
            });
  table.add("Lambda::Lambda", [](const Variable& x) { use(Lambda({}), x); });
}

template <typename Layer>
void add_conv(Table& table, const std::string& name) {
  table.add(name + "::" + name +
                " Conv::forward Conv::options ConvTranspose::forward "
                "ConvTranspose::options Conv2d::forward",
            [](const Image& x, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
              use(Layer({.in_channels = in, .out_channels = out, .kernel_size = kernel}),
                  Variable(x));
              use(Layer({.in_channels = in,
                         .out_channels = out,
                         .kernel_size = 3,
                         .stride = stride,
                         .padding = kernel,
                         .groups = stride,
                         .dilation = stride}),
                  Variable(x));
            });
}
template <>
void add_conv<Conv1d>(Table& table, const std::string& name) {
  table.add(name + "::" + name,
            [](const Sequence& x, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
              use(Conv1d({.in_channels = in,
                          .out_channels = out,
                          .kernel_size = kernel,
                          .stride = stride,
                          .padding = stride,
                          .dilation = stride,
                          .groups = in}),
                  Variable(x));
            });
}

void add_image_rows(Table& table) {
  add_conv<Conv1d>(table, "Conv1d");
  table.add("Conv2d::Conv2d Conv2d::forward Conv::forward Conv::options Conv3d::Conv3d",
            [](const Image& x, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
              use(Conv2d({.in_channels = in,
                          .out_channels = out,
                          .kernel_size = kernel,
                          .stride = stride,
                          .padding = 1,
                          .dilation = stride}),
                  Variable(x));
              use(Conv3d({.in_channels = 1, .out_channels = out, .kernel_size = kernel}),
                  Variable(x));
            });
  add_conv<ConvTranspose2d>(table, "ConvTranspose2d");
  table.add("ConvTranspose1d::ConvTranspose1d ConvTranspose3d::ConvTranspose3d",
            [](const Sequence& s, const Image& x, int64_t out, int64_t kernel) {
              use(ConvTranspose1d({.in_channels = 3, .out_channels = out, .kernel_size = kernel}),
                  Variable(s));
              use(ConvTranspose3d({.in_channels = 1, .out_channels = out, .kernel_size = kernel}),
                  Variable(x));
            });
  table.add("Pool::Pool Pool::forward Pool::options MaxPool2d::has_windows_of_padding",
            [](const Image& x, int64_t kernel, int64_t stride, int64_t padding) {
              const MaxPool2d pool({.kernel_size = kernel, .stride = stride, .padding = padding});
              pool.has_windows_of_padding();
              use(pool, Variable(x));
              use(AvgPool2d({.kernel_size = kernel, .stride = stride, .padding = padding}),
                  Variable(x));
            });
  table.add("Pool::Pool", [](const Sequence& s, const Image& x, int64_t kernel) {
    use(MaxPool1d(kernel), Variable(s)), use(AvgPool1d(kernel), Variable(s));
    use(MaxPool3d(kernel), Variable(x)), use(AvgPool3d(kernel), Variable(x));
  });
  table.add(
      "LPPool::LPPool LPPool::forward AdaptivePool::AdaptivePool AdaptivePool::forward "
      "AdaptivePool::options",
      [](const Image& x, int64_t size, double norm) {
        use(LPPool2d({.norm_type = norm, .kernel_size = size}), Variable(x));
        use(AdaptiveAvgPool2d(size), Variable(x)), use(AdaptiveMaxPool2d(size), Variable(x));
      });
  table.add("MaxUnpool::MaxUnpool MaxUnpool::forward",
            [](const Image& x, const Image& indices, int64_t size) {
              use(MaxUnpool2d({.kernel_size = size}), Variable(x), Variable(indices));
            });
  table.leave_out("text of options", "numbers output_size_option pool_options");
  table.leave_out("called by the constructors of the layers",
                  "require_from require_windows require_pool_windows");
  table.add(
      "Upsample::Upsample UpsamplingNearest2d::UpsamplingNearest2d "
      "UpsamplingBilinear2d::UpsamplingBilinear2d",
      [](const Image& x, double scale, int64_t size) {
        use(Upsample({.scale_factor = scale}), Variable(x));
        use(UpsamplingNearest2d({.scale_factor = scale}), Variable(x));
        use(UpsamplingBilinear2d({.size = {size, size}}), Variable(x));
        use(Upsample({.scale_factor = {scale, 2.0}}), Variable(x));
        use(Upsample({.size = {size, size}}), Variable(x));
      });
  table.add(
      "PixelShuffle::PixelShuffle PixelUnshuffle::PixelUnshuffle "
      "ChannelShuffle::ChannelShuffle",
      [](const Image& x, int64_t factor) {
        use(ChannelShuffle(factor), Variable(x));
        use(PixelUnshuffle(factor), Variable(x)), use(PixelShuffle(factor), Variable(x));
      });
  table.add("Unfold::Unfold Unfold::forward Fold::Fold", [](const Image& x, int64_t kernel,
                                                            int64_t step) {
    use(Unfold({.kernel_size = kernel, .dilation = step, .padding = step, .stride = step}),
        Variable(x));
    use(Fold(5, {.kernel_size = kernel, .stride = step}), Variable(x));
  });
  table.add(
      "Padding::Padding Padding::of_dims Pad::Pad Pad::forward ConstantPad1d::ConstantPad1d "
      "ConstantPad2d::ConstantPad2d ConstantPad3d::ConstantPad3d ZeroPad2d::ZeroPad2d "
      "ZeroPad1d::ZeroPad1d ZeroPad3d::ZeroPad3d",
      [](const Image& x, int64_t amount, double value) {
        use(ConstantPad1d(amount, value), Variable(x));
        use(ConstantPad2d({amount, -1, 1, 0}, value), Variable(x));
        use(ConstantPad3d(amount, value), Variable(x)), use(ZeroPad2d(amount), Variable(x));
        use(ZeroPad1d(amount), Variable(x)), use(ZeroPad3d(amount), Variable(x));
      });
  table.add(
      "ReflectionPad1d::ReflectionPad1d ReflectionPad2d::ReflectionPad2d "
      "ReflectionPad3d::ReflectionPad3d ReplicationPad1d::ReplicationPad1d "
      "CircularPad1d::CircularPad1d CircularPad2d::CircularPad2d CircularPad3d::CircularPad3d "
      "ReplicationPad2d::ReplicationPad2d ReplicationPad3d::ReplicationPad3d",
      [](const Image& x, int64_t amount) {
        use(ReplicationPad2d(amount), Variable(x)), use(ReplicationPad1d(amount), Variable(x));
        use(ReplicationPad3d(amount), Variable(x)), use(ReflectionPad1d(amount), Variable(x));
        use(ReflectionPad2d(amount), Variable(x)), use(ReflectionPad3d(amount), Variable(x));
        use(CircularPad1d(amount), Variable(x)), use(CircularPad2d(amount), Variable(x));
        use(CircularPad3d(amount), Variable(x));
      });
  table.add(
      "CosineSimilarity::CosineSimilarity PairwiseDistance::PairwiseDistance "
      "Function2::Function2 Function2::forward",
      [](const Variable& x, const Variable& y, int dim, double eps) {
        use(CosineSimilarity(dim, eps), x, y), use(PairwiseDistance(eps, eps), x, y);
      });
}

void add_layer_rows(Table& table) {
  table.add(
      "Linear::Linear Linear::forward Linear::options Weighted::Weighted Weighted::members "
      "Weighted::initialize Weighted::is_inferred require_option",
      [](const Variable& x, int64_t in, int64_t out, bool bias) {
        use(Linear({.in_features = in, .out_features = out, .bias = bias}), x);
        use(Linear({.out_features = out, .bias = bias}), x);
      });
  table.add("Embedding::Embedding Embedding::forward Embedding::members Embedding::options",
            [](const Labels& ids, int64_t rows, int64_t dim, int64_t padding) {
              use(Embedding({.num_embeddings = rows, .embedding_dim = dim, .padding_idx = padding}),
                  Variable(ids));
            });
  table.add("EmbeddingBag::EmbeddingBag EmbeddingBag::forward EmbeddingBag::members",
            [](const Labels& ids, const Labels& offsets, const Variable& weights, int64_t rows) {
              const EmbeddingBag bag({.num_embeddings = rows, .embedding_dim = 2});
              bag.forward(ids, offsets);
              bag.forward(ids, offsets, weights);
            });
  table.add(
      "Dropout::Dropout Dropout::forward Dropout::options DropoutLayer::DropoutLayer "
      "DropoutLayer::forward",
      [](const Image& x, double p) {
        use(Dropout(p), Variable(x)), use(Dropout2d(p), Variable(x));
        use(AlphaDropout(p), Variable(x)), use(FeatureAlphaDropout(p), Variable(x));
      });
  table.add(
      "BatchNorm2d::BatchNorm2d BatchNorm2d::forward BatchNorm::members BatchNorm::options "
      "BatchNorm::is_inferred InstanceNorm2d::InstanceNorm2d InstanceNorm2d::forward",
      [](const Image& x, int64_t features, double eps, double momentum) {
        use(BatchNorm2d({.num_features = features, .eps = eps, .momentum = momentum}), Variable(x));
        use(InstanceNorm2d({.num_features = features,
                            .eps = eps,
                            .momentum = momentum,
                            .affine = true,
                            .track_running_stats = true}),
            Variable(x));
      });
  table.add(
      "BatchNorm1d::BatchNorm1d BatchNorm1d::forward BatchNorm3d::BatchNorm3d "
      "BatchNorm3d::forward InstanceNorm1d::InstanceNorm1d InstanceNorm1d::forward "
      "InstanceNorm3d::InstanceNorm3d InstanceNorm3d::forward",
      [](const Sequence& s, const Image& x) {
        use(BatchNorm1d(), Variable(s)), use(InstanceNorm1d(), Variable(s));
        use(BatchNorm3d(), Variable(x)), use(InstanceNorm3d(), Variable(x));
      });
  table.add("GroupNorm::GroupNorm GroupNorm::forward GroupNorm::members GroupNorm::options",
            [](const Image& x, int64_t groups, int64_t channels, double eps) {
              use(GroupNorm({.num_groups = groups, .num_channels = channels, .eps = eps}),
                  Variable(x));
            });
  table.add(
      "LayerNorm::LayerNorm LayerNorm::forward LayerNorm::members LayerNorm::options "
      "RMSNorm::RMSNorm RMSNorm::forward RMSNorm::members",
      [](const Variable& x, const Shape& shape, double eps) {
        use(LayerNorm({.normalized_shape = shape, .eps = eps}), x);
        use(RMSNorm({.normalized_shape = shape, .eps = eps}), x);
      });
  table.add("LocalResponseNorm::LocalResponseNorm LocalResponseNorm::forward",
            [](const Image& x, int64_t size, double alpha, double beta) {
              use(LocalResponseNorm(size, alpha, beta), Variable(x));
            });
  table.add(
      "LSTM::LSTM LSTM::forward GRU::GRU GRU::forward RNN::RNN RNN::forward "
      "Recurrent::members Recurrent::options",
      [](const Sequence& x, int64_t hidden, int64_t layers, double dropout, bool both) {
        const nn::RecurrentOptions options = {.input_size = 4,
                                              .hidden_size = hidden,
                                              .num_layers = layers,
                                              .dropout = dropout,
                                              .bidirectional = both};
        use(LSTM(options), Variable(x)), use(GRU(options), Variable(x));
        use(RNN(options), Variable(x));
      });
  table.add(
      "Recurrent::weight_ih_l0 Recurrent::weight_hh_l0 Recurrent::bias_ih_l0 "
      "Recurrent::bias_hh_l0 Recurrent::flatten_parameters",
      [](bool bias, int64_t layers) {
        if (layers > 8) return;
        const LSTM lstm(2, 3, {.num_layers = layers, .bias = bias});
        lstm.flatten_parameters(), lstm.weight_ih_l0(), lstm.weight_hh_l0();
        attempt([&] { lstm.bias_ih_l0(); }, [&] { lstm.bias_hh_l0(); });
      });
  table.add("LSTM::forward GRU::forward",
            [](const Sequence& x, const Sequence& h, const Sequence& c) {
              LSTM({.input_size = 4, .hidden_size = 4}).forward(x, h, c);
              GRU({.input_size = 4, .hidden_size = 4}).forward(x, h);
            });
  table.add(
      "MultiheadAttention::MultiheadAttention MultiheadAttention::forward "
      "MultiheadAttention::members MultiheadAttention::options",
      [](const Sequence& x, const Sequence& y, const Variable& mask, int64_t heads) {
        const MultiheadAttention layer({.embed_dim = 4, .num_heads = heads});
        layer.forward(x, x, x, {.key_padding_mask = mask});
        layer.forward(x, y, x, {.attn_mask = mask});
      });
  table.add("MultiheadAttention::MultiheadAttention", [](int64_t dim, int64_t heads, double p) {
    MultiheadAttention({.embed_dim = dim, .num_heads = heads, .dropout = p});
  });
  table.add(
      "TransformerEncoderLayer::TransformerEncoderLayer TransformerEncoderLayer::forward "
      "TransformerEncoderLayer::members",
      [](const Sequence& x, int64_t heads, int64_t forward, double p) {
        use(TransformerEncoderLayer(
                {.d_model = 4, .nhead = heads, .dim_feedforward = forward, .dropout = p}),
            Variable(x));
      });
  table.add(
      "TransformerDecoderLayer::TransformerDecoderLayer TransformerDecoderLayer::forward "
      "TransformerDecoderLayer::members TransformerDecoder::TransformerDecoder "
      "TransformerDecoder::forward TransformerDecoder::members",
      [](const Sequence& x, int64_t heads, int64_t layers, double p) {
        const TransformerDecoderLayer layer(
            {.d_model = 4, .nhead = heads, .dim_feedforward = 8, .dropout = p});
        TransformerDecoder(layer, layers)(x, x);
      });
  table.add("Transformer::Transformer Transformer::forward Transformer::members",
            [](const Sequence& x, const Variable& mask, int64_t layers) {
              const Transformer net({.d_model = 4,
                                     .nhead = 2,
                                     .num_encoder_layers = layers,
                                     .num_decoder_layers = 1,
                                     .dim_feedforward = 8});
              net(x, x, {.src_mask = mask, .tgt_key_padding_mask = mask});
            });
  table.add("Transformer::generate_square_subsequent_mask causal_mask",
            [](int64_t length) { causal_mask(length); });
}

void add_loss_rows(Table& table) {
  table.add(
      "MSELoss::MSELoss MSELoss::forward L1Loss::L1Loss L1Loss::forward BCELoss::BCELoss "
      "BCELoss::forward BCELoss::members BCEWithLogitsLoss::BCEWithLogitsLoss "
      "BCEWithLogitsLoss::forward BCEWithLogitsLoss::members KLDivLoss::KLDivLoss "
      "KLDivLoss::forward SoftMarginLoss::SoftMarginLoss",
      [](const Variable& x, const Variable& y, const Variable& weight, int k) {
        const Reduction reduction = reduction_of(k);
        use(MSELoss(reduction), x, y), use(L1Loss(reduction), x, y);
        use(KLDivLoss({.reduction = reduction}), x, y);
        use(SoftMarginLoss(reduction), x, y);
        use(BCEWithLogitsLoss({.weight = weight, .pos_weight = weight}), x, y);
        use(BCELoss({.weight = weight}), x, y);
      });
  table.add(
      "SmoothL1Loss::SmoothL1Loss SmoothL1Loss::forward HuberLoss::HuberLoss "
      "HuberLoss::forward HingeEmbeddingLoss::HingeEmbeddingLoss "
      "PoissonNLLLoss::PoissonNLLLoss",
      [](const Variable& x, const Variable& y, double a) {
        use(SmoothL1Loss({.beta = a}), x, y), use(PoissonNLLLoss({.eps = a}), x, y);
        use(HingeEmbeddingLoss({.margin = a}), x, y), use(HuberLoss({.delta = a}), x, y);
      });
  table.add(
      "LinearCrossEntropyLoss::LinearCrossEntropyLoss LinearCrossEntropyLoss::forward "
      "LinearCrossEntropyLoss::members",
      [](const Variable& x, const Variable& y, const Variable& weight, int64_t classes, double a) {
        use(LinearCrossEntropyLoss(4, classes % 1000, {.weight = weight, .label_smoothing = a}), x,
            y);
        use(LinearCrossEntropyLoss(4, 3, {.bias = true, .ignore_index = classes}), x, y);
      });
  table.add(
      "CrossEntropyLoss::CrossEntropyLoss CrossEntropyLoss::forward "
      "CrossEntropyLoss::members NLLLoss::NLLLoss NLLLoss::forward NLLLoss::members",
      [](const Variable& x, const Labels& y, const Variable& weight, int64_t ignored,
         double smoothing) {
        use(NLLLoss({.ignore_index = ignored}), x, Variable(y));
        use(CrossEntropyLoss({.ignore_index = ignored, .label_smoothing = smoothing}), x,
            Variable(y));
        use(NLLLoss({.weight = weight}), x, Variable(y));
        use(CrossEntropyLoss({.weight = weight}), x, Variable(y));
      });
  table.add(
      "MultiLabelMarginLoss::MultiLabelMarginLoss MultiMarginLoss::MultiMarginLoss "
      "MultiMarginLoss::members MultiLabelSoftMarginLoss::MultiLabelSoftMarginLoss "
      "MultiLabelSoftMarginLoss::members",
      [](const Variable& x, const Labels& y, const Variable& weight) {
        use(MultiMarginLoss({.weight = weight}), x, Variable(y));
        use(MultiLabelSoftMarginLoss({.weight = weight}), x, x);
        use(MultiLabelMarginLoss(), x, Variable(y));
      });
  table.add(
      "TripletMarginLoss::TripletMarginLoss "
      "TripletMarginWithDistanceLoss::TripletMarginWithDistanceLoss "
      "triplet_margin_with_distance_loss MarginRankingLoss::MarginRankingLoss "
      "CosineEmbeddingLoss::CosineEmbeddingLoss GaussianNLLLoss::GaussianNLLLoss "
      "Function3::Function3 Function3::forward",
      [](const Variable& x, const Variable& y, const Variable& z, double a) {
        use(TripletMarginLoss({.margin = a}), x, y, z);
        use(TripletMarginWithDistanceLoss({.margin = a}), x, y, z);
        use(MarginRankingLoss({.margin = a}), x, y, z);
        use(GaussianNLLLoss({.eps = a}), x, y, z);
        use(CosineEmbeddingLoss({.margin = a}), x, y, z);
      });
  table.add("CTCLoss::CTCLoss CTCLoss::forward",
            [](const Sequence& x, const Variable& targets, const std::vector<int64_t>& lengths,
               int64_t blank) {
              CTCLoss({.blank = blank}).forward(x, targets.to(i64), lengths, {1, 1, 1});
              CTCLoss({.blank = 0}).forward(x, targets, {2, 2, 2}, lengths);
            });
}

void add_module_rows(Table& table) {
  const auto model = [] {
    return Sequential({Linear({.in_features = 3, .out_features = 2}), ReLU(), BatchNorm1d()});
  };
  table.add(
      "Sequential::Sequential Sequential::forward Sequential::members Sequential::push_back "
      "Sequential::size AnyModule::AnyModule Model::call Model::clone Model::copy Model::kind "
      "Model::to Module::call Module::copy Module::kind Module::options Module::members "
      "Module::as",
      [model](const Variable& x, int64_t index, DType dtype, Device device) {
        Sequential net = model();
        use(net, x);
        net.push_back(Sequential());
        net.size(), net.kind(), net.clone().to(dtype), net.to(device), net.copy();
        net[index].call(x, Where::current());
        net[index].as<Linear>();
      });
  table.add("Sequential::Sequential", [](const Shape& input) {
    Sequential({Linear({.out_features = 2})}, {.input_shape = input});
  });
  table.add("Module::load_state_dict Module::state_dict", [model](const TensorMap& state) {
    Sequential net = model();
    const TensorMap before = net.state_dict();
    net.load_state_dict(state);
  });
  table.add("Module::load_state_dict", [model](const Tensor& weight) {
    Sequential net = model();
    TensorMap state = net.state_dict();
    state["0.weight"] = weight;
    net.load_state_dict(state);
    use(net, ones({2, 3}));
  });
  table.add(
      "Module::infer Module::out_shape Module::has_out_shape Module::initialize "
      "Module::is_inferred summary",
      [](const Shape& shape) {
        Sequential net({Linear({.out_features = 2}), ReLU()});
        net.has_out_shape(), net.is_inferred(), net[0].is_inferred();
        summary(net, shape);
        net.infer(shape);
        net.out_shape();
      });
  table.add(
      "Module::register_forward_hook Module::register_forward_pre_hook "
      "Module::register_full_backward_hook Module::is_watched",
      [model](const Variable& x, const Variable& other) {
        Sequential net = model();
        net.register_forward_pre_hook([&](Module&, std::span<Variable> in) { in[0] = x; });
        net.register_forward_hook([&](Module&, std::span<const Variable>, std::span<Variable> out) {
          out[0] = out[0] + other;
        });
        net.register_full_backward_hook(
            [&](Module&, std::span<Variable> in, std::span<const Variable>) { in[0] = other; });
        net.register_forward_hook(ForwardHook()), net.is_watched();
        use(net, x);
      });
  table.add(
      "Module::Module Module::train Module::eval Module::is_training Module::zero_grad "
      "Module::requires_grad_ Module::to Module::named_buffers Module::named_parameters "
      "Module::num_parameters Module::parameter_count Module::parameters Module::visit",
      [model](bool on, DType dtype, Device device) {
        Sequential net = model();
        net.train(on), net.eval(), net.is_training(), net.zero_grad(), net.requires_grad_(on);
        MemberVisitor visitor;
        net.visit(visitor), net.named_buffers(), net.named_parameters(), net.parameters();
        net.to(dtype), net.to(device);
      });
  table.leave_out(
      "for models, which call it",
      "Function::Function HookedCall::HookedCall HookedCall::add_input HookedCall::input "
      "HookedCall::run_after HookedCall::run_before MemberVisitor::MemberVisitor "
      "MemberVisitor::on_buffer MemberVisitor::on_unsaved_buffer MemberVisitor::on_module "
      "MemberVisitor::on_parameter "
      "Members::Members Members::buffer ModuleCall::ModuleCall ModuleCall::has_hooks "
      "ModuleCall::line Stateless::members call_with");
  table.add("LayerBuilder::LayerBuilder LayerBuilder::add LayerBuilder::model LayerBuilder::size",
            [](const Shape& shape, int kind, int64_t out, int64_t kernel) {
              LayerBuilder builder(shape);
              builder.size(), builder.model();
              builder.add(char(kind), {.out = out});
              builder.add('c', {.out = out, .kernel_size = kernel});
            });
  table.add("gradcheck", [](const Variable& x) {
    if (!x.defined() || x.numel() < 100) {
      Linear layer({.in_features = 3, .out_features = 2});
      layer.to(f64);
      nn::gradcheck(layer, {x});
    }
  });
  table.add("init::zeros_", [](Variable& x) { init::zeros_(x); });
  table.add("init::ones_", [](Variable& x) { init::ones_(x); });
  table.add("init::constant_", [](Variable& x, double a) { init::constant_(x, a); });
  table.add("init::uniform_", [](Variable& x, double a, double b) { init::uniform_(x, a, b); });
  table.add("init::normal_", [](Variable& x, double a, double b) { init::normal_(x, a, b); });
  table.add("init::kaiming_normal_",
            [](Variable& x, double gain) { init::kaiming_normal_(x, {.gain = gain}); });
  table.add("init::kaiming_uniform_",
            [](Variable& x, double gain) { init::kaiming_uniform_(x, {.gain = gain}); });
  table.add("init::xavier_normal_",
            [](Variable& x, double gain) { init::xavier_normal_(x, gain); });
  table.add("init::xavier_uniform_",
            [](Variable& x, double gain) { init::xavier_uniform_(x, gain); });
  table.add("init::orthogonal_", [](Variable& x, double gain) { init::orthogonal_(x, gain); });
  table.add("init::fans init::leaky_relu_gain", [](const Shape& shape, double slope) {
    init::leaky_relu_gain(slope);
    init::fans(shape);
  });
  table.add("init::torch init::keras init::uniform_range", [](Variable w, Variable b, double r) {
    init::torch(w, b), init::keras(w, b), init::uniform_range(r)(w, b);
  });
  table.add("initialize", [model](double range) {
    Sequential net = model();
    initialize(net, init::uniform_range(range));
    initialize(net, {});
  });
}

}  // namespace

void add_nn_rows(Table& table) {
  add_activation_rows(table);
  add_image_rows(table);
  add_layer_rows(table);
  add_loss_rows(table);
  add_module_rows(table);
}

}  // namespace tapegrad::testing
