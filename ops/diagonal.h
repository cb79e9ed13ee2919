// Diagonals and triangles of matrices, and Vandermonde matrices. Diagonal k > 0 is k columns to the
// right of the main diagonal; k < 0 is -k rows below the main diagonal. A diagonal outside the
// matrix is empty.
#pragma once

#include <optional>

#include "core/tape/variable.h"

namespace tapegrad {

/// Returns the lower triangle of each matrix (the last two dimensions): elements above the given
/// diagonal become 0.
Variable tril(const Variable& x, int64_t diagonal = 0, Where where = Where::current());
/// Returns the upper triangle of each matrix: elements below the given diagonal become 0.
Variable triu(const Variable& x, int64_t diagonal = 0, Where where = Where::current());

/// Returns the diagonal of dimensions dim1 and dim2, as a view. These dimensions are removed, and
/// the diagonal becomes the last dimension.
Variable diagonal(const Variable& x, int64_t offset = 0, int dim1 = 0, int dim2 = 1,
                  Where where = Where::current());
/// Options of diagonal(x, {.offset = 1, .dim1 = -2, .dim2 = -1}).
struct DiagonalOptions {
  ByName by_name = {};
  int64_t offset = 0;
  int dim1 = 0, dim2 = 1;
};
Variable diagonal(const Variable& x, DiagonalOptions options, Where where = Where::current());
/// Creates matrices of zeros with x's last dimension on the diagonal. The matrices occupy
/// dimensions dim1 and dim2 of the result.
Variable diag_embed(const Variable& x, int64_t offset = 0, int dim1 = -2, int dim2 = -1,
                    Where where = Where::current());
/// Returns the matrix with this diagonal for a vector, and a copy of the diagonal for a matrix.
Variable diag(const Variable& x, int64_t diagonal = 0, Where where = Where::current());
/// Returns the sum of the main diagonal of a matrix.
Variable trace(const Variable& x, Where where = Where::current());

/// Returns the row and column numbers of the lower or upper triangle of a matrix: int64 [2, n].
Variable tril_indices(int64_t rows, int64_t columns, int64_t offset = 0);
Variable triu_indices(int64_t rows, int64_t columns, int64_t offset = 0);

/// Returns powers x^(n - 1), ..., x, 1 of vectors [..., size] as columns [..., size, n]; in
/// ascending order if `increasing`. n is the size of the vectors by default.
Variable vander(const Variable& x, std::optional<int64_t> n = {}, bool increasing = false,
                Where where = Where::current());

}  // namespace tapegrad
