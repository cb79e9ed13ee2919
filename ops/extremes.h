// Largest and smallest elements and their indices; any and all.
#pragma once

#include <iosfwd>
#include <optional>
#include <tuple>

#include "core/base/by_name.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

namespace detail {
/// Return the option that is given. Throw ArgumentError if both are.
Dims one_name(const Dims& dim, const Dims& axis);
std::optional<int> one_name(std::optional<int> dim, std::optional<int> axis);
}  // namespace detail

/// Options of reductions: amax(x, {.dim = {0, 1}, .keepdim = true}).
struct ReduceOptions {
  ByName by_name = {};
  Dims dim = {};                    // default: all dimensions
  bool keepdim = false;             // reduced dimensions remain with size 1
  Dims axis = {};                   // NumPy's and Keras's name of dim
  bool keepdims = false;            // their name of keepdim
  std::optional<DType> dtype = {};  // of sum and mean: dtype to which x is converted first

  Dims dims() const { return detail::one_name(dim, axis); }
  bool keeps() const { return keepdim || keepdims; }
};
/// Options of max(x, {.dim = 1}), min and prod.
struct AlongOptions {
  ByName by_name = {};
  std::optional<int> dim = {};  // required by max and min; prod: default is all dimensions
  bool keepdim = false;
  std::optional<int> axis = {};  // other names of dim and keepdim, as in ReduceOptions
  bool keepdims = false;

  std::optional<int> along() const { return detail::one_name(dim, axis); }
  bool keeps() const { return keepdim || keepdims; }
};

/// Option of reductions along given dimensions: sum(x, 1, {.keepdim = true}).
struct Keepdim {
  ByName by_name = {};
  bool keepdim = false;
};

// Reductions over Dims are templates, because g++ 12 otherwise takes {.keepdim = true} for Dims.

/// Returns the largest or smallest element; NaN if any element is NaN. Equal extremes share the
/// gradient equally. Throws ArgumentError for an empty dimension.
Variable amax(const Variable& x, Where where = Where::current());
template <detail::NumberForFlag I>
auto amax(const Variable&, const Dims&, I) {
  static_assert(detail::refuse_second_dim<I>());
}
template <typename = void>
Variable amax(const Variable& x, const Dims& dims, bool keepdim = false,
              Where where = Where::current());
template <typename = void>
Variable amax(const Variable& x, const Dims& dims, Keepdim keep, Where where = Where::current()) {
  return amax(x, dims, keep.keepdim, where);
}
Variable amax(const Variable& x, ReduceOptions options, Where where = Where::current());
Variable amin(const Variable& x, Where where = Where::current());
template <detail::NumberForFlag I>
auto amin(const Variable&, const Dims&, I) {
  static_assert(detail::refuse_second_dim<I>());
}
template <typename = void>
Variable amin(const Variable& x, const Dims& dims, bool keepdim = false,
              Where where = Where::current());
template <typename = void>
Variable amin(const Variable& x, const Dims& dims, Keepdim keep, Where where = Where::current()) {
  return amin(x, dims, keep.keepdim, where);
}
Variable amin(const Variable& x, ReduceOptions options, Where where = Where::current());

/// Extremes along dim and their indices (int64). The first of equal extremes is returned and alone
/// receives the gradient. NaN counts as the extreme.
struct ValuesIndices {
  static constexpr int kParts = 2;
  Variable values, indices;

  /// Returns part i, as from Python's tuple: max(x, 1)[0] has the values, max(x, 1)[1] the indices.
  /// Throws IndexError for another number.
  Variable operator[](int part) const;
  /// Converts for `std::tie(values, indices) = max(x, 1);`.
  operator std::tuple<Variable&, Variable&>();
};
std::ostream& operator<<(std::ostream& out, const ValuesIndices& both);
/// Prints the parts of the result of another function, one after the other.
template <detail::NamedParts R>
std::ostream& operator<<(std::ostream& out, const R& result) {
  for (int part = 0; part < R::kParts; ++part)
    out << (part == 0 ? "" : "\n") << detail::part_at(result, part);
  return out;
}
ValuesIndices max(const Variable& x, int dim, bool keepdim = false, Where where = Where::current());
ValuesIndices max(const Variable& x, int dim, Keepdim keep, Where where = Where::current());
ValuesIndices min(const Variable& x, int dim, bool keepdim = false, Where where = Where::current());
ValuesIndices min(const Variable& x, int dim, Keepdim keep, Where where = Where::current());
/// Return the extremes along options.dim. Throw ArgumentError if .dim is not set.
ValuesIndices max(const Variable& x, AlongOptions options, Where where = Where::current());
ValuesIndices min(const Variable& x, AlongOptions options, Where where = Where::current());
/// Return the extreme of all elements. Equivalent to amax and amin.
Variable max(const Variable& x, Where where = Where::current());
Variable min(const Variable& x, Where where = Where::current());
/// Return the elementwise maximum and minimum. Equivalent to maximum() and minimum().
Variable max(const Variable& a, const Variable& b, Where where = Where::current());
Variable min(const Variable& a, const Variable& b, Where where = Where::current());
template <std::floating_point T>
auto max(const Variable&, T) {
  static_assert(detail::kNever<T>, "type maximum(x, 0.0): the number of max(x, 0) is a dimension");
}
template <std::floating_point T>
auto min(const Variable&, T) {
  static_assert(detail::kNever<T>, "type minimum(x, 0.0): the number of min(x, 0) is a dimension");
}
/// Returns the index (int64) of the first extreme, along dim or in the flattened tensor.
Variable argmax(const Variable& x, std::optional<int> dim = {}, bool keepdim = false,
                Where where = Where::current());
Variable argmax(const Variable& x, int dim, Keepdim keep, Where where = Where::current());
/// Overload with options; without .dim, returns the index in the flattened tensor. A template, so
/// that argmax(x, {}) is not ambiguous.
template <typename = void>
Variable argmax(const Variable& x, AlongOptions options, Where where = Where::current()) {
  return argmax(x, options.along(), options.keeps(), where);
}
Variable argmin(const Variable& x, std::optional<int> dim = {}, bool keepdim = false,
                Where where = Where::current());
Variable argmin(const Variable& x, int dim, Keepdim keep, Where where = Where::current());
/// Overload with options; without .dim, returns the index in the flattened tensor.
template <typename = void>
Variable argmin(const Variable& x, AlongOptions options, Where where = Where::current()) {
  return argmin(x, options.along(), options.keeps(), where);
}

/// Returns whether any or all elements are nonzero (bool).
Variable any(const Variable& x, Where where = Where::current());
template <typename = void>
Variable any(const Variable& x, const Dims& dims, bool keepdim = false,
             Where where = Where::current());
template <typename = void>
Variable any(const Variable& x, const Dims& dims, Keepdim keep, Where where = Where::current()) {
  return any(x, dims, keep.keepdim, where);
}
Variable any(const Variable& x, ReduceOptions options, Where where = Where::current());
Variable all(const Variable& x, Where where = Where::current());
template <typename = void>
Variable all(const Variable& x, const Dims& dims, bool keepdim = false,
             Where where = Where::current());
template <typename = void>
Variable all(const Variable& x, const Dims& dims, Keepdim keep, Where where = Where::current()) {
  return all(x, dims, keep.keepdim, where);
}
Variable all(const Variable& x, ReduceOptions options, Where where = Where::current());

namespace kernels {

// y is contiguous and has x's rank, with size 1 in reduced dimensions. x may be strided.

extern Kernel<void(const Tensor&x, Tensor&y)> amax, amin;
/// y (bool) is `yes` where some element is zero (`zero` is true) or nonzero (`zero` is false),
/// otherwise !yes.
extern Kernel<void(const Tensor& x, bool zero, bool yes, Tensor& y)> contains;

// x is contiguous, [outer, n, inner]; values and indices are [outer, inner].

/// Computes the first extreme along n and its index. values may be empty and is then not computed.
extern Kernel<void(const Tensor& x, bool largest, Tensor& values, Tensor& indices)> extreme;

}  // namespace kernels

}  // namespace tapegrad
