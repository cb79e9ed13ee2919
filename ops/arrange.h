// Further ops that split, join and rearrange tensors, and that replace parts of them. A negative
// dim counts from the end; a dim out of range throws IndexError.
#pragma once

#include <optional>
#include <vector>

#include "ops/rearrange.h"

namespace tapegrad {

/// Returns the entries along dim, without this dimension. The results are views.
std::vector<Variable> unbind(const Variable& x, int dim = 0, Where where = Where::current());
/// Splits x along dim into a number of pieces whose sizes differ by at most 1, or before each of a
/// list of indices. The results are views.
std::vector<Variable> tensor_split(const Variable& x, const Sections& sections, int dim = 0,
                                   Where where = Where::current());

/// Concatenate along the first dimension (vstack; vectors become rows), the second (hstack; vectors
/// are concatenated), or the third (dstack). column_stack makes vectors columns.
Variable vstack(VariableList inputs, Where where = Where::current());
Variable hstack(VariableList inputs, Where where = Where::current());
Variable dstack(VariableList inputs, Where where = Where::current());
Variable column_stack(VariableList inputs, Where where = Where::current());
/// Returns the matrices along the diagonal of a matrix of zeros.
Variable block_diag(VariableList inputs, Where where = Where::current());
template <std::derived_from<Variable>... V>
requires(sizeof...(V) > 1) Variable block_diag(const V&... inputs) {
  return block_diag({inputs...});
}
/// Returns all combinations of one element of each vector: [n m ..., vectors].
Variable cartesian_prod(VariableList inputs, Where where = Where::current());
template <std::derived_from<Variable>... V>
requires(sizeof...(V) > 1) Variable cartesian_prod(const V&... inputs) {
  return cartesian_prod({inputs...});
}
/// Returns the inputs expanded to their broadcast shape. The results are views.
std::vector<Variable> broadcast_tensors(VariableList inputs, Where where = Where::current());
template <std::derived_from<Variable>... V>
requires(sizeof...(V) > 1) std::vector<Variable> broadcast_tensors(const V&... inputs) {
  return broadcast_tensors({inputs...});
}

/// Moves dimensions to other places; the remaining dimensions keep their order. Returns a view.
Variable movedim(const Variable& x, const Dims& source, const Dims& destination,
                 Where where = Where::current());
/// Splits dimension dim into `sizes`, of which one may be -1. Returns a view.
Variable unflatten(const Variable& x, int dim, const Shape& sizes, Where where = Where::current());
/// Return x with leading dimensions of size 1 (atleast_3d: also trailing) until its rank is at
/// least 1, 2 or 3. The results are views.
Variable atleast_1d(const Variable& x, Where where = Where::current());
Variable atleast_2d(const Variable& x, Where where = Where::current());
Variable atleast_3d(const Variable& x, Where where = Where::current());

/// Returns a copy of x in which a part is replaced by source: entry `index` along dim, a slice, or
/// a diagonal.
Variable select_scatter(const Variable& x, const Variable& source, int dim, int64_t index,
                        Where where = Where::current());
Variable slice_scatter(const Variable& x, const Variable& source, int dim, int64_t start,
                       int64_t end, int64_t step = 1, Where where = Where::current());
Variable diagonal_scatter(const Variable& x, const Variable& source, int64_t offset = 0,
                          int dim1 = 0, int dim2 = 1, Where where = Where::current());
/// Returns a copy of x in which the entries index[i] along dim are replaced by a number or by
/// entries of source.
Variable index_fill(const Variable& x, int dim, const Variable& index, Number value,
                    Where where = Where::current());
Variable index_copy(const Variable& x, int dim, const Variable& index, const Variable& source,
                    Where where = Where::current());

/// Returns the row and column numbers of the lower or upper triangle of a matrix: int64 [2, n].
Variable tril_indices(int64_t rows, int64_t columns, int64_t offset = 0);
Variable triu_indices(int64_t rows, int64_t columns, int64_t offset = 0);
/// Returns powers x^(n - 1), ..., x, 1 of vectors [..., size] as columns [..., size, n]; in
/// ascending order if `increasing`. n is the size of the vectors by default.
Variable vander(const Variable& x, std::optional<int64_t> n = {}, bool increasing = false,
                Where where = Where::current());

}  // namespace tapegrad
