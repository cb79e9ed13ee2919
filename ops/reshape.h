// Views of a tensor with other shapes, and functions of shapes. ops/view.h has the basic views. A
// negative dim counts from the end; a dim out of range throws IndexError.
#pragma once

#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

/// Returns the entries along dim, without this dimension. The results are views.
std::vector<Variable> unbind(const Variable& x, int dim = 0, Where where = Where::current());
/// Splits x along dim into a number of pieces whose sizes differ by at most 1, or before each of a
/// list of indices. The results are views.
std::vector<Variable> tensor_split(const Variable& x, const Sections& sections, int dim = 0,
                                   Where where = Where::current());

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

/// Removes those of the given dimensions whose size is 1. Returns a view. Throws ArgumentError for
/// a dimension that is given twice.
Variable squeeze(const Variable& x, const Dims& dims, Where where = Where::current());

/// Returns the shape of an elementwise result of operands of these shapes. Throws ShapeError if
/// they do not broadcast.
Shape broadcast_shapes(const Shape& a, const Shape& b, Where where = Where::current());

/// Returns the coordinates of elements of a tensor of this shape from their row-major positions:
/// one Variable (int64) per dimension. Throws IndexError for a position outside of the tensor.
std::vector<Variable> unravel_index(const Variable& positions, const Shape& shape,
                                    Where where = Where::current());

}  // namespace tapegrad
