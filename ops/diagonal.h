// Diagonals and triangles of matrices. Diagonal k runs k columns to the right of the main one, or
// -k rows below it; one that lies outside is empty.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

/// Each matrix (the last two dimensions) on and below the diagonal, 0 elsewhere.
Variable tril(const Variable& x, int64_t diagonal = 0, Where where = Where::current());
/// On and above it.
Variable triu(const Variable& x, int64_t diagonal = 0, Where where = Where::current());

/// The diagonal of dimensions dim1 and dim2, as a new last dimension in their place; a view.
Variable diagonal(const Variable& x, int64_t offset = 0, int dim1 = 0, int dim2 = 1,
                  Where where = Where::current());
/// Matrices of zeros with x's last dimension on the diagonal; they lie in dimensions dim1 and dim2
/// of the result.
Variable diag_embed(const Variable& x, int64_t offset = 0, int dim1 = -2, int dim2 = -1,
                    Where where = Where::current());
/// A vector to a matrix with that diagonal, a matrix to a copy of its diagonal.
Variable diag(const Variable& x, int64_t diagonal = 0, Where where = Where::current());
/// The sum of a matrix's main diagonal.
Variable trace(const Variable& x, Where where = Where::current());

}  // namespace tapegrad
