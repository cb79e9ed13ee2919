// A transformer that predicts the next letter (Radford et al. 2018: masked self-attention, learned
// positions, GELU; with the norm before each part).
#pragma once

#include <vector>

#include <tapegrad/tapegrad.h>

namespace char_gpt {

using tapegrad::Variable;
namespace nn = tapegrad::nn;

struct GptOptions {
  int64_t letters, length = 128, width = 128, heads = 4, layers = 4;
};

/// Keys and values of the letters that a layer has seen: [batch, heads, letters, width / heads].
struct LayerCache {
  Variable keys, values;
};

/// Makes sampling cheap: a new letter attends to stored keys and values instead of computing them
/// again for all letters before it.
struct Cache {
  std::vector<LayerCache> layers;
  int64_t length = 0;  // letters in the cache
};

struct Block : nn::Model<Block> {
  int64_t heads;
  nn::LayerNorm norm1, norm2;
  nn::Linear qkv, proj, up, down;

  explicit Block(const GptOptions& o)
      : heads(o.heads),
        norm1({.normalized_shape = {o.width}}),
        norm2({.normalized_shape = {o.width}}),
        qkv({.in_features = o.width, .out_features = 3 * o.width}),
        proj({.in_features = o.width, .out_features = o.width}),
        up({.in_features = o.width, .out_features = 4 * o.width}),
        down({.in_features = 4 * o.width, .out_features = o.width}) {}

  void members(nn::Members& m) override {
    m("norm1", norm1)("norm2", norm2)("qkv", qkv)("proj", proj)("up", up)("down", down);
  }
  Variable forward(const Variable& x, LayerCache* cache = nullptr) const {
    const Variable y = x + proj(attention(qkv(norm1(x)), cache));
    return y + down(gelu(up(norm2(y))));
  }

 private:
  Variable attention(const Variable& qkv, LayerCache* cache) const {
    const int64_t batch = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
    const auto split_heads = [&](const Variable& t) {
      return transpose(reshape(t, {batch, length, heads, width / heads}), 1, 2);
    };
    const std::vector<Variable> parts = chunk(qkv, 3, 2);
    const Variable query = split_heads(parts[0]);
    Variable key = split_heads(parts[1]), value = split_heads(parts[2]);
    bool is_causal = true;
    if (cache != nullptr) {
      if (cache->keys.defined()) {
        key = tapegrad::cat({cache->keys, key}, 2);
        value = tapegrad::cat({cache->values, value}, 2);
        is_causal = false;  // a single new letter sees all others
      }
      *cache = {key, value};
    }
    const Variable seen = scaled_dot_product_attention(query, key, value, {.is_causal = is_causal});
    return reshape(transpose(seen, 1, 2), {batch, length, width});
  }
};

struct Gpt : nn::Model<Gpt> {
  GptOptions options;
  nn::Embedding letter, place;
  std::vector<Block> blocks;
  nn::LayerNorm norm;
  nn::Linear head;

  explicit Gpt(const GptOptions& o)
      : options(o),
        letter({.num_embeddings = o.letters, .embedding_dim = o.width}),
        place({.num_embeddings = o.length, .embedding_dim = o.width}),
        norm({.normalized_shape = {o.width}}),
        head({.in_features = o.width, .out_features = o.letters, .bias = false}) {
    for (int64_t i = 0; i < o.layers; ++i) blocks.emplace_back(o);
    for (nn::Embedding* table : {&letter, &place}) nn::init::normal_(table->weight, 0.0, 0.02);
  }
  void members(nn::Members& m) override {
    m("letter", letter)("place", place)("blocks", blocks)("norm", norm)("head", head);
  }
  /// Maps ids [batch, length] to logits [batch, length, letters].
  Variable forward(const Variable& ids) const { return run(ids, nullptr); }
  /// Overload for ids that follow those in the cache: one id, or several if the cache is empty.
  Variable forward(const Variable& ids, Cache& cache) const {
    cache.layers.resize(blocks.size());
    return run(ids, &cache);
  }

 private:
  Variable run(const Variable& ids, Cache* cache) const {
    const int64_t start = cache ? cache->length : 0, length = ids.size(1);
    Variable y = letter(ids) + place(tapegrad::arange(start, start + length));
    for (size_t i = 0; i < blocks.size(); ++i)
      y = blocks[i](y, cache ? &cache->layers[i] : nullptr);
    if (cache) cache->length += length;
    return head(norm(y));
  }
};

}  // namespace char_gpt
