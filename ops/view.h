// Views of a tensor, and reshape() and flatten(), which copy where no view is possible.
//
// A view shares storage with its input. A write to either changes both, and autograd accounts for
// the write. A negative dim counts from the end; a dim out of range throws IndexError.
#pragma once

#include <limits>
#include <vector>

#include "core/base/by_name.h"
#include "core/tape/variable.h"
#include "ops/rearrange.h"

namespace tapegrad {

/// Returns the same elements in row-major order with another shape; one size may be -1. Returns a
/// view if the strides allow, otherwise a copy. Throws ShapeError if the numbers of elements
/// differ.
Variable reshape(const Variable& x, const Shape& shape, Where where = Where::current());
/// Equivalent to reshape(), except that the result is always a view. Throws ShapeError if the
/// strides do not allow a view.
Variable view(const Variable& x, const Shape& shape, Where where = Where::current());
/// Merges dimensions start_dim ... end_dim into one.
Variable flatten(const Variable& x, int start_dim = 0, int end_dim = -1,
                 Where where = Where::current());
struct FlattenOptions {
  ByName by_name = {};
  int start_dim = 0, end_dim = -1;
};
inline Variable flatten(const Variable& x, FlattenOptions options, Where where = Where::current()) {
  return flatten(x, options.start_dim, options.end_dim, where);
}
/// Reorders dimensions. Returns a view.
Variable permute(const Variable& x, const Dims& dims, Where where = Where::current());
/// Exchanges two dimensions. Returns a view.
Variable transpose(const Variable& x, int dim0, int dim1, Where where = Where::current());
/// Transposes a matrix. Returns a view.
Variable t(const Variable& x, Where where = Where::current());

inline constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
/// Returns elements start, start + step, ... below end along dim. Negative bounds count from the
/// end, and bounds are clamped, as in Python; step >= 1. Returns a view.
Variable slice(const Variable& x, int dim, int64_t start, int64_t end = kEnd, int64_t step = 1,
               Where where = Where::current());
/// Returns `length` elements along dim, from start, as a view. Throws IndexError if they do not
/// exist.
Variable narrow(const Variable& x, int dim, int64_t start, int64_t length,
                Where where = Where::current());
/// Returns entry `index` along dim, which is removed. A negative index counts from the end. Returns
/// a view.
Variable select(const Variable& x, int dim, int64_t index, Where where = Where::current());
/// Repeats dimensions of size 1 and adds leading dimensions without copying; -1 keeps a size.
/// Returns a view.
Variable expand(const Variable& x, const Shape& shape, Where where = Where::current());
/// Removes all dimensions of size 1, or dimension dim if its size is 1. Returns a view.
Variable squeeze(const Variable& x, Where where = Where::current());
Variable squeeze(const Variable& x, int dim, Where where = Where::current());
/// Inserts a dimension of size 1 before dim. Returns a view.
Variable unsqueeze(const Variable& x, int dim, Where where = Where::current());
/// Splits x along dim into pieces of `size`, of which the last may be smaller, or into pieces of
/// the given sizes. Returns views.
std::vector<Variable> split(const Variable& x, const Sections& sections, int dim = 0,
                            Where where = Where::current());
inline std::vector<Variable> split_with_sizes(const Variable& x, const std::vector<int64_t>& sizes,
                                              int dim = 0, Where where = Where::current()) {
  return split(x, sizes, dim, where);
}
/// Splits x along dim into at most `chunks` pieces of equal size, of which the last may be smaller.
/// A dimension of size 0 gives `chunks` pieces of size 0, as in PyTorch; ArgumentError for more
/// than 2^20 of them. Returns views.
std::vector<Variable> chunk(const Variable& x, int64_t chunks, int dim = 0,
                            Where where = Where::current());

// clone() is declared in core/tape/view.h; Variable::to casts and moves between devices.

}  // namespace tapegrad
