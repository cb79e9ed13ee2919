// Running results along a dimension; cumsum is in ops/reduce.h. A negative dim counts from the end.
#pragma once

#include "ops/reduce.h"

namespace tapegrad {

/// Products of the elements up to and including each. The gradient is right with any number of
/// zeros. Integers and bool give int64.
Variable cumprod(const Variable& x, int dim, Where where = Where::current());
/// The largest, or smallest, so far and where it stands; of equal ones the last. NaN stays once it
/// is met.
ValuesIndices cummax(const Variable& x, int dim, Where where = Where::current());
ValuesIndices cummin(const Variable& x, int dim, Where where = Where::current());
/// log(sum(exp(x))) of the elements up to and including each, without overflow. Floats only.
Variable logcumsumexp(const Variable& x, int dim, Where where = Where::current());

/// x[i + 1] - x[i] along dim, n times over; of bools whether they differ. prepend and append, if
/// given, are joined to x before.
Variable diff(const Variable& x, int64_t n = 1, int dim = -1, const Variable& prepend = {},
              const Variable& append = {}, Where where = Where::current());

namespace kernels {

// All are contiguous, [outer, n, inner]; results run along n.

/// Integers and bool give int64.
extern Kernel<void(const Tensor& x, Tensor& y)> cumprod;
extern Kernel<void(const Tensor& x, Tensor& y)> logcumsumexp;
/// indices (int64) of the largest or smallest so far.
extern Kernel<void(const Tensor& x, bool largest, Tensor& indices)> running_extreme;
/// y[i] = a[i] y[i + 1] + b[i] from the last to the first or, not reversed, y[i] = a[i] y[i - 1] +
/// b[i]; a's element at the start is not used.
extern Kernel<void(const Tensor& b, const Tensor& a, bool reversed, Tensor& y)> recurrence;

}  // namespace kernels
}  // namespace tapegrad
