// Scaled dot-product attention.
#pragma once

#include <optional>

#include "core/base/generator.h"
#include "core/tape/variable.h"

namespace tapegrad {

struct AttentionOptions {
  /// [..., l, s], broadcast. A bool mask is true where a key takes part; a float mask is added to
  /// the scores.
  Variable attn_mask = {};
  /// Dropout probability of the attention weights. Always applied: pass 0 in evaluation.
  double dropout_p = 0.0;
  bool is_causal = false;            // query i sees keys 0 ... i; excludes attn_mask
  std::optional<double> scale = {};  // default 1 / sqrt(e)
  /// Grouped queries (Ainslie et al. 2023): query [..., heads, l, e] has a multiple of the heads of
  /// key and value, [..., heads / n, s, e]; head i of the query sees head i / n of them.
  bool enable_gqa = false;
};
/// Returns softmax(query key^T scale + mask) value, with shape [..., l, v]. query is [..., l, e],
/// key [..., s, e] and value [..., s, v]; the leading dimensions broadcast. A query for which a
/// bool mask hides every key gives 0.
///
/// Usually the [l, s] scores are computed block by block and never stored; the backward pass
/// computes them again. They are stored if the mask requires a gradient, or if the GPU has no
/// blockwise kernel for the operands.
Variable scaled_dot_product_attention(const Variable& query, const Variable& key,
                                      const Variable& value, AttentionOptions options = {},
                                      RandomGenerator& generator = default_generator(),
                                      Where where = Where::current());

}  // namespace tapegrad
