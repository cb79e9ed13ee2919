// Ops that join several tensors, or elements of several vectors, into one tensor. cat() and stack()
// are in ops/rearrange.h.
#pragma once

#include <vector>

#include "ops/rearrange.h"

namespace tapegrad {

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

/// Returns the subsets of r elements of a vector, in the order of their positions: [subsets, r].
/// With replacement, an element may occur several times in a subset.
Variable combinations(const Variable& x, int64_t r = 2, bool with_replacement = false,
                      Where where = Where::current());

}  // namespace tapegrad
