// Reductions over any dimensions. A negative dim counts from the end; a dim given twice is an
// ArgumentError, one out of range an IndexError. With keepdim a reduced dimension stays with
// size 1.
//
// Sums accumulate in float or double in a fixed order: the same result for any number of threads.
#pragma once

#include <optional>
#include <utility>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// The sum over the dimensions, or over all when none is named. Integers and bool sum to int64.
Variable sum(const Variable& x, Where where = Where::current());
Variable sum(const Variable& x, const Dims& dims, bool keepdim = false,
             Where where = Where::current());
/// Sums x down to a shape that broadcasts to x's; x itself when the shapes are equal.
Variable sum_to(const Variable& x, const Shape& shape, Where where = Where::current());

/// The mean. Of nothing it is NaN. Floats only.
Variable mean(const Variable& x, Where where = Where::current());
Variable mean(const Variable& x, const Dims& dims, bool keepdim = false,
              Where where = Where::current());

struct VarOptions {
  struct ByName {};
  ByName by_name = {};  // never given: it keeps var(x, {0}) for the dimension 0
  int correction = 1;   // the divisor is n - correction: 1 unbiased, 0 for the population
  bool keepdim = false;
};
/// The variance, by two passes: exact for large offsets.
Variable var(const Variable& x, VarOptions options = {}, Where where = Where::current());
Variable var(const Variable& x, const Dims& dims, VarOptions options = {},
             Where where = Where::current());
/// The square root of var.
Variable std(const Variable& x, VarOptions options = {}, Where where = Where::current());
Variable std(const Variable& x, const Dims& dims, VarOptions options = {},
             Where where = Where::current());

/// The product; of nothing it is 1. Its gradient is right with any number of zeros.
Variable prod(const Variable& x, Where where = Where::current());
Variable prod(const Variable& x, int dim, bool keepdim = false, Where where = Where::current());

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

/// log(sum(exp(x))), shifted by the maximum so that it never overflows.
Variable logsumexp(const Variable& x, const Dims& dims, bool keepdim = false,
                   Where where = Where::current());

/// The p-norm (sum |x|^p)^(1/p) of the elements; p = infinity is the largest magnitude, p = 0
/// counts what is not zero. Its gradient at zero is 0.
Variable norm(const Variable& x, double p = 2.0, Where where = Where::current());
Variable norm(const Variable& x, double p, const Dims& dims, bool keepdim = false,
              Where where = Where::current());

/// Sums of the elements up to and including each, along dim.
Variable cumsum(const Variable& x, int dim, Where where = Where::current());

namespace kernels {

// y has x's rank, and size 1 where x is reduced; y is contiguous, x need not be.

/// y = sum of x / divisor. Integers and bool give int64, and are not divided.
extern Kernel<void(const Tensor& x, double divisor, Tensor& y)> sum;
/// Integers give int64.
extern Kernel<void(const Tensor& x, Tensor& y)> prod;
extern Kernel<void(const Tensor&x, Tensor&y)> amax, amin;
/// y (bool) = yes where an element is zero, or not zero; else not yes.
extern Kernel<void(const Tensor& x, bool zero, bool yes, Tensor& y)> contains;
/// y = sum of (x - mean)^2 / divisor, or the root of that.
extern Kernel<void(const Tensor& x, double divisor, bool root, Tensor& y)> var;
/// y = (sum |x|^p)^(1/p), p finite.
extern Kernel<void(const Tensor& x, double p, Tensor& y)> norm;

// x is contiguous, [outer, n, inner]; values and indices are [outer, inner].

/// The first extreme along n and where it is. values may be empty: not wanted.
extern Kernel<void(const Tensor& x, bool largest, Tensor& values, Tensor& indices)> extreme;
/// y = sums up to and including each along n. Integers and bool give int64.
extern Kernel<void(const Tensor& x, Tensor& y)> cumsum;
/// values = log(sum(exp(x))) along n.
extern Kernel<void(const Tensor& x, Tensor& values)> logsumexp;

}  // namespace kernels
}  // namespace tapegrad
