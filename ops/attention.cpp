#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/attention_blocks.h"
#include "ops/internal/extent.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

namespace {

/// [l, s], bool: whether query i may see key j.
Variable causal_mask(int64_t l, int64_t s, Device device) {
  const TensorOptions options{.device = device};
  return unsqueeze(arange(l, options), 1) >= arange(s, options);
}

}  // namespace

Variable scaled_dot_product_attention(const Variable& query, const Variable& key,
                                      const Variable& value, AttentionOptions options,
                                      Generator& generator, Where where) {
  if (is_autocast_enabled()) [[unlikely]] {
    options.attn_mask = low(options.attn_mask, where);
    return in_low_precision(scaled_dot_product_attention, where, query, key, value, options,
                            generator);
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
  const double scale = options.scale.value_or(1 / std::sqrt(double(query.size(-1))));
  if (Variable y = attention_in_blocks(query, key, value, options, scale, generator, where);
      y.defined())
    return y;
  return attention_by_ops(query, key, value, options, scale, generator);
}

Variable detail::attention_by_ops(const Variable& query, const Variable& key, const Variable& value,
                                  const AttentionOptions& options, double scale,
                                  Generator& generator) {
  Variable scores = matmul(query * scale, transpose(key, -2, -1)), seen;
  if (options.is_causal)
    seen = causal_mask(query.size(-2), key.size(-2), query.device());
  else if (options.attn_mask.defined() && options.attn_mask.dtype() == boolean)
    seen = options.attn_mask;
  else if (options.attn_mask.defined())
    scores = scores + options.attn_mask;
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

namespace {

/// The bounds of the bags among `count` indices.
std::vector<int64_t> bag_bounds(const Variable& offsets, bool include_last, int64_t count) {
  constexpr std::string_view kName = "embedding_bag";
  if (offsets.rank() != 1 || !is_integer(offsets.dtype()))
    fail<ArgumentError>(kName, ": offsets are a vector of integers, not ", offsets.dtype(), ' ',
                        offsets.shape());
  std::vector<int64_t> bounds = offsets.to_vector<int64_t>();
  if (!include_last) bounds.push_back(count);
  for (size_t i = 0; i < bounds.size(); ++i)
    if (bounds[i] < (i == 0 ? 0 : bounds[i - 1]) || bounds[i] > count || bounds[0] != 0)
      fail<ArgumentError>(kName, ": offset ", bounds[i], " of bag ", i,
                          " does not begin at 0, falls, or lies past the ", count, " indices");
  return bounds;
}

/// The largest elements of consecutive rows, 0 for a bag without rows.
Variable largest_of_bags(const Variable& rows, const std::vector<double>& sizes, int64_t longest) {
  const int64_t bags = int64_t(sizes.size()), width = rows.size(1);
  const TensorOptions here{.device = rows.device()};
  int64_t first = 0;
  if (bags * longest > 8 * rows.size(0)) {  // one by one: to fill short bags would take much memory
    std::vector<Variable> largest;
    for (const double size : sizes) {
      largest.push_back(size > 0
                            ? max(narrow(rows, 0, first, int64_t(size)), 0).values
                            : zeros({width}, {.dtype = rows.dtype(), .device = rows.device()}));
      first += int64_t(size);
    }
    return stack(largest);
  }
  // Fills each bag with copies of its first row: of equal elements, max takes the first.
  std::vector<int64_t> picked;
  std::vector<double> filled;
  for (const double size : sizes) {
    for (int64_t i = 0; i < longest; ++i)
      picked.push_back(size > 0 ? first + (i < int64_t(size) ? i : 0) : 0);
    filled.push_back(size > 0), first += int64_t(size);
  }
  const Variable by_bag =
      reshape(index_select(rows, 0, tensor(picked, here)), {bags, longest, width});
  return tapegrad::where(tensor(filled, {bags, 1}, here) > 0, max(by_bag, 1).values, 0);
}

}  // namespace

Variable embedding_bag(const Variable& indices, const Variable& weight, const Variable& offsets,
                       EmbeddingBagOptions options, Where where) {
  const CallLine line(where);
  constexpr std::string_view kName = "embedding_bag";
  const auto& [mode, factors, include_last, padding_idx, sparse] = options;
  require_float(kName, weight.value());
  if (weight.rank() != 2) fail<ShapeError>(kName, ": weight [n, d] wanted: ", weight.shape());
  if (indices.rank() != (offsets.defined() ? 1 : 2))
    fail<ShapeError>(kName,
                     ": indices [bags, size], or [count] with offsets, wanted: ", indices.shape());
  if (factors.defined() && (mode != BagMode::kSum || factors.shape() != indices.shape()))
    fail<ArgumentError>(kName, ": per_sample_weights ", factors.shape(), " for the sum of indices ",
                        indices.shape(), " only");
  if (padding_idx >= weight.shape()[0])
    fail<IndexError>(kName, ": padding_idx ", padding_idx, " is not one of ", weight.shape()[0],
                     " rows");
  const int64_t count = indices.numel();
  std::vector<int64_t> bounds;
  if (offsets.defined()) {
    bounds = bag_bounds(offsets, include_last, count);
  } else {
    for (int64_t i = 0; i <= indices.shape()[0]; ++i) bounds.push_back(i * indices.shape()[1]);
  }
  const int64_t bags = int64_t(bounds.size()) - 1, width = weight.shape()[1];
  if (bags < 0) fail<ArgumentError>(kName, ": no offsets");

  // The positions that count, and the bag of each.
  const std::vector<int64_t> ids = flatten(indices).to_vector<int64_t>();
  std::vector<int64_t> places, owners;
  std::vector<double> sizes(static_cast<size_t>(bags));
  for (int64_t bag = 0; bag < bags; ++bag)
    for (int64_t i = bounds[size_t(bag)]; i < bounds[size_t(bag) + 1]; ++i) {
      if (padding_idx >= 0 && ids[size_t(i)] == padding_idx) continue;
      places.push_back(i), owners.push_back(bag), ++sizes[size_t(bag)];
    }
  const TensorOptions here{.device = weight.device()};
  const Variable kept = tensor(places, here), bag_of = tensor(owners, here);
  const DType wide = weight.dtype() == f64 ? f64 : f32;
  Variable rows =
      embedding(index_select(flatten(indices), 0, kept), weight, /*padding_idx=*/-1, sparse)
          .to(wide);
  if (mode == BagMode::kMax) {
    const int64_t longest = int64_t(bags > 0 ? *std::max_element(sizes.begin(), sizes.end()) : 0);
    if (longest > 0) return largest_of_bags(rows, sizes, longest).to(weight.dtype());
  }
  if (factors.defined())
    rows = rows * unsqueeze(index_select(flatten(factors.to(wide)), 0, kept), 1);
  Variable sums =
      index_add(zeros({bags, width}, {.dtype = wide, .device = weight.device()}), 0, bag_of, rows);
  if (mode == BagMode::kMean) {
    for (double& size : sizes) size = std::max(size, 1.0);
    sums = sums / tensor(sizes, {bags, 1}, {.dtype = wide, .device = weight.device()});
  }
  return sums.to(weight.dtype());
}

void catalog_attention(Catalog& catalog) {
  catalog.add(
      "scaled_dot_product_attention(query, key, value, attn_mask?, dropout_p: float = 0.0, "
      "is_causal: bool = false, scale: float = none)",
      "softmax(query key^T scale + mask) value", [](const Arguments& a) {
        return scaled_dot_product_attention(
            a[0], a[1], a[2],
            {.attn_mask = a[3],
             .dropout_p = a.real("dropout_p"),
             .is_causal = a.flag("is_causal"),
             .scale = a.has("scale") ? std::optional(a.real("scale")) : std::nullopt});
      });
  catalog.add(
      "embedding_bag(input, weight, offsets?, per_sample_weights?, mode: str = mean, "
      "include_last_offset: bool = false, padding_idx: int = -1)",
      "the sum, mean or maximum of weight[input] over bags", [](const Arguments& a) {
        return embedding_bag(a[0], a[1], a[2],
                             {.mode = a.text("mode"),
                              .per_sample_weights = a[3],
                              .include_last_offset = a.flag("include_last_offset"),
                              .padding_idx = a.integer("padding_idx")});
      });
}

}  // namespace tapegrad
