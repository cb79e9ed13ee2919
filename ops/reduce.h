// Reductions over any dimensions. A negative dim counts from the end. Throws ArgumentError for a
// dim given twice and IndexError for a dim out of range. With keepdim, reduced dimensions remain
// with size 1.
//
// Sums accumulate in float or double in a fixed order, so results do not depend on the number of
// threads.
#pragma once

#include <optional>
#include <utility>

#include "core/base/by_name.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/extremes.h"
#include "ops/scan.h"

namespace tapegrad {

/// Returns the sum over dims, or over all dimensions if none is given. Integers and bool give
/// int64.
Variable sum(const Variable& x, Where where = Where::current());
template <detail::NumberForFlag I>
auto sum(const Variable&, const Dims&, I) {
  static_assert(detail::refuse_second_dim<I>());
}
template <typename = void>
Variable sum(const Variable& x, const Dims& dims, bool keepdim = false,
             Where where = Where::current());
template <typename = void>
Variable sum(const Variable& x, const Dims& dims, Keepdim keep, Where where = Where::current()) {
  return sum(x, dims, keep.keepdim, where);
}
Variable sum(const Variable& x, ReduceOptions options, Where where = Where::current());
/// Returns the sum in the given dtype, to which x is converted first.
template <std::same_as<DType> D>
Variable sum(const Variable& x, D dtype, Where where = Where::current()) {
  return sum(x.to(dtype, where), where);
}
template <std::same_as<DType> D>
Variable sum(const Variable& x, const Dims& dims, D dtype, Where where = Where::current()) {
  return sum(x.to(dtype, where), dims, false, where);
}
template <std::same_as<DType> D>
Variable sum(const Variable& x, const Dims& dims, bool keepdim, D dtype,
             Where where = Where::current()) {
  return sum(x.to(dtype, where), dims, keepdim, where);
}
/// Sums x to a shape that broadcasts to x's shape. Returns x if the shapes are equal.
Variable sum_to(const Variable& x, const Shape& shape, Where where = Where::current());

/// Returns the mean; NaN for no elements. Floats only.
Variable mean(const Variable& x, Where where = Where::current());
template <detail::NumberForFlag I>
auto mean(const Variable&, const Dims&, I) {
  static_assert(detail::refuse_second_dim<I>());
}
template <typename = void>
Variable mean(const Variable& x, const Dims& dims, bool keepdim = false,
              Where where = Where::current());
template <typename = void>
Variable mean(const Variable& x, const Dims& dims, Keepdim keep, Where where = Where::current()) {
  return mean(x, dims, keep.keepdim, where);
}
Variable mean(const Variable& x, ReduceOptions options, Where where = Where::current());
template <std::same_as<DType> D>
Variable mean(const Variable& x, D dtype, Where where = Where::current()) {
  return mean(x.to(dtype, where), where);
}
template <std::same_as<DType> D>
Variable mean(const Variable& x, const Dims& dims, D dtype, Where where = Where::current()) {
  return mean(x.to(dtype, where), dims, false, where);
}
template <std::same_as<DType> D>
Variable mean(const Variable& x, const Dims& dims, bool keepdim, D dtype,
              Where where = Where::current()) {
  return mean(x.to(dtype, where), dims, keepdim, where);
}

struct VarOptions {
  ByName by_name = {};                // var(x, {0}) is along dimension 0
  Dims dim = {};                      // all dimensions if it is empty
  std::optional<bool> unbiased = {};  // false: correction 0, true: correction 1
  int correction = 1;  // the divisor is n - correction: 1 unbiased, 0 population variance
  bool keepdim = false;
  Dims axis = {};  // other names of dim and keepdim, as in ReduceOptions
  bool keepdims = false;

  Dims dims() const { return detail::one_name(dim, axis); }
  bool keeps() const { return keepdim || keepdims; }
};
namespace detail {
Variable var_over(const Variable& x, const Dims& dims, VarOptions options, Where where);
Variable std_over(const Variable& x, const Dims& dims, VarOptions options, Where where);
}  // namespace detail

// Functions with dims are templates, because g++ 12 otherwise takes {.correction = 0} for dims.
/// Returns the variance, computed in two passes and therefore accurate for a large mean.
Variable var(const Variable& x, VarOptions options = {}, Where where = Where::current());
template <std::convertible_to<const Variable&> V>
Variable var(const V& x, const Dims& dims, VarOptions options = {},
             Where where = Where::current()) {
  return detail::var_over(x, dims, options, where);
}
/// Returns the standard deviation, the square root of var.
Variable std(const Variable& x, VarOptions options = {}, Where where = Where::current());
template <std::convertible_to<const Variable&> V>
Variable std(const V& x, const Dims& dims, VarOptions options = {},
             Where where = Where::current()) {
  return detail::std_over(x, dims, options, where);
}

// Overloads with PyTorch's `unbiased`: false divides by n instead of n - 1.
template <std::same_as<bool> B>
Variable var(const Variable& x, B unbiased, Where where = Where::current()) {
  return var(x, VarOptions{.correction = unbiased}, where);
}
template <std::same_as<bool> B>
Variable var(const Variable& x, const Dims& dims, B unbiased, bool keepdim = false,
             Where where = Where::current()) {
  return var(x, dims, VarOptions{.correction = unbiased, .keepdim = keepdim}, where);
}
template <std::same_as<bool> B>
Variable std(const Variable& x, B unbiased, Where where = Where::current()) {
  return std(x, VarOptions{.correction = unbiased}, where);
}
template <std::same_as<bool> B>
Variable std(const Variable& x, const Dims& dims, B unbiased, bool keepdim = false,
             Where where = Where::current()) {
  return std(x, dims, VarOptions{.correction = unbiased, .keepdim = keepdim}, where);
}
/// Returns the product; 1 for no elements. The gradient is exact for any number of zeros.
Variable prod(const Variable& x, Where where = Where::current());
Variable prod(const Variable& x, int dim, bool keepdim = false, Where where = Where::current());
inline Variable prod(const Variable& x, int dim, Keepdim keep, Where where = Where::current()) {
  return prod(x, dim, keep.keepdim, where);
}
/// Overload with options. Without .dim, reduces all dimensions.
Variable prod(const Variable& x, AlongOptions options, Where where = Where::current());

/// Returns log(sum(exp(x))), computed after subtracting the maximum so that it never overflows.
template <typename = void>
Variable logsumexp(const Variable& x, const Dims& dims, bool keepdim = false,
                   Where where = Where::current());
template <typename = void>
Variable logsumexp(const Variable& x, const Dims& dims, Keepdim keep,
                   Where where = Where::current()) {
  return logsumexp(x, dims, keep.keepdim, where);
}
Variable logsumexp(const Variable& x, ReduceOptions options, Where where = Where::current());

struct NormOptions {
  ByName by_name = {};
  double p = 2.0;
  Dims dim = {};  // default: all dimensions
  bool keepdim = false;
};

/// Returns the p-norm (sum |x|^p)^(1/p). p = infinity gives the largest magnitude, p = 0 the number
/// of nonzero elements. The gradient at zero is 0.
Variable norm(const Variable& x, double p = 2.0, Where where = Where::current());
Variable norm(const Variable& x, double p, const Dims& dims, bool keepdim = false,
              Where where = Where::current());
inline Variable norm(const Variable& x, double p, const Dims& dims, Keepdim keep,
                     Where where = Where::current()) {
  return norm(x, p, dims, keep.keepdim, where);
}
Variable norm(const Variable& x, NormOptions options, Where where = Where::current());

namespace kernels {

// y is contiguous and has x's rank, with size 1 in reduced dimensions. x may be strided.

/// Computes y = sum of x / divisor. For integers and bool y is int64, and the sum is not divided.
extern Kernel<void(const Tensor& x, double divisor, Tensor& y)> sum;
/// For integers y is int64.
extern Kernel<void(const Tensor& x, Tensor& y)> prod;
/// Computes y = sum of (x - mean)^2 / divisor, or its square root.
extern Kernel<void(const Tensor& x, double divisor, bool root, Tensor& y)> var;
/// Computes y = (sum |x|^p)^(1/p) for finite p.
extern Kernel<void(const Tensor& x, double p, Tensor& y)> norm;

// x is contiguous, [outer, n, inner]; values are [outer, inner].

/// Computes values = log(sum(exp(x))) along n.
extern Kernel<void(const Tensor& x, Tensor& values)> logsumexp;

}  // namespace kernels
}  // namespace tapegrad
