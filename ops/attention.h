// Attention, and sums over bags of embeddings.
#pragma once

#include <optional>

#include "core/base/generator.h"
#include "core/tape/variable.h"

namespace tapegrad {

struct AttentionOptions {
  Variable attn_mask = {};  // [..., l, s], broadcast: bool, true where a key takes part; or added
  double dropout_p = 0.0;   // of the shares; always applied, so 0 unless training
  bool is_causal = false;   // query i sees keys 0 ... i; not together with attn_mask
  std::optional<double> scale = {};  // 1 / sqrt(e) when not given
};
/// softmax(query key^T scale + mask) value. query [..., l, e], key [..., s, e], value [..., s, v];
/// the dimensions in front broadcast; the result is [..., l, v]. A query that a bool mask lets see
/// no key gives 0.
/// The l x s scores are not stored, but made a block at a time, and again for the gradient: unless
/// a mask wants a gradient, dimensions in front broadcast, or a GPU's kernel does not take them.
Variable scaled_dot_product_attention(const Variable& query, const Variable& key,
                                      const Variable& value, AttentionOptions options = {},
                                      Generator& generator = default_generator(),
                                      Where where = Where::current());

enum class BagMode { kSum, kMean, kMax };
struct EmbeddingBagOptions {
  BagMode mode = BagMode::kMean;
  Variable per_sample_weights = {};  // of indices' shape; with kSum only
  bool include_last_offset = false;  // the last offset is the end of the last bag
  int64_t padding_idx = -1;          // a row that does not count, if not negative
};
/// Rows of weight [n, d], summed (averaged, or the largest of each column) over bags: [bags, d].
/// indices [bags, size]; or [count], with offsets [bags] where each bag begins. An empty bag gives
/// 0. IndexError for an index outside [0, n); ArgumentError for offsets that do not begin at 0 or
/// fall.
Variable embedding_bag(const Variable& indices, const Variable& weight,
                       const Variable& offsets = {}, EmbeddingBagOptions options = {},
                       Where where = Where::current());

}  // namespace tapegrad
