// Rows of embedding tables: the gradient as rows (core/base/row_gradient.h), the row of padding.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/row_gradient.h"

namespace tapegrad::detail {

/// Returns the sum of rows [n, d] by their indices [n] as a gradient of a matrix with `size` rows.
/// Equals the dense gradient bit for bit: rows of one index are summed in the same order. The row
/// padding_idx, if not negative, is zero.
RowGradientPtr sum_rows(const Tensor& indices, const Tensor& rows, int64_t size,
                        int64_t padding_idx);

/// Returns the row of padding_idx, which counts from the end if it is negative; -1 for none. Throws
/// IndexError for a number that is no row.
int64_t padding_row(std::string_view op, std::optional<int64_t> padding_idx, int64_t rows);
/// Returns a row, or nothing for -1.
inline std::optional<int64_t> row_or_none(int64_t row) {
  return row < 0 ? std::nullopt : std::optional(row);
}

}  // namespace tapegrad::detail
