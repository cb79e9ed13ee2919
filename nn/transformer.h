// The encoder and the decoder of Vaswani et al. 2017, their layers, and a whole Transformer.
//
//   nn::Transformer net({.d_model = 32, .nhead = 4, .batch_first = true});
//   Variable y = net(source, target, {.tgt_mask = nn::causal_mask(target.size(1))});
#pragma once

#include <optional>
#include <vector>

#include "nn/attention.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/refused_nullptr.h"

namespace tapegrad::nn {

/// Returns a mask [length, length] with 0 where a query may see a key, and -inf for later keys.
Variable causal_mask(int64_t length);

/// Masks under the names of PyTorch's encoders: encoder(x, {.src_key_padding_mask = ids == 0}).
struct EncoderMasks {
  Variable mask = {}, src_mask = {};
  Variable src_key_padding_mask = {};
  bool is_causal = false;  // position i sees positions 0 ... i

  operator AttentionMasks() const;
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
  bool bias = true;         // of the projections, linear layers and norms
};
namespace detail {
/// Returns the options of the norms of a layer.
LayerNormOptions norm_of(const TransformerEncoderLayerOptions& options);
}  // namespace detail
/// Computes x = norm1(x + attention(x)), then x = norm2(x + linear2(activation(linear1(x)))), with
/// dropout after each part.
class TransformerEncoderLayer final : public Model<TransformerEncoderLayer> {
 public:
  static constexpr std::string_view kName = "TransformerEncoderLayer";
  explicit TransformerEncoderLayer(RefusedNullptr);
  explicit TransformerEncoderLayer(TransformerEncoderLayerOptions options);
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, int64_t dim_feedforward = 2048,
                          double dropout = 0.1, Where where = Where::current());
  /// Takes both sizes, and options by name: TransformerEncoderLayer(64, 4, {.norm_first = true}).
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, TransformerEncoderLayerOptions options);
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, int64_t dim_feedforward,
                          TransformerEncoderLayerOptions options);
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, int64_t dim_feedforward, double dropout,
                          TransformerEncoderLayerOptions options);

  /// Takes PyTorch's first arguments by position: TransformerEncoderLayer(64, 4, 256, 0.1, "gelu").
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, int64_t dim_feedforward, double dropout,
                          Choice<FeedforwardActivation> activation, Where where = Where::current());

  void members(Members& m) override;
  Variable forward(const Variable& x) const;
  Variable forward(const Variable& x, const AttentionMasks& masks) const;
  /// Overload with PyTorch's arguments by position.
  Variable forward(const Variable& x, const Variable& attn_mask,
                   const Variable& key_padding_mask = {}) const;
  using Model::operator();
  /// Overloads for masks in braces. The first is a template, so that {.is_causal = true} is an
  /// EncoderMasks.
  template <typename = void>
  Variable operator()(const Variable& x, const AttentionMasks& masks,
                      Where where = Where::current()) const;
  Variable operator()(const Variable& x, const EncoderMasks& masks,
                      Where where = Where::current()) const;

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;

 private:
  /// Returns the residual plus the attention part of x, after dropout.
  Variable add_attended(const Variable& residual, const Variable& x,
                        const AttentionMasks& masks) const;

  TransformerEncoderLayerOptions options_;
};

/// Options in place of positions: TransformerEncoder(layer, {.num_layers = 6}).
struct TransformerStackOptions {
  ByName by_name = {};
  int64_t num_layers = 0;  // required
  std::optional<LayerNorm> norm = {};
};
/// A stack of clones of one layer, optionally followed by a norm.
class TransformerEncoder final : public Model<TransformerEncoder> {
 public:
  static constexpr std::string_view kName = "TransformerEncoder";
  explicit TransformerEncoder(RefusedNullptr);
  TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> norm = {}, Where where = Where::current());
  TransformerEncoder(const TransformerEncoderLayer& layer, const TransformerStackOptions& options);

  void members(Members& m) override;
  Variable forward(const Variable& x) const;
  Variable forward(const Variable& x, const AttentionMasks& masks) const;
  /// Overload with PyTorch's arguments by position.
  Variable forward(const Variable& x, const Variable& attn_mask,
                   const Variable& key_padding_mask = {}) const;
  using Model::operator();
  /// Overloads for masks in braces. The first is a template, so that {.is_causal = true} is an
  /// EncoderMasks.
  template <typename = void>
  Variable operator()(const Variable& x, const AttentionMasks& masks,
                      Where where = Where::current()) const;
  Variable operator()(const Variable& x, const EncoderMasks& masks,
                      Where where = Where::current()) const;

  std::vector<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};

/// Masks of a decoder layer, with the meaning of AttentionMasks. tgt_mask applies to the attention
/// of the target to itself, memory_mask to its attention to the memory.
struct DecoderMasks {
  Variable tgt_mask = {};
  Variable memory_mask = {};
  Variable tgt_key_padding_mask = {};
  Variable memory_key_padding_mask = {};
};

using TransformerDecoderLayerOptions = TransformerEncoderLayerOptions;
/// Computes x = norm1(x + self_attn(x)), x = norm2(x + multihead_attn(x, memory)), then x = norm3(x
/// + linear2(activation(linear1(x)))), with dropout after each part.
class TransformerDecoderLayer final : public Model<TransformerDecoderLayer> {
 public:
  static constexpr std::string_view kName = "TransformerDecoderLayer";
  explicit TransformerDecoderLayer(TransformerDecoderLayerOptions options);
  explicit TransformerDecoderLayer(int64_t d_model, int64_t nhead, int64_t dim_feedforward = 2048,
                                   double dropout = 0.1, Where where = Where::current());
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, TransformerDecoderLayerOptions options);
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, int64_t dim_feedforward,
                          TransformerDecoderLayerOptions options);
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, int64_t dim_feedforward, double dropout,
                          TransformerDecoderLayerOptions options);

  void members(Members& m) override;
  /// x and memory have d_model features; the result has the shape of x.
  Variable forward(const Variable& x, const Variable& memory, const DecoderMasks& masks = {}) const;
  template <std::derived_from<Variable> M>
  Variable forward(const Variable& x, const Variable& memory, const M& tgt_mask,
                   const Variable& memory_mask = {}) const {
    return forward(x, memory, DecoderMasks{tgt_mask, memory_mask});
  }
  using Model::operator();
  /// Overload for masks in braces.
  Variable operator()(const Variable& x, const Variable& memory, const DecoderMasks& masks,
                      Where where = Where::current()) const;

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;

 private:
  TransformerDecoderLayerOptions options_;
};

/// A stack of clones of one layer, optionally followed by a norm.
class TransformerDecoder final : public Model<TransformerDecoder> {
 public:
  static constexpr std::string_view kName = "TransformerDecoder";
  TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> norm = {}, Where where = Where::current());
  TransformerDecoder(const TransformerDecoderLayer& layer, const TransformerStackOptions& options);

  void members(Members& m) override;
  Variable forward(const Variable& x, const Variable& memory, const DecoderMasks& masks = {}) const;
  template <std::derived_from<Variable> M>
  Variable forward(const Variable& x, const Variable& memory, const M& tgt_mask,
                   const Variable& memory_mask = {}) const {
    return forward(x, memory, DecoderMasks{tgt_mask, memory_mask});
  }
  using Model::operator();
  /// Overload for masks in braces.
  Variable operator()(const Variable& x, const Variable& memory, const DecoderMasks& masks,
                      Where where = Where::current()) const;

  std::vector<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
};

struct TransformerOptions {
  ByName by_name = {};
  int64_t d_model = 512;
  int64_t nhead = 8;
  int64_t num_encoder_layers = 6;
  int64_t num_decoder_layers = 6;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  Choice<FeedforwardActivation> activation = FeedforwardActivation::kRelu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
  bool bias = true;
};

/// Masks of a Transformer, with the meaning of AttentionMasks.
struct TransformerMasks {
  Variable src_mask = {};
  Variable tgt_mask = {};
  Variable memory_mask = {};
  Variable src_key_padding_mask = {};
  Variable tgt_key_padding_mask = {};
  Variable memory_key_padding_mask = {};
};

/// Decodes target with the encoded source as memory. Encoder and decoder end with a LayerNorm.
/// Weights of two dimensions are initialised by xavier_uniform_.
class Transformer final : public Model<Transformer> {
 public:
  static constexpr std::string_view kName = "Transformer";
  explicit Transformer(RefusedNullptr);
  explicit Transformer(TransformerOptions options = {});
  Transformer(int64_t d_model, int64_t nhead, int64_t num_encoder_layers = 6,
              int64_t num_decoder_layers = 6, int64_t dim_feedforward = 2048, double dropout = 0.1,
              Where where = Where::current());

  /// Takes both sizes, and options by name: Transformer(64, 4, {.num_encoder_layers = 2}).
  Transformer(int64_t d_model, int64_t nhead, TransformerOptions options);

  void members(Members& m) override;
  Variable forward(const Variable& source, const Variable& target,
                   const TransformerMasks& masks = {}) const;
  template <std::derived_from<Variable> M>
  Variable forward(const Variable& source, const Variable& target, const M& src_mask,
                   const Variable& tgt_mask = {}) const {
    return forward(source, target, TransformerMasks{src_mask, tgt_mask});
  }
  using Model::operator();
  /// Overload for masks in braces.
  Variable operator()(const Variable& source, const Variable& target, const TransformerMasks& masks,
                      Where where = Where::current()) const;
  /// causal_mask() under PyTorch's name.
  static Variable generate_square_subsequent_mask(int64_t length);

  TransformerEncoder encoder;
  TransformerDecoder decoder;
};

// Programs do not compile the virtual functions of this layer.
extern template class Model<TransformerEncoderLayer, Module, false>;

}  // namespace tapegrad::nn
