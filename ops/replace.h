// Ops that return a copy of a tensor in which a part is replaced. ops/scatter.h replaces elements
// at given positions.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

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

}  // namespace tapegrad
