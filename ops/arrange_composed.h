// Functions of shapes and positions, composed of other ops. They have no row in the catalog.
#pragma once

#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

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

/// Returns the subsets of r elements of a vector, in the order of their positions: [subsets, r].
/// With replacement, an element may occur several times in a subset.
Variable combinations(const Variable& x, int64_t r = 2, bool with_replacement = false,
                      Where where = Where::current());

}  // namespace tapegrad
