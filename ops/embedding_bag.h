// Reductions of bags of rows of a table. embedding() of single rows is in ops/index.h.
#pragma once

#include <array>
#include <optional>

#include "core/base/by_name.h"
#include "core/base/choice.h"
#include "core/tape/variable.h"

namespace tapegrad {

enum class BagMode { kSum, kMean, kMax };
constexpr auto choice_names(BagMode) {
  return std::to_array<ChoiceName<BagMode>>(
      {{"sum", BagMode::kSum}, {"mean", BagMode::kMean}, {"max", BagMode::kMax}});
}
struct EmbeddingBagOptions {
  ByName by_name = {};
  Choice<BagMode> mode = BagMode::kMean;
  bool sparse = false;                      // as in embedding()
  Variable per_sample_weights = {};         // same shape as indices; kSum only
  bool include_last_offset = false;         // the last entry of offsets is the end of the last bag
  std::optional<int64_t> padding_idx = {};  // index that is skipped; negative: from the end
};
/// Looks up rows of weight [n, d] and reduces the rows of each bag by sum, mean or columnwise
/// maximum. Returns [bags, d]. indices is [bags, size], or [count] together with offsets [bags],
/// which holds the position where each bag begins. An empty bag gives 0. Throws IndexError for an
/// index outside [0, n), and ArgumentError unless offsets begin at 0 and never decrease.
Variable embedding_bag(const Variable& indices, const Variable& weight,
                       const Variable& offsets = {}, EmbeddingBagOptions options = {},
                       Where where = Where::current());
Variable embedding_bag(const Variable& indices, const Variable& weight, EmbeddingBagOptions options,
                       Where where = Where::current());

}  // namespace tapegrad
