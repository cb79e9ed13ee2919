// What the ops of linear algebra share: their checks, and matrices as kernels store them.
#pragma once

#include <string_view>

#include "core/tape/variable.h"

namespace tapegrad::detail {

/// ShapeError unless x has two dimensions or more, DTypeError unless it is float32 or float64.
void require_matrix(std::string_view op, const Tensor& x);
/// The same, and a ShapeError unless the last two sizes are equal.
void require_square(std::string_view op, const Tensor& x);

/// The shape with other matrices behind the same batch.
Shape with_matrix(const Shape& shape, int64_t rows, int64_t columns);
/// The batch alone.
Shape front_of(const Shape& shape);

/// A copy of [..., m, n] by columns, [batch, n, m]: a kernel may overwrite it.
Tensor by_columns(const Tensor& x);
/// What kernels have stored by columns, contiguous and of the shape [..., m, n].
Tensor by_rows(const Tensor& columns, const Shape& shape);

/// For a kernel on these matrices: one int32 each.
Tensor info_for(const Tensor& columns);
/// LinAlgError with the rule and the first entry that is not 0.
void check_info(std::string_view op, const Tensor& info, std::string_view rule);

/// Each matrix transposed; a view.
auto mT(const Variable& x) -> Variable;
/// A number for each matrix, or a row or column of numbers, so that it broadcasts to matrices.
auto as_factor(const Variable& x) -> Variable;
auto as_row(const Variable& x) -> Variable;
auto as_column(const Variable& x) -> Variable;

struct OneBatch {
  Variable a, b;
};
/// Both with the dimensions in front that they have together.
OneBatch broadcast_batches(std::string_view op, const Variable& a, const Variable& b);

}  // namespace tapegrad::detail
