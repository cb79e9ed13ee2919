#include "nn/attention.h"

#include <cmath>

#include "core/base/internal/classic_text.h"
#include "core/tape/internal/call_line.h"
#include "nn/init.h"
#include "nn/weighted.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/linear.h"
#include "ops/view.h"

namespace tapegrad::nn {
namespace {

int64_t checked_width(const MultiheadAttentionOptions& o) {
  constexpr std::string_view kName = MultiheadAttention::kName;
  require_option(kName, ".embed_dim", o.embed_dim);
  require_option(kName, ".num_heads", o.num_heads);
  if (o.embed_dim % o.num_heads != 0)
    fail<ArgumentError>(kName, ": ", o.num_heads, " heads do not divide ", o.embed_dim,
                        " features");
  return o.embed_dim;
}

/// Combines both masks into one that is added to the scores: -inf for excluded keys.
Variable added(const AttentionMasks& masks, const Variable& like) {
  const auto floats = [&](const Variable& mask) {
    if (mask.dtype() != boolean) return mask.to(like.dtype());
    return where(mask, -INFINITY, zeros({}, {.dtype = like.dtype(), .device = like.device()}));
  };
  Variable sum;
  if (masks.attn_mask.defined()) sum = floats(masks.attn_mask);
  if (masks.key_padding_mask.defined()) {
    const Variable& padding = masks.key_padding_mask;
    if (padding.rank() != 2 || padding.dtype() != boolean)
      fail<ArgumentError>("MultiheadAttention: key_padding_mask is bool [batch, keys], not ",
                          padding.dtype(), ' ', padding.shape());
    const Variable columns = floats(reshape(padding, {padding.size(0), 1, 1, padding.size(1)}));
    sum = sum.defined() ? sum + columns : columns;
  }
  return sum;
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads, double dropout)
    : MultiheadAttention(MultiheadAttentionOptions{{}, embed_dim, num_heads, dropout}) {}
MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads,
                                       MultiheadAttentionOptions options)
    : MultiheadAttention((options.embed_dim = embed_dim, options.num_heads = num_heads, options)) {}
MultiheadAttention::MultiheadAttention(MultiheadAttentionOptions options)
    : out_proj({.in_features = checked_width(options),
                .out_features = options.embed_dim,
                .bias = options.bias}),
      options_(options) {
  require_share(kName, ".dropout", options.dropout);
  in_proj_weight = empty({3 * options.embed_dim, options.embed_dim});
  init::xavier_uniform_(in_proj_weight).requires_grad_();
  if (!options.bias) return;
  in_proj_bias = zeros({3 * options.embed_dim}, {.requires_grad = true});
  out_proj.bias.rebind(
      Tensor::full({options.embed_dim}, 0.0, out_proj.bias.dtype(), out_proj.bias.device()));
}

Variable MultiheadAttention::forward(const Variable& query, const Variable& key,
                                     const Variable& value, const AttentionMasks& masks) const {
  const CallLine line(ModuleCall::line());
  const int64_t width = options_.embed_dim, heads = options_.num_heads;
  for (const Variable* x : {&query, &key, &value})
    if (x->rank() != 3 || x->size(2) != width)
      fail<ShapeError>(kName, ": sequences with ", width, " features wanted: ", query.shape(), ", ",
                       key.shape(), ", ", value.shape());
  /// Applies part i of the input projection (query, key or value). Returns [batch, heads, length,
  /// features per head].
  const auto in_heads = [&](const Variable& x, int64_t i) {
    const Variable bias =
        in_proj_bias.defined() ? narrow(in_proj_bias, 0, i * width, width) : Variable();
    const Variable y = linear(x, narrow(in_proj_weight, 0, i * width, width), bias);
    const Variable split = reshape(y, {y.size(0), y.size(1), heads, width / heads});
    return permute(split, options_.batch_first ? Dims{0, 2, 1, 3} : Dims{1, 2, 0, 3});
  };
  const Variable y = scaled_dot_product_attention(
      in_heads(query, 0), in_heads(key, 1), in_heads(value, 2),
      {.attn_mask = added(masks, query), .dropout_p = is_training() ? options_.dropout : 0.0});
  const Variable joined = permute(y, options_.batch_first ? Dims{0, 2, 1, 3} : Dims{2, 0, 1, 3});
  return out_proj(reshape(joined, query.shape()));
}

std::string MultiheadAttention::options() const {
  ClassicText text;
  text << "embed_dim=" << options_.embed_dim << ", num_heads=" << options_.num_heads;
  if (options_.dropout != 0) text << ", dropout=" << options_.dropout;
  if (!options_.bias) text << ", bias=false";
  if (options_.batch_first) text << ", batch_first=true";
  return text.str();
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 int64_t dim_feedforward, double dropout)
    : TransformerEncoderLayer(
          TransformerEncoderLayerOptions{{}, d_model, nhead, dim_feedforward, dropout}) {}
TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 TransformerEncoderLayerOptions options)
    : TransformerEncoderLayer((options.d_model = d_model, options.nhead = nhead, options)) {}
TransformerEncoderLayer::TransformerEncoderLayer(TransformerEncoderLayerOptions options)
    : self_attn({.embed_dim = options.d_model,
                 .num_heads = options.nhead,
                 .dropout = options.dropout,
                 .batch_first = options.batch_first}),
      linear1({.in_features = options.d_model, .out_features = options.dim_feedforward}),
      linear2({.in_features = options.dim_feedforward, .out_features = options.d_model}),
      norm1({.normalized_shape = {options.d_model}, .eps = options.layer_norm_eps}),
      norm2({.normalized_shape = {options.d_model}, .eps = options.layer_norm_eps}),
      options_(options) {}

Variable TransformerEncoderLayer::add_attended(const Variable& residual, const Variable& x,
                                               const AttentionMasks& masks) const {
  return dropout_add(self_attn.forward(x, x, x, masks), residual, options_.dropout, is_training());
}

Variable TransformerEncoderLayer::add_fed_forward(const Variable& residual,
                                                  const Variable& x) const {
  Variable active =
      options_.activation == FeedforwardActivation::kRelu ? relu(linear1(x)) : gelu(linear1(x));
  Variable y = linear2(dropout(std::move(active), options_.dropout, is_training()));
  return dropout_add(std::move(y), residual, options_.dropout, is_training());
}

Variable TransformerEncoderLayer::forward(const Variable& x, const AttentionMasks& masks) const {
  const CallLine line(ModuleCall::line());
  if (options_.norm_first) {
    const Variable attended = add_attended(x, norm1(x), masks);
    return add_fed_forward(attended, norm2(attended));
  }
  const Variable attended = norm1(add_attended(x, x, masks));
  return norm2(add_fed_forward(attended, attended));
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> last)
    : norm(std::move(last)) {
  require_option(kName, "num_layers", num_layers);
  if (num_layers > 65536)
    fail<ArgumentError>(kName, ": num_layers is ", num_layers, ", above 65536");
  for (int64_t i = 0; i < num_layers; ++i) layers.push_back(layer.clone());
}

Variable TransformerEncoder::forward(const Variable& x, const AttentionMasks& masks) const {
  Variable y = x;
  for (const TransformerEncoderLayer& layer : layers) y = layer(y, masks);
  return norm ? (*norm)(y) : y;
}

}  // namespace tapegrad::nn
