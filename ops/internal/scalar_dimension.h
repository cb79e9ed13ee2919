// A dimension of a tensor of rank 0: as in PyTorch, 0 and -1 name its only element.
#pragma once

#include "core/tape/internal/call_line.h"
#include "ops/extremes.h"
#include "ops/view.h"

namespace tapegrad::detail {

inline bool is_scalar(const Variable& x) { return x.defined() && x.rank() == 0; }

inline Variable without_dimension(const Variable& y) { return reshape(y, {}); }
inline ValuesIndices without_dimension(const ValuesIndices& y) {
  return {reshape(y.values, {}), reshape(y.indices, {})};
}

/// Returns run(x as a vector of one element), converted back to rank 0.
template <typename Run>
[[gnu::noinline]] auto as_vector(const Variable& x, Where where, const Run& run) {
  const CallLine line(where);
  return without_dimension(run(reshape(x, {1})));
}

}  // namespace tapegrad::detail
