// Multi-head attention, and the encoder layer of Vaswani et al. 2017.
#pragma once

#include <optional>
#include <vector>

#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/attention.h"

namespace tapegrad::nn {

struct MultiheadAttentionOptions {
  ByName by_name = {};
  int64_t embed_dim = 0;  // features of query, key and value; required
  int64_t num_heads = 0;  // must divide embed_dim; required
  double dropout = 0.0;   // of the attention weights, in training
  bool bias = true;
  bool batch_first = false;  // [batch, length, features] instead of [length, batch, features]
};

/// Masks that exclude keys. A bool mask is true where a key does NOT take part (like PyTorch's
/// layer, unlike PyTorch's function). A float mask is added to the scores.
struct AttentionMasks {
  Variable attn_mask = {};         // broadcasts to [batch, heads, queries, keys]
  Variable key_padding_mask = {};  // [batch, keys], bool
};

/// Projects query, key and value, computes attention per head on embed_dim / num_heads features,
/// concatenates the heads and projects the result.
class MultiheadAttention final : public Model<MultiheadAttention> {
 public:
  static constexpr std::string_view kName = "MultiheadAttention";
  explicit MultiheadAttention(MultiheadAttentionOptions options);
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, double dropout = 0.0);
  /// MultiheadAttention(64, 4, {.batch_first = true}): both sizes, and options by name.
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, MultiheadAttentionOptions options);

  void members(Members& m) override {
    m("in_proj_weight", in_proj_weight)("in_proj_bias", in_proj_bias)("out_proj", out_proj);
  }
  Variable forward(const Variable& query, const Variable& key, const Variable& value,
                   const AttentionMasks& masks = {}) const;
  std::string options() const override;
  using Model::operator();
  /// For masks in braces: attention(q, k, v, {.key_padding_mask = mask}).
  Variable operator()(const Variable& query, const Variable& key, const Variable& value,
                      const AttentionMasks& masks) const {
    return Model::operator()(query, key, value, masks);
  }

  Variable in_proj_weight, in_proj_bias;  // rows for query, key and value, concatenated
  Linear out_proj;

 private:
  MultiheadAttentionOptions options_;
};

enum class FeedforwardActivation { kRelu, kGelu };
constexpr auto choice_names(FeedforwardActivation) {
  return std::to_array<ChoiceName<FeedforwardActivation>>(
      {{"relu", FeedforwardActivation::kRelu}, {"gelu", FeedforwardActivation::kGelu}});
}
struct TransformerEncoderLayerOptions {
  ByName by_name = {};
  int64_t d_model = 0;  // required
  int64_t nhead = 0;    // required
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  Choice<FeedforwardActivation> activation = FeedforwardActivation::kRelu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  // normalise the input of each part instead of its output
};
/// x = norm1(x + attention(x)), then x = norm2(x + linear2(activation(linear1(x)))), with dropout
/// after each part.
class TransformerEncoderLayer final : public Model<TransformerEncoderLayer> {
 public:
  static constexpr std::string_view kName = "TransformerEncoderLayer";
  explicit TransformerEncoderLayer(TransformerEncoderLayerOptions options);
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, int64_t dim_feedforward = 2048,
                          double dropout = 0.1);
  /// TransformerEncoderLayer(64, 4, {.norm_first = true}): both sizes, and options by name.
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, TransformerEncoderLayerOptions options);

  void members(Members& m) override {
    m("self_attn", self_attn)("linear1", linear1)("linear2", linear2);
    m("norm1", norm1)("norm2", norm2);
  }
  Variable forward(const Variable& x) const { return forward(x, AttentionMasks{}); }
  Variable forward(const Variable& x, const AttentionMasks& masks) const;
  using Model::operator();
  /// Also for masks in braces.
  Variable operator()(const Variable& x, const AttentionMasks& masks,
                      Where where = Where::current()) const {
    return Model::operator()(x, masks, where);
  }

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;

 private:
  /// Return the residual plus the attention (or feed-forward) part of x, after dropout.
  Variable add_attended(const Variable& residual, const Variable& x,
                        const AttentionMasks& masks) const;
  Variable add_fed_forward(const Variable& residual, const Variable& x) const;

  TransformerEncoderLayerOptions options_;
};

/// A stack of clones of one layer, and a norm of the result if one is given.
class TransformerEncoder final : public Model<TransformerEncoder> {
 public:
  static constexpr std::string_view kName = "TransformerEncoder";
  TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> norm = {});

  void members(Members& m) override { m("layers", layers)("norm", norm); }
  Variable forward(const Variable& x) const { return forward(x, AttentionMasks{}); }
  Variable forward(const Variable& x, const AttentionMasks& masks) const;
  using Model::operator();
  /// Also for masks in braces.
  Variable operator()(const Variable& x, const AttentionMasks& masks,
                      Where where = Where::current()) const {
    return Model::operator()(x, masks, where);
  }

  std::vector<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};

}  // namespace tapegrad::nn
