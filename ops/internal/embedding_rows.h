// The gradient of an embedding table as rows (core/base/row_gradient.h).
#pragma once

#include "core/base/row_gradient.h"

namespace tapegrad::detail {

/// Returns the sum of rows [n, d] by their indices [n] as a gradient of a matrix with `size` rows.
/// Equals the dense gradient bit for bit: rows of one index are summed in the same order. The row
/// padding_idx, if not negative, is zero.
RowGradientPtr sum_rows(const Tensor& indices, const Tensor& rows, int64_t size,
                        int64_t padding_idx);

}  // namespace tapegrad::detail
