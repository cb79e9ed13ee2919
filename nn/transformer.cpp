#include "nn/transformer.h"

#include <cmath>

#include "core/tape/internal/call_line.h"
#include "nn/init.h"
#include "nn/weighted.h"
#include "ops/activation.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/dropout.h"

namespace tapegrad::nn {
namespace {

TransformerEncoderLayerOptions layer_options(const TransformerOptions& o) {
  return {.by_name = o.by_name,
          .d_model = o.d_model,
          .nhead = o.nhead,
          .dim_feedforward = o.dim_feedforward,
          .dropout = o.dropout,
          .activation = o.activation,
          .layer_norm_eps = o.layer_norm_eps,
          .batch_first = o.batch_first,
          .norm_first = o.norm_first,
          .bias = o.bias};
}

MultiheadAttentionOptions attention_options(const TransformerEncoderLayerOptions& o) {
  return {.by_name = o.by_name,
          .embed_dim = o.d_model,
          .num_heads = o.nhead,
          .dropout = o.dropout,
          .bias = o.bias,
          .batch_first = o.batch_first};
}

/// Returns the residual plus linear2(activation(linear1(x))), with dropout after both parts.
Variable add_fed_forward(const Variable& residual, const Variable& x, const Linear& linear1,
                         const Linear& linear2, const TransformerEncoderLayerOptions& options,
                         bool is_training) {
  Variable active =
      options.activation == FeedforwardActivation::kRelu ? relu(linear1(x)) : gelu(linear1(x));
  Variable y = linear2(dropout(std::move(active), options.dropout, is_training));
  return dropout_add(std::move(y), residual, options.dropout, is_training);
}

template <typename Layer>
void add_clones(std::string_view kind, const Layer& layer, int64_t num_layers,
                std::vector<Layer>& layers) {
  require_option(kind, "num_layers", num_layers);
  if (num_layers > 65536)
    fail<ArgumentError>(kind, ": num_layers is ", num_layers, ", above 65536");
  for (int64_t i = 0; i < num_layers; ++i) layers.push_back(layer.clone());
}

}  // namespace

Variable causal_mask(int64_t length) {
  require_option("causal_mask", "length", length);
  return triu(full({length, length}, -INFINITY), 1);
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 int64_t dim_feedforward, double dropout,
                                                 Where where)
    : TransformerEncoderLayer(
          TransformerEncoderLayerOptions{{where}, d_model, nhead, dim_feedforward, dropout}) {}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 TransformerEncoderLayerOptions options)
    : TransformerEncoderLayer((options.d_model = d_model, options.nhead = nhead, options)) {}

LayerNormOptions detail::norm_of(const TransformerEncoderLayerOptions& options) {
  return {
      .normalized_shape = {options.d_model}, .eps = options.layer_norm_eps, .bias = options.bias};
}

TransformerEncoderLayer::TransformerEncoderLayer(TransformerEncoderLayerOptions options)
    : self_attn(attention_options(options)),
      linear1(options.d_model, options.dim_feedforward, options.bias, options.by_name.where),
      linear2(options.dim_feedforward, options.d_model, options.bias, options.by_name.where),
      norm1(detail::norm_of(options)),
      norm2(detail::norm_of(options)),
      options_(options) {}

Variable TransformerEncoderLayer::add_attended(const Variable& residual, const Variable& x,
                                               const AttentionMasks& masks) const {
  return dropout_add(self_attn.forward(x, x, x, masks), residual, options_.dropout, is_training());
}

Variable TransformerEncoderLayer::forward(const Variable& x, const AttentionMasks& masks) const {
  const CallLine line(ModuleCall::line());
  const auto feed_forward = [&](const Variable& residual, const Variable& z) {
    return add_fed_forward(residual, z, linear1, linear2, options_, is_training());
  };
  if (options_.norm_first) {
    const Variable attended = add_attended(x, norm1(x), masks);
    return feed_forward(attended, norm2(attended));
  }
  const Variable attended = norm1(add_attended(x, x, masks));
  return norm2(feed_forward(attended, attended));
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> last, Where where)
    : norm(std::move(last)) {
  const ErrorLine line(where);
  add_clones(kName, layer, num_layers, layers);
}

Variable TransformerEncoder::forward(const Variable& x, const AttentionMasks& masks) const {
  Variable y = x;
  for (const TransformerEncoderLayer& layer : layers) y = layer(y, masks);
  return norm ? (*norm)(y) : y;
}

template <typename>
Variable TransformerEncoderLayer::operator()(const Variable& x, const AttentionMasks& masks,
                                             Where where) const {
  return Model::operator()(x, masks, where);
}

Variable TransformerEncoderLayer::operator()(const Variable& x, const EncoderMasks& masks,
                                             Where where) const {
  return Model::operator()(x, AttentionMasks(masks), where);
}

template <typename>
Variable TransformerEncoder::operator()(const Variable& x, const AttentionMasks& masks,
                                        Where where) const {
  return Model::operator()(x, masks, where);
}

Variable TransformerEncoder::operator()(const Variable& x, const EncoderMasks& masks,
                                        Where where) const {
  return Model::operator()(x, AttentionMasks(masks), where);
}

EncoderMasks::operator AttentionMasks() const {
  return {mask.defined() ? mask : src_mask, src_key_padding_mask, is_causal};
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 int64_t dim_feedforward,
                                                 TransformerEncoderLayerOptions options)
    : TransformerEncoderLayer(d_model, nhead,
                              (options.dim_feedforward = dim_feedforward, std::move(options))) {}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 int64_t dim_feedforward, double dropout,
                                                 TransformerEncoderLayerOptions options)
    : TransformerEncoderLayer(d_model, nhead, dim_feedforward,
                              (options.dropout = dropout, std::move(options))) {}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 int64_t dim_feedforward, double dropout,
                                                 Choice<FeedforwardActivation> activation,
                                                 Where where)
    : TransformerEncoderLayer(TransformerEncoderLayerOptions{.by_name = {where},
                                                             .d_model = d_model,
                                                             .nhead = nhead,
                                                             .dim_feedforward = dim_feedforward,
                                                             .dropout = dropout,
                                                             .activation = activation}) {}

void TransformerEncoderLayer::members(Members& m) {
  m("self_attn", self_attn)("linear1", linear1)("linear2", linear2);
  m("norm1", norm1)("norm2", norm2);
}

Variable TransformerEncoderLayer::forward(const Variable& x) const {
  return forward(x, AttentionMasks{});
}

Variable TransformerEncoderLayer::forward(const Variable& x, const Variable& attn_mask,
                                          const Variable& key_padding_mask) const {
  return forward(x, AttentionMasks{attn_mask, key_padding_mask});
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer,
                                       const TransformerStackOptions& options)
    : TransformerEncoder(layer, options.num_layers, options.norm, options.by_name.where) {}

void TransformerEncoder::members(Members& m) { m("layers", layers)("norm", norm); }

Variable TransformerEncoder::forward(const Variable& x) const {
  return forward(x, AttentionMasks{});
}

Variable TransformerEncoder::forward(const Variable& x, const Variable& attn_mask,
                                     const Variable& key_padding_mask) const {
  return forward(x, AttentionMasks{attn_mask, key_padding_mask});
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 int64_t dim_feedforward, double dropout,
                                                 Where where)
    : TransformerDecoderLayer(
          TransformerDecoderLayerOptions{{where}, d_model, nhead, dim_feedforward, dropout}) {}
TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 TransformerDecoderLayerOptions options)
    : TransformerDecoderLayer((options.d_model = d_model, options.nhead = nhead, options)) {}
TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 int64_t dim_feedforward,
                                                 TransformerDecoderLayerOptions options)
    : TransformerDecoderLayer(d_model, nhead,
                              (options.dim_feedforward = dim_feedforward, options)) {}
TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 int64_t dim_feedforward, double dropout,
                                                 TransformerDecoderLayerOptions options)
    : TransformerDecoderLayer(d_model, nhead, dim_feedforward,
                              (options.dropout = dropout, options)) {}
TransformerDecoderLayer::TransformerDecoderLayer(TransformerDecoderLayerOptions options)
    : self_attn(attention_options(options)),
      multihead_attn(attention_options(options)),
      linear1(options.d_model, options.dim_feedforward, options.bias, options.by_name.where),
      linear2(options.dim_feedforward, options.d_model, options.bias, options.by_name.where),
      norm1(detail::norm_of(options)),
      norm2(detail::norm_of(options)),
      norm3(detail::norm_of(options)),
      options_(options) {}

Variable TransformerDecoderLayer::forward(const Variable& x, const Variable& memory,
                                          const DecoderMasks& masks) const {
  const CallLine line(ModuleCall::line());
  const double p = options_.dropout;
  const auto attend_self = [&](const Variable& residual, const Variable& q) {
    const AttentionMasks of_target{masks.tgt_mask, masks.tgt_key_padding_mask};
    return dropout_add(self_attn(q, q, q, of_target), residual, p, is_training());
  };
  const auto attend_memory = [&](const Variable& residual, const Variable& q) {
    const AttentionMasks of_memory{masks.memory_mask, masks.memory_key_padding_mask};
    return dropout_add(multihead_attn(q, memory, memory, of_memory), residual, p, is_training());
  };
  const auto feed_forward = [&](const Variable& residual, const Variable& q) {
    return add_fed_forward(residual, q, linear1, linear2, options_, is_training());
  };
  if (options_.norm_first) {
    const Variable attended = attend_self(x, norm1(x));
    const Variable informed = attend_memory(attended, norm2(attended));
    return feed_forward(informed, norm3(informed));
  }
  const Variable attended = norm1(attend_self(x, x));
  const Variable informed = norm2(attend_memory(attended, attended));
  return norm3(feed_forward(informed, informed));
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> last, Where where)
    : norm(std::move(last)) {
  const ErrorLine line(where);
  add_clones(kName, layer, num_layers, layers);
}

Variable TransformerDecoder::forward(const Variable& x, const Variable& memory,
                                     const DecoderMasks& masks) const {
  Variable y = x;
  for (const TransformerDecoderLayer& layer : layers) y = layer(y, memory, masks);
  return norm ? (*norm)(y) : y;
}

Transformer::Transformer(TransformerOptions options)
    : encoder(TransformerEncoderLayer(layer_options(options)), options.num_encoder_layers,
              LayerNorm(detail::norm_of(layer_options(options))), options.by_name.where),
      decoder(TransformerDecoderLayer(layer_options(options)), options.num_decoder_layers,
              LayerNorm(detail::norm_of(layer_options(options))), options.by_name.where) {
  for (Variable parameter : parameters())
    if (parameter.rank() > 1) init::xavier_uniform_(parameter);
}

Variable Transformer::forward(const Variable& source, const Variable& target,
                              const TransformerMasks& masks) const {
  const CallLine line(ModuleCall::line());
  const Variable memory =
      encoder(source, AttentionMasks{masks.src_mask, masks.src_key_padding_mask});
  return decoder(target, memory,
                 DecoderMasks{masks.tgt_mask, masks.memory_mask, masks.tgt_key_padding_mask,
                              masks.memory_key_padding_mask});
}

Variable TransformerDecoderLayer::operator()(const Variable& x, const Variable& memory,
                                             const DecoderMasks& masks, Where where) const {
  return Model::operator()(x, memory, masks, where);
}

Variable TransformerDecoder::operator()(const Variable& x, const Variable& memory,
                                        const DecoderMasks& masks, Where where) const {
  return Model::operator()(x, memory, masks, where);
}

Variable Transformer::operator()(const Variable& source, const Variable& target,
                                 const TransformerMasks& masks, Where where) const {
  return Model::operator()(source, target, masks, where);
}

void TransformerDecoderLayer::members(Members& m) {
  m("self_attn", self_attn)("multihead_attn", multihead_attn);
  m("linear1", linear1)("linear2", linear2)("norm1", norm1)("norm2", norm2)("norm3", norm3);
}
TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer,
                                       const TransformerStackOptions& options)
    : TransformerDecoder(layer, options.num_layers, options.norm, options.by_name.where) {}
void TransformerDecoder::members(Members& m) { m("layers", layers)("norm", norm); }
Transformer::Transformer(int64_t d_model, int64_t nhead, int64_t num_encoder_layers,
                         int64_t num_decoder_layers, int64_t dim_feedforward, double dropout,
                         Where where)
    : Transformer({.by_name = {where},
                   .d_model = d_model,
                   .nhead = nhead,
                   .num_encoder_layers = num_encoder_layers,
                   .num_decoder_layers = num_decoder_layers,
                   .dim_feedforward = dim_feedforward,
                   .dropout = dropout}) {}
Transformer::Transformer(int64_t d_model, int64_t nhead, TransformerOptions options)
    : Transformer((options.d_model = d_model, options.nhead = nhead, options)) {}
void Transformer::members(Members& m) { m("encoder", encoder)("decoder", decoder); }
Variable Transformer::generate_square_subsequent_mask(int64_t length) {
  return causal_mask(length);
}

template Variable TransformerEncoderLayer::operator()<void>(const Variable&, const AttentionMasks&,
                                                            Where) const;
template Variable TransformerEncoder::operator()<void>(const Variable&, const AttentionMasks&,
                                                       Where) const;
template class Model<TransformerEncoderLayer, Module, false>;

}  // namespace tapegrad::nn
