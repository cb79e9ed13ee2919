// Multi-head attention (Vaswani et al. 2017).
#pragma once

#include <optional>

#include "nn/linear.h"
#include "nn/refused_nullptr.h"
#include "ops/attention.h"

namespace tapegrad::nn {

struct MultiheadAttentionOptions {
  ByName by_name = {};
  int64_t embed_dim = 0;  // features of query, key and value; required
  int64_t num_heads = 0;  // must divide embed_dim; required
  double dropout = 0.0;   // of the attention weights, in training
  bool bias = true;
  bool add_bias_kv = false;    // append the parameters bias_k and bias_v to keys and values
  bool add_zero_attn = false;  // append a key and a value of zeros
  int64_t kdim = 0, vdim = 0;  // features of keys and of values; 0 means embed_dim
  bool batch_first = false;    // [batch, length, features] instead of [length, batch, features]
};

/// Masks that exclude keys. A bool mask is true where a key does NOT take part, as in PyTorch's
/// layer; PyTorch's function has the opposite meaning. A float mask is added to the scores.
struct AttentionMasks {
  Variable attn_mask = {};  // [batch * heads, queries, keys], or broadcasts to [batch, heads,
                            // queries, keys]
  Variable key_padding_mask = {};    // [batch, keys], bool or float; unbatched: [keys]
  bool is_causal = false;            // query i sees keys 0 ... i
  bool need_weights = true;          // no effect: weights are computed on request
  bool average_attn_weights = true;  // average of `auto [y, weights] = attention(q, k, v, masks)`
};

/// The result of MultiheadAttention: a Variable, from which the weights can be computed as well.
///
///   Variable y = attention(x, x, x);
///   auto [y, weights] = attention(x, x, x);
class AttentionOutput : public Variable {
 public:
  AttentionOutput(Variable y, Variable query, Variable key, AttentionOptions options,
                  bool average = true);

  /// Returns the attention weights before dropout, averaged over the heads: [batch, queries, keys];
  /// if not `average`, [batch, heads, queries, keys]. Unbatched results lack the first dimension.
  Variable weights(bool average) const;
  Variable weights() const;

 private:
  Variable query_, key_;  // [batch, heads, length, features of a head]
  AttentionOptions options_;
  bool average_;
};
template <size_t I>
requires(I < 2) Variable get(const AttentionOutput& y) {
  if constexpr (I == 0)
    return y;
  else
    return y.weights();
}

/// Projects query, key and value, computes attention per head on embed_dim / num_heads features,
/// concatenates the heads and projects the result. Sequences without a batch have two dimensions.
class MultiheadAttention final : public Model<MultiheadAttention> {
 public:
  static constexpr std::string_view kName = "MultiheadAttention";
  explicit MultiheadAttention(RefusedNullptr);
  explicit MultiheadAttention(MultiheadAttentionOptions options);
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, double dropout = 0.0,
                     Where where = Where::current());
  /// Takes both sizes, and options by name: MultiheadAttention(64, 4, {.batch_first = true}).
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, MultiheadAttentionOptions options);

  void members(Members& m) override;
  AttentionOutput forward(const Variable& query, const Variable& key, const Variable& value,
                          const AttentionMasks& masks = {}) const;
  /// Overload with PyTorch's arguments by position. need_weights has no effect: weights are
  /// computed on request.
  AttentionOutput forward(const Variable& query, const Variable& key, const Variable& value,
                          const Variable& key_padding_mask, bool need_weights = true,
                          const Variable& attn_mask = {}) const;
  std::string options() const override;
  using Model::operator();
  /// Overload for masks in braces: attention(q, k, v, {.key_padding_mask = mask}).
  AttentionOutput operator()(const Variable& query, const Variable& key, const Variable& value,
                             const AttentionMasks& masks, Where where = Where::current()) const;

  Parameter in_proj_weight;  // rows for query, key and value, concatenated
  Parameter q_proj_weight, k_proj_weight,
      v_proj_weight;         // in place of in_proj_weight if kdim or vdim is not embed_dim
  Parameter in_proj_bias;    // for query, key and value, concatenated
  Parameter bias_k, bias_v;  // [1, 1, embed_dim], of add_bias_kv
  Linear out_proj;

 private:
  MultiheadAttentionOptions options_;
};

}  // namespace tapegrad::nn

template <>
struct std::tuple_size<tapegrad::nn::AttentionOutput> : std::integral_constant<size_t, 2> {};
template <size_t I>
struct std::tuple_element<I, tapegrad::nn::AttentionOutput> {
  using type = tapegrad::Variable;
};

namespace std {
/// Returns part i, as from libtorch's tuples: std::get<0>(attention(x, x, x)).
template <size_t i>
tapegrad::Variable get(const tapegrad::nn::AttentionOutput& y) {
  return tapegrad::nn::get<i>(y);
}
}  // namespace std
