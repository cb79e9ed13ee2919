// Writing and picking elements by index, beyond ops/index.h, whose rules for indices hold here too.
// Where several elements go to one place and are not combined, the last one along dim stays, and it
// alone receives the gradient.
#pragma once

#include <optional>
#include <vector>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// x with y[index[i][j]][j] = source[i][j] for dim 0, and so on; or = value.
Variable scatter(const Variable& x, int dim, const Variable& index, const Variable& source,
                 Where where = Where::current());
Variable scatter(const Variable& x, int dim, const Variable& index, Number value,
                 Where where = Where::current());

enum class Reduce { kSum, kProd, kMean, kAmax, kAmin };
/// x with elements of source combined where the index points, together with the element of x that
/// is there, or without it (include_self = false). Integer means are rounded down. Equal extremes
/// share the gradient. A second derivative of kProd over a zero is an AutogradError.
Variable scatter_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                        Reduce reduce, bool include_self = true, Where where = Where::current());

/// Elements by their row-major numbers, in index's shape; a negative one counts from the end.
Variable take(const Variable& x, const Variable& index, Where where = Where::current());
/// gather with broadcasting: index and x have equal sizes or 1 in every dimension but dim. Without
/// dim both are flattened.
Variable take_along_dim(const Variable& x, const Variable& index, std::optional<int> dim = {},
                        Where where = Where::current());

/// The elements where the mask holds, in row-major order, as a vector; the two broadcast.
Variable masked_select(const Variable& x, const Variable& mask, Where where = Where::current());
/// x with elements of source, in row-major order, where the mask (which broadcasts to x) holds.
/// ShapeError when source has too few.
Variable masked_scatter(const Variable& x, const Variable& mask, const Variable& source,
                        Where where = Where::current());

/// Where x is not 0: one row of indices for each such element, int64 [n, rank].
Variable nonzero(const Variable& x, Where where = Where::current());
/// The same as one vector for each dimension: what index tensors are (ops/subscript.h).
std::vector<Variable> where(const Variable& condition, Where where = Where::current());

namespace kernels {

/// y = source at the index; source is contiguous and has the index's shape, y too but along dim.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Tensor& y)> scatter;
/// y = y and source combined there, by kProd, kAmax or kAmin.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Reduce reduce, Tensor& y)>
    scatter_reduce;
/// The row-major numbers of what is not 0 in a contiguous x; as many as there are.
extern Kernel<void(const Tensor& x, Tensor& positions)> nonzero;

}  // namespace kernels
}  // namespace tapegrad
