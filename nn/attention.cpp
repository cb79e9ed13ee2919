#include "nn/attention.h"

#include <cmath>

#include "core/base/internal/classic_text.h"
#include "core/tape/internal/call_line.h"
#include "nn/init.h"
#include "nn/weighted.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/index.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace tapegrad::nn {

namespace {

int64_t checked_width(const MultiheadAttentionOptions& o) {
  constexpr std::string_view kName = MultiheadAttention::kName;
  const ErrorLine line(o.by_name.where);
  require_option(kName, ".embed_dim", o.embed_dim);
  require_option(kName, ".num_heads", o.num_heads);
  if (o.embed_dim % o.num_heads != 0)
    fail<ArgumentError>(kName, ": ", o.num_heads, " heads do not divide ", o.embed_dim,
                        " features");
  return o.embed_dim;
}

/// [queries, keys], true where a key comes after its query.
Variable later_keys(int64_t queries, int64_t keys, Device device) {
  return triu(ones({queries, keys}, {.dtype = boolean, .device = device}), 1);
}

/// Combines the masks into one that is added to the scores of query and key, [batch, heads, length,
/// features]: -inf for excluded keys, and 0 for further keys that follow those of `key`. Empty if
/// no mask but is_causal is given and there are no further keys.
Variable added(const AttentionMasks& masks, const Variable& query, const Variable& key,
               int64_t further_keys) {
  const int64_t heads = query.size(1);
  const auto floats = [&](const Variable& mask) {
    if (mask.dtype() != boolean) return mask.to(query.dtype());
    return where(mask, -INFINITY, zeros({}, {.dtype = query.dtype(), .device = query.device()}));
  };
  Variable sum;
  if (masks.attn_mask.defined()) {
    sum = floats(masks.attn_mask);
    if (sum.rank() == 2 && sum.shape() != Shape{query.size(2), key.size(2)})
      fail<ShapeError>("MultiheadAttention: attn_mask is [queries, keys] = ",
                       Shape{query.size(2), key.size(2)}, ", not ", sum.shape());
    if (sum.rank() == 3 && heads > 1 && sum.size(0) % heads == 0 && sum.size(0) > 1)
      sum = reshape(sum, {sum.size(0) / heads, heads, sum.size(1), sum.size(2)});
  }
  if (masks.key_padding_mask.defined()) {
    Variable padding = masks.key_padding_mask;
    if (padding.rank() == 1) padding = unsqueeze(padding, 0);
    if (padding.rank() != 2 || (padding.dtype() != boolean && !is_float(padding.dtype())))
      fail<ArgumentError>(
          "MultiheadAttention: key_padding_mask is bool or float [batch, keys], not ",
          padding.dtype(), ' ', padding.shape());
    if (padding.size(1) != key.size(2) ||
        (padding.size(0) != query.size(0) && padding.size(0) != 1))
      fail<ShapeError>("MultiheadAttention: key_padding_mask is [batch, keys] = ",
                       Shape{query.size(0), key.size(2)}, ", not ", padding.shape());
    const Variable columns = floats(reshape(padding, {padding.size(0), 1, 1, padding.size(1)}));
    sum = sum.defined() ? sum + columns : columns;
  }
  if (masks.is_causal && (sum.defined() || further_keys > 0)) {
    const Variable later = floats(later_keys(query.size(2), key.size(2), query.device()));
    sum = sum.defined() ? sum + later : later;
  }
  if (!sum.defined() || further_keys == 0) return sum;
  if (sum.size(-1) == 1) {  // broadcasts over the keys
    Shape whole = sum.shape();
    whole[-1] = key.size(2);
    sum = expand(sum, whole);
  }
  return pad(sum, {0, further_keys});
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads, double dropout,
                                       Where where)
    : MultiheadAttention(MultiheadAttentionOptions{{where}, embed_dim, num_heads, dropout}) {}
MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads,
                                       MultiheadAttentionOptions options)
    : MultiheadAttention((options.embed_dim = embed_dim, options.num_heads = num_heads, options)) {}
MultiheadAttention::MultiheadAttention(MultiheadAttentionOptions options)
    : out_proj({.in_features = checked_width(options),
                .out_features = options.embed_dim,
                .bias = options.bias}),
      options_(options) {
  const ErrorLine line(options.by_name.where);
  require_share(kName, ".dropout", options.dropout);
  const auto drawn = [](int64_t rows, int64_t columns) {
    Variable weight = empty({rows, columns});
    return init::xavier_uniform_(weight).requires_grad_();
  };
  const int64_t width = options.embed_dim;
  if (options_.kdim == 0) options_.kdim = width;
  if (options_.vdim == 0) options_.vdim = width;
  require_option(kName, ".kdim", options_.kdim);
  require_option(kName, ".vdim", options_.vdim);
  if (options_.kdim == width && options_.vdim == width) {
    in_proj_weight = drawn(3 * width, width);
  } else {
    q_proj_weight = drawn(width, width);
    k_proj_weight = drawn(width, options_.kdim);
    v_proj_weight = drawn(width, options_.vdim);
  }
  if (options.add_bias_kv)
    for (Parameter* row : {&bias_k, &bias_v}) {
      Variable drawn_row = empty({1, 1, width});
      *row = init::xavier_normal_(drawn_row).requires_grad_();
    }
  if (!options.bias) return;
  in_proj_bias = zeros({3 * options.embed_dim}, {.requires_grad = true});
  out_proj.bias.rebind(
      Tensor::full({options.embed_dim}, 0.0, out_proj.bias.dtype(), out_proj.bias.device()));
}

AttentionOutput MultiheadAttention::forward(const Variable& query, const Variable& key,
                                            const Variable& value,
                                            const AttentionMasks& masks) const {
  const CallLine line(ModuleCall::line());
  const int64_t width = options_.embed_dim, heads = options_.num_heads;
  const auto fits = [&](const Variable& x, int64_t features) {
    return x.rank() == query.rank() && x.size(-1) == features;
  };
  if ((query.rank() != 2 && query.rank() != 3) || !fits(query, width) ||
      !fits(key, options_.kdim) || !fits(value, options_.vdim))
    fail<ShapeError>(kName, ": sequences with ", width, ", ", options_.kdim, " and ", options_.vdim,
                     " features wanted: ", query.shape(), ", ", key.shape(), ", ", value.shape());
  if (query.rank() == 2) {
    const int batch = options_.batch_first ? 0 : 1;
    AttentionOutput y =
        forward(unsqueeze(query, batch), unsqueeze(key, batch), unsqueeze(value, batch), masks);
    static_cast<Variable&>(y) = squeeze(y, batch);
    return y;
  }
  /// Applies part i of the input projection (query, key or value). Returns [batch, heads, length,
  /// features per head].
  const auto in_heads = [&](const Variable& x, const Variable& own_weight, int64_t i) {
    const Variable bias =
        in_proj_bias.defined() ? narrow(in_proj_bias, 0, i * width, width) : Variable();
    const Variable weight =
        own_weight.defined() ? own_weight : narrow(in_proj_weight, 0, i * width, width);
    const Variable y = linear(x, weight, bias);
    const Variable split = reshape(y, {y.size(0), y.size(1), heads, width / heads});
    return permute(split, options_.batch_first ? Dims{0, 2, 1, 3} : Dims{1, 2, 0, 3});
  };
  const Variable q = in_heads(query, q_proj_weight, 0);
  Variable k = in_heads(key, k_proj_weight, 1), v = in_heads(value, v_proj_weight, 2);
  AttentionOptions options{
      .attn_mask = added(masks, q, k, int64_t{options_.add_bias_kv} + options_.add_zero_attn),
      .dropout_p = is_training() ? options_.dropout : 0.0};
  options.is_causal = masks.is_causal && !options.attn_mask.defined();
  // Appends a row, [heads, 1, features per head] or a number, to each sequence of x.
  const auto append = [&](Variable& x, const Variable& row) {
    x = cat({x, expand(row, {x.size(0), heads, 1, width / heads})}, 2);
  };
  if (options_.add_bias_kv) {
    append(k, reshape(bias_k, {heads, 1, width / heads}));
    append(v, reshape(bias_v, {heads, 1, width / heads}));
  }
  if (options_.add_zero_attn) {
    const Variable zero = zeros({}, {.dtype = k.dtype(), .device = k.device()});
    append(k, zero);
    append(v, zero);
  }
  const Variable y = scaled_dot_product_attention(q, k, v, options);
  const Variable joined = permute(y, options_.batch_first ? Dims{0, 2, 1, 3} : Dims{2, 0, 1, 3});
  return {out_proj(reshape(joined, query.shape())), q, k, std::move(options),
          masks.average_attn_weights};
}

AttentionOutput MultiheadAttention::forward(const Variable& query, const Variable& key,
                                            const Variable& value, const Variable& key_padding_mask,
                                            bool, const Variable& attn_mask) const {
  return forward(query, key, value, AttentionMasks{attn_mask, key_padding_mask});
}

Variable AttentionOutput::weights(bool average) const {
  const Variable products = query_.matmul(key_.transpose(-2, -1));
  Variable scores = products / std::sqrt(double(query_.size(-1)));
  if (options_.is_causal)
    scores = scores.masked_fill(later_keys(query_.size(2), key_.size(2), device()), -INFINITY);
  if (options_.attn_mask.defined()) scores = scores + options_.attn_mask;
  Variable w = scores.softmax(-1);
  if (average) w = w.mean(1);
  return rank() == 2 ? w.squeeze(0) : w;
}

std::string MultiheadAttention::options() const {
  ClassicText text;
  text << "embed_dim=" << options_.embed_dim << ", num_heads=" << options_.num_heads;
  if (options_.dropout != 0) text << ", dropout=" << options_.dropout;
  if (!options_.bias) text << ", bias=false";
  if (options_.add_bias_kv) text << ", add_bias_kv=true";
  if (options_.add_zero_attn) text << ", add_zero_attn=true";
  if (options_.batch_first) text << ", batch_first=true";
  if (options_.kdim != options_.embed_dim) text << ", kdim=" << options_.kdim;
  if (options_.vdim != options_.embed_dim) text << ", vdim=" << options_.vdim;
  return text.str();
}

AttentionOutput MultiheadAttention::operator()(const Variable& query, const Variable& key,
                                               const Variable& value, const AttentionMasks& masks,
                                               Where where) const {
  using namespace tapegrad::detail;
  const Set<&Context::module_line> line(is_of_library(where) ? context.module_line : &where);
  return Model::operator()(query, key, value, masks);
}

AttentionOutput::AttentionOutput(Variable y, Variable query, Variable key, AttentionOptions options,
                                 bool average)
    : Variable(std::move(y)),
      query_(std::move(query)),
      key_(std::move(key)),
      options_(std::move(options)),
      average_(average) {}
Variable AttentionOutput::weights() const { return weights(average_); }
void MultiheadAttention::members(Members& m) {
  m("in_proj_weight", in_proj_weight)("q_proj_weight", q_proj_weight);
  m("k_proj_weight", k_proj_weight)("v_proj_weight", v_proj_weight);
  m("in_proj_bias", in_proj_bias)("bias_k", bias_k)("bias_v", bias_v)("out_proj", out_proj);
}

}  // namespace tapegrad::nn
