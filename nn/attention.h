// Attention with several heads, and the encoder layer of Vaswani et al. 2017.
#pragma once

#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/attention.h"

namespace tapegrad::nn {

struct MultiheadAttentionOptions {
  int64_t embed_dim = 0;  // features of query, key and value; required
  int64_t num_heads = 0;  // divides embed_dim; required
  double dropout = 0.0;   // of the shares, in training
  bool bias = true;
  bool batch_first = false;  // [batch, length, features] instead of [length, batch, features]
};

/// Which keys are left out: bool masks are true where a key does NOT take part (as in PyTorch's
/// layer, unlike its function), float masks are added to the scores.
struct AttentionMasks {
  Variable attn_mask = {};         // [queries, keys], or anything that broadcasts to
                                   // [batch, heads, queries, keys]
  Variable key_padding_mask = {};  // [batch, keys], bool
};

/// Each head attends in embed_dim / num_heads features of linear maps of query, key and value; the
/// heads' results are concatenated and mapped once more.
class MultiheadAttention final : public Model<MultiheadAttention> {
 public:
  static constexpr std::string_view kName = "MultiheadAttention";
  explicit MultiheadAttention(MultiheadAttentionOptions options);

  void members(Members& m) override {
    m("in_proj_weight", in_proj_weight)("in_proj_bias", in_proj_bias)("out_proj", out_proj);
  }
  Variable forward(const Variable& query, const Variable& key, const Variable& value,
                   const AttentionMasks& masks = {}) const;
  std::string options() const override;

  Variable in_proj_weight, in_proj_bias;  // of query, key and value, one under the other
  Linear out_proj;

 private:
  MultiheadAttentionOptions options_;
};

enum class FeedforwardActivation { kRelu, kGelu };
struct TransformerEncoderLayerOptions {
  int64_t d_model = 0;  // required
  int64_t nhead = 0;    // required
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  FeedforwardActivation activation = FeedforwardActivation::kRelu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  // normalise what enters each part, not what leaves it
};
/// x = norm1(x + attention(x)), x = norm2(x + linear2(activation(linear1(x)))), with dropout after
/// each part.
class TransformerEncoderLayer final : public Model<TransformerEncoderLayer> {
 public:
  static constexpr std::string_view kName = "TransformerEncoderLayer";
  explicit TransformerEncoderLayer(TransformerEncoderLayerOptions options);

  void members(Members& m) override {
    m("self_attn", self_attn)("linear1", linear1)("linear2", linear2);
    m("norm1", norm1)("norm2", norm2);
  }
  Variable forward(const Variable& x) const { return forward(x, AttentionMasks{}); }
  Variable forward(const Variable& x, const AttentionMasks& masks) const;

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;

 private:
  /// The residual and what a part makes of x, some of it dropped.
  Variable add_attended(const Variable& residual, const Variable& x,
                        const AttentionMasks& masks) const;
  Variable add_fed_forward(const Variable& residual, const Variable& x) const;

  TransformerEncoderLayerOptions options_;
};

}  // namespace tapegrad::nn
