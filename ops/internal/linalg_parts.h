// Checks of linear algebra ops, and conversion of matrices to the kernels' layout.
#pragma once

#include <string_view>

#include "core/tape/variable.h"

namespace tapegrad::detail {

/// Throws ShapeError unless x has at least two dimensions, and DTypeError unless x is float32 or
/// float64.
void require_matrix(std::string_view op, const Tensor& x);
/// Makes the checks of require_matrix(), and throws ShapeError unless the last two sizes are equal.
void require_square(std::string_view op, const Tensor& x);

/// Returns the batch dimensions of `shape`, followed by the given matrix size.
Shape with_matrix(const Shape& shape, int64_t rows, int64_t columns);
/// Returns the batch dimensions of `shape`.
Shape front_of(const Shape& shape);

/// Copies [..., m, n] to [batch, n, m], column-major matrices that a kernel may overwrite.
Tensor by_columns(const Tensor& x);
/// Converts column-major results of kernels to a contiguous tensor of shape [..., m, n].
Tensor by_rows(const Tensor& columns, const Shape& shape);

/// Allocates one int32 status per matrix.
Tensor info_for(const Tensor& columns);
/// Throws LinAlgError, with the rule and the first nonzero status, unless all are 0.
void check_info(std::string_view op, const Tensor& info, std::string_view rule);

/// Returns an identity matrix for each matrix of x.
auto identity_like(const Variable& x) -> Variable;
/// Transposes each matrix; returns a view.
auto mT(const Variable& x) -> Variable;
/// Reshape one number, row or column per matrix so that it broadcasts to matrices.
auto as_scalar(const Variable& x) -> Variable;
auto as_row(const Variable& x) -> Variable;
auto as_column(const Variable& x) -> Variable;

struct OneBatch {
  Variable a, b;
};
/// Broadcasts the leading dimensions of both operands.
OneBatch broadcast_batches(std::string_view op, const Variable& a, const Variable& b);

}  // namespace tapegrad::detail
