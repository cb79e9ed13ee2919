#include "ops/attention.h"

#include <cmath>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/index.h"
#include "ops/internal/attention_blocks.h"
#include "ops/internal/embedding_rows.h"
#include "ops/internal/extent.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

namespace {

/// Returns a mask [l, s] (bool): whether query i may see key j.
Variable causal_mask(int64_t l, int64_t s, Device device) {
  const TensorOptions options{.device = device};
  return unsqueeze(arange(l, options), 1) >= arange(s, options);
}

/// Attention of grouped queries, as that of the views [..., heads of the key, n, l, e] of the query
/// and [..., heads of the key, 1, s, e] of key and value, which broadcast.
Variable of_groups(const Variable& query, const Variable& key, const Variable& value,
                   AttentionOptions options, RandomGenerator& generator, Where where) {
  constexpr std::string_view kName = "scaled_dot_product_attention";
  const int64_t heads = query.rank() < 3 ? 0 : query.size(-3),
                groups = key.rank() < 3 ? 0 : key.size(-3);
  if (groups < 1 || heads % groups != 0 || value.rank() < 3 || value.size(-3) != groups)
    fail<ShapeError>(kName,
                     ": enable_gqa: query [..., heads, l, e], key [..., heads / n, s, e] and value "
                     "[..., heads / n, s, v] wanted: ",
                     query.shape(), ", ", key.shape(), ", ", value.shape());
  const auto grouped = [&](const Variable& x) {
    return unflatten(x, -3, {groups, heads / groups});
  };
  options.enable_gqa = false;
  if (Variable& mask = options.attn_mask; mask.defined() && mask.rank() > 2)
    mask = mask.size(-3) == 1 ? unsqueeze(mask, -3) : grouped(mask);
  const Variable y = scaled_dot_product_attention(grouped(query), unsqueeze(key, -3),
                                                  unsqueeze(value, -3), options, generator, where);
  return flatten(y, -4, -3);
}

}  // namespace

Variable scaled_dot_product_attention(const Variable& query, const Variable& key,
                                      const Variable& value, AttentionOptions options,
                                      RandomGenerator& generator, Where where) {
  if (is_autocast_enabled()) [[unlikely]] {
    options.attn_mask = low(options.attn_mask, where);
    return in_low_precision([](auto&&... a) { return scaled_dot_product_attention(a...); }, where,
                            query, key, value, options, generator);
  }
  const CallLine line(where);
  constexpr std::string_view kName = "scaled_dot_product_attention";
  require_float(kName, query.value());
  check_same_device(kName, query.value(), key.value(), value.value());
  check_same_dtype(kName, query.value(), key.value(), value.value());
  if (query.rank() < 2 || key.rank() < 2 || value.rank() < 2 || query.size(-1) != key.size(-1) ||
      key.size(-2) != value.size(-2))
    fail<ShapeError>(kName, ": query [..., l, e], key [..., s, e] and value [..., s, v] wanted: ",
                     query.shape(), ", ", key.shape(), ", ", value.shape());
  if (options.is_causal && options.attn_mask.defined())
    fail<ArgumentError>(kName, ": is_causal together with attn_mask");
  if (options.enable_gqa) return of_groups(query, key, value, options, generator, where);
  const double scale = options.scale.value_or(1 / std::sqrt(double(query.size(-1))));
  if (Variable y = attention_in_blocks(query, key, value, options, scale, generator, where);
      y.defined())
    return y;
  return attention_by_ops(query, key, value, options, scale, generator);
}

Variable detail::attention_by_ops(const Variable& query, const Variable& key, const Variable& value,
                                  const AttentionOptions& options, double scale,
                                  RandomGenerator& generator) {
  Variable scores = matmul(query * scale, transpose(key, -2, -1)), seen;
  if (options.is_causal) {
    seen = causal_mask(query.size(-2), key.size(-2), query.device());
  } else if (options.attn_mask.defined() && options.attn_mask.dtype() == boolean) {
    seen = options.attn_mask;
  } else if (options.attn_mask.defined()) {
    scores = scores + options.attn_mask;
    seen = ne(scores, -INFINITY);
    scores = tapegrad::where(any(seen, {-1}, /*keepdim=*/true), scores, 0.0);
  }
  Variable shares;
  if (seen.defined()) {
    // softmax of a row that is entirely -inf would be NaN: such a row is not masked, and its
    // weights become 0.
    const Variable some = any(seen, {-1}, /*keepdim=*/true);
    const Variable hidden = logical_and(logical_not(seen), some);
    scores = tapegrad::where(hidden, -INFINITY, scores);
    shares = tapegrad::where(some, softmax(scores, -1), 0);
  } else {
    shares = softmax(scores, -1);
  }
  return matmul(dropout(shares, options.dropout_p, /*training=*/true, generator), value);
}

void catalog_attention(Catalog& catalog) {
  catalog.add(
      "scaled_dot_product_attention(query, key, value, attn_mask?, dropout_p: float = 0.0, "
      "is_causal: bool = false, scale: float = none, enable_gqa: bool = false)",
      "softmax(query key^T scale + mask) value", [](const Arguments& a) {
        return scaled_dot_product_attention(
            a[0], a[1], a[2],
            {.attn_mask = a[3],
             .dropout_p = a.real("dropout_p"),
             .is_causal = a.flag("is_causal"),
             .scale = a.has("scale") ? std::optional(a.real("scale")) : std::nullopt,
             .enable_gqa = a.flag("enable_gqa")});
      });
}

}  // namespace tapegrad
