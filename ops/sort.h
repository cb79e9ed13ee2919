// Order: sorting, and what follows from it. NaN counts as larger than every number, -0 equals 0,
// and equal elements keep their order, also when descending. A negative dim counts from the end.
//
// Values are taken from the input by their indices, so that each result's gradient goes to the one
// element it came from.
#pragma once

#include <optional>

#include "ops/reduce.h"

namespace tapegrad {

ValuesIndices sort(const Variable& x, int dim = -1, bool descending = false,
                   Where where = Where::current());
/// The indices alone (int64).
Variable argsort(const Variable& x, int dim = -1, bool descending = false,
                 Where where = Where::current());
/// The k largest along dim, largest first, or the k smallest, smallest first.
ValuesIndices topk(const Variable& x, int64_t k, int dim = -1, bool largest = true,
                   Where where = Where::current());
/// The k-th smallest along dim, k from 1 on.
ValuesIndices kthvalue(const Variable& x, int64_t k, int dim = -1, bool keepdim = false,
                       Where where = Where::current());
/// The middle one along dim, or of all; of an even number the lower of the two. NaN if there is
/// one.
ValuesIndices median(const Variable& x, int dim, bool keepdim = false,
                     Where where = Where::current());
Variable median(const Variable& x, Where where = Where::current());

/// What a quantile is that falls between two elements a <= b.
enum class Interpolation { kLinear, kLower, kHigher, kMidpoint, kNearest };
struct QuantileOptions {
  std::optional<int> dim = {};  // of all, unless given
  bool keepdim = false;
  Interpolation interpolation = Interpolation::kLinear;
};
/// The number below which the share q of the elements along dim lies; NaN if there is one. A vector
/// q gives one result each, as a new first dimension. ArgumentError for q outside [0, 1].
Variable quantile(const Variable& x, const Variable& q, QuantileOptions options = {},
                  Where where = Where::current());
Variable quantile(const Variable& x, double q, QuantileOptions options = {},
                  Where where = Where::current());
/// Of the elements along several dimensions together, as in NumPy; options.dim is not used.
Variable quantile(const Variable& x, const Variable& q, const Dims& dims,
                  QuantileOptions options = {}, Where where = Where::current());

struct Unique {
  Variable values;   // each value once, in order: [u]
  Variable inverse;  // which of them each element is: int64, x's shape
  Variable counts;   // how often each occurs: int64, [u]
};
/// The different values of all elements; every NaN is one of its own. No gradient.
Unique unique(const Variable& x, Where where = Where::current());
/// The different slices along dim, in the order of their elements; inverse and counts are of slices
/// [n]. A column of elements is sorted at a time: for short slices.
Unique unique(const Variable& x, int dim, Where where = Where::current());

/// Where each value belongs among sorted ones, int64: before equal ones, or with `right` behind
/// them. sorted is [n] for values of any shape, or [..., n] for values [..., m].
Variable searchsorted(const Variable& sorted, const Variable& values, bool right = false,
                      Where where = Where::current());

namespace kernels {

// All are contiguous.

/// indices [rows, k]: where the first k of each row x [rows, n] in order are, 0 < k <= n.
extern Kernel<void(const Tensor& x, int64_t k, bool descending, Tensor& indices)> order;
/// y [rows, m] for sorted [rows, n] or [1, n] and values [rows, m] of one dtype.
extern Kernel<void(const Tensor& sorted, const Tensor& values, bool right, Tensor& y)> searchsorted;

}  // namespace kernels
}  // namespace tapegrad
