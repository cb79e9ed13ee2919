// Convolutions and pools of inputs that have no batch dimension.
#pragma once

#include "core/tape/internal/call_line.h"
#include "ops/extremes.h"
#include "ops/view.h"

namespace tapegrad::detail {

/// Returns whether x, which may be empty, lacks the batch dimension of an op on `dims` spatial
/// dimensions.
inline bool is_unbatched(const Variable& x, int dims) {
  return x.value_or_empty().rank() == dims + 1;
}

inline Variable without_batch(const Variable& y) { return squeeze(y, 0); }
inline ValuesIndices without_batch(const ValuesIndices& y) {
  return {squeeze(y.values, 0), squeeze(y.indices, 0)};
}

/// Returns run(x as a batch of one) without the batch dimension.
template <typename Run>
[[gnu::noinline]] auto as_batch(const Variable& x, Where where, const Run& run) {
  const CallLine line(where);
  return without_batch(run(unsqueeze(x, 0)));
}

}  // namespace tapegrad::detail
