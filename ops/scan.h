// Cumulative ops along a dimension. A negative dim counts from the end.
#pragma once

#include "core/base/by_name.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/extremes.h"

namespace tapegrad {

/// Computes the cumulative sum. Integers and bool give int64.
Variable cumsum(const Variable& x, int dim, Where where = Where::current());
Variable cumsum(const Variable& x, int dim, DTypeOption option, Where where = Where::current());
/// Computes the cumulative product. The gradient is exact for any number of zeros. Integers and
/// bool give int64.
Variable cumprod(const Variable& x, int dim, Where where = Where::current());
Variable cumprod(const Variable& x, int dim, DTypeOption option, Where where = Where::current());
/// Compute the cumulative maximum or minimum and its index; of equal elements the last one is
/// chosen. After a NaN all results are NaN.
ValuesIndices cummax(const Variable& x, int dim, Where where = Where::current());
ValuesIndices cummin(const Variable& x, int dim, Where where = Where::current());
/// Computes the cumulative log(sum(exp(x))) without overflow. Floats only.
Variable logcumsumexp(const Variable& x, int dim, Where where = Where::current());

/// Returns x[i + 1] - x[i] along dim, applied n times; for bool, whether neighbours differ. prepend
/// and append, if given, are first concatenated to x. Returns x for n = 0.
Variable diff(const Variable& x, int64_t n = 1, int dim = -1, const Variable& prepend = {},
              const Variable& append = {}, Where where = Where::current());
/// Options of diff(x, {.n = 2, .dim = 0}).
struct DiffOptions {
  ByName by_name = {};
  int64_t n = 1;
  int dim = -1;
  Variable prepend = {}, append = {};
};
Variable diff(const Variable& x, const DiffOptions& options, Where where = Where::current());

namespace kernels {

// Tensors are contiguous, [outer, n, inner]; the scan is along n.

/// For integers and bool y is int64.
extern Kernel<void(const Tensor& x, Tensor& y)> cumsum;
extern Kernel<void(const Tensor& x, Tensor& y)> cumprod;
extern Kernel<void(const Tensor& x, Tensor& y)> logcumsumexp;
/// Writes the index (int64) of the largest or smallest element so far.
extern Kernel<void(const Tensor& x, bool largest, Tensor& indices)> running_extreme;
/// Computes y[i] = a[i] y[i + 1] + b[i] from the last element to the first if `reversed`, else y[i]
/// = a[i] y[i - 1] + b[i]. The element of a at the start is not used.
extern Kernel<void(const Tensor& b, const Tensor& a, bool reversed, Tensor& y)> recurrence;

}  // namespace kernels
}  // namespace tapegrad
