// Largest and smallest elements and where they are, any and all.
#pragma once

#include <optional>
#include <tuple>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Returns the largest or smallest element; NaN if any element is NaN. Equal extremes share the
/// gradient equally. Throws ArgumentError for an empty dimension.
Variable amax(const Variable& x, Where where = Where::current());
Variable amax(const Variable& x, const Dims& dims, bool keepdim = false,
              Where where = Where::current());
Variable amin(const Variable& x, Where where = Where::current());
Variable amin(const Variable& x, const Dims& dims, bool keepdim = false,
              Where where = Where::current());

/// The extremes along dim and their indices (int64). The first of equal extremes is returned and
/// alone receives the gradient. NaN counts as the extreme.
struct ValuesIndices {
  static constexpr int kParts = 2;
  Variable values, indices;

  /// `std::tie(values, indices) = max(x, 1);`
  operator std::tuple<Variable&, Variable&>() { return {values, indices}; }
};
ValuesIndices max(const Variable& x, int dim, bool keepdim = false, Where where = Where::current());
ValuesIndices min(const Variable& x, int dim, bool keepdim = false, Where where = Where::current());
/// Returns the extreme of all elements; same as amax and amin.
Variable max(const Variable& x, Where where = Where::current());
Variable min(const Variable& x, Where where = Where::current());
/// Return the elementwise maximum and minimum, as maximum() and minimum().
Variable max(const Variable& a, const Variable& b, Where where = Where::current());
Variable min(const Variable& a, const Variable& b, Where where = Where::current());
template <std::floating_point T>
void max(const Variable&, T) {
  static_assert(detail::kNever<T>, "type maximum(x, 0.0): the number of max(x, 0) is a dimension");
}
template <std::floating_point T>
void min(const Variable&, T) {
  static_assert(detail::kNever<T>, "type minimum(x, 0.0): the number of min(x, 0) is a dimension");
}
/// Returns the index (int64) of the first extreme, along dim or in the flattened tensor.
Variable argmax(const Variable& x, std::optional<int> dim = {}, bool keepdim = false,
                Where where = Where::current());
Variable argmin(const Variable& x, std::optional<int> dim = {}, bool keepdim = false,
                Where where = Where::current());

/// Returns whether any or all elements are nonzero (bool).
Variable any(const Variable& x, Where where = Where::current());
Variable any(const Variable& x, const Dims& dims, bool keepdim = false,
             Where where = Where::current());
Variable all(const Variable& x, Where where = Where::current());
Variable all(const Variable& x, const Dims& dims, bool keepdim = false,
             Where where = Where::current());

namespace kernels {

// y is contiguous and has x's rank, with size 1 in reduced dimensions. x may be strided.

extern Kernel<void(const Tensor&x, Tensor&y)> amax, amin;
/// y (bool) is `yes` where some element is zero (`zero` is true) or nonzero (`zero` is false),
/// otherwise !yes.
extern Kernel<void(const Tensor& x, bool zero, bool yes, Tensor& y)> contains;

// x is contiguous, [outer, n, inner]; values and indices are [outer, inner].

/// The first extreme along n and where it is. values may be empty, and is then not computed.
extern Kernel<void(const Tensor& x, bool largest, Tensor& values, Tensor& indices)> extreme;

}  // namespace kernels

}  // namespace tapegrad
