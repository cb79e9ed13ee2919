// Largest and smallest elements and where they are, any and all.
#pragma once

#include <optional>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// The largest or smallest element; NaN if there is one. Equal extremes share the gradient equally.
/// Over an empty dimension an ArgumentError.
Variable amax(const Variable& x, Where where = Where::current());
Variable amax(const Variable& x, const Dims& dims, bool keepdim = false,
              Where where = Where::current());
Variable amin(const Variable& x, Where where = Where::current());
Variable amin(const Variable& x, const Dims& dims, bool keepdim = false,
              Where where = Where::current());

/// Extremes along one dimension and where they are (int64). Of equal ones the first counts, and
/// alone receives the gradient; a NaN counts as the extreme.
struct ValuesIndices {
  Variable values, indices;
};
ValuesIndices max(const Variable& x, int dim, bool keepdim = false, Where where = Where::current());
ValuesIndices min(const Variable& x, int dim, bool keepdim = false, Where where = Where::current());
/// The extreme over all, as amax and amin.
Variable max(const Variable& x, Where where = Where::current());
Variable min(const Variable& x, Where where = Where::current());
/// The index of the first extreme (int64): in the flattened tensor, or along dim.
Variable argmax(const Variable& x, std::optional<int> dim = {}, bool keepdim = false,
                Where where = Where::current());
Variable argmin(const Variable& x, std::optional<int> dim = {}, bool keepdim = false,
                Where where = Where::current());

/// Whether any, or all, elements are not zero (bool).
Variable any(const Variable& x, Where where = Where::current());
Variable any(const Variable& x, const Dims& dims, bool keepdim = false,
             Where where = Where::current());
Variable all(const Variable& x, Where where = Where::current());
Variable all(const Variable& x, const Dims& dims, bool keepdim = false,
             Where where = Where::current());

namespace kernels {

// y has x's rank, and size 1 where x is reduced; y is contiguous, x need not be.

extern Kernel<void(const Tensor&x, Tensor&y)> amax, amin;
/// y (bool) = yes where an element is zero, or not zero; else not yes.
extern Kernel<void(const Tensor& x, bool zero, bool yes, Tensor& y)> contains;

// x is contiguous, [outer, n, inner]; values and indices are [outer, inner].

/// The first extreme along n and where it is. values may be empty, and is then not computed.
extern Kernel<void(const Tensor& x, bool largest, Tensor& values, Tensor& indices)> extreme;

}  // namespace kernels

}  // namespace tapegrad
