// Sorting and order statistics. NaN counts as larger than every number, -0 equals 0, and sorting is
// stable, also when descending. A negative dim counts from the end.
//
// Values are gathered from the input by their indices, so the gradient of each value goes to the
// element that it came from.
#pragma once

#include <optional>

#include "core/base/choice.h"
#include "ops/reduce.h"

namespace tapegrad {

ValuesIndices sort(const Variable& x, int dim = -1, bool descending = false,
                   Where where = Where::current());
struct SortOptions {
  int dim = -1;
  bool descending = false;
  bool stable = true;  // no effect
};
ValuesIndices sort(const Variable& x, SortOptions options, Where where = Where::current());
ValuesIndices sort(const Variable& x, int dim, SortOptions options, Where where = Where::current());
/// Returns the indices (int64) that sort x.
Variable argsort(const Variable& x, int dim = -1, bool descending = false,
                 Where where = Where::current());
/// libtorch's forms, with `stable` first. The flag has no effect: every sort is stable.
template <std::same_as<bool> B>
ValuesIndices sort(const Variable& x, B /*stable*/, int dim = -1, bool descending = false,
                   Where where = Where::current()) {
  return sort(x, dim, descending, where);
}
template <std::same_as<bool> B>
Variable argsort(const Variable& x, B /*stable*/, int dim = -1, bool descending = false,
                 Where where = Where::current()) {
  return argsort(x, dim, descending, where);
}
Variable argsort(const Variable& x, SortOptions options, Where where = Where::current());
/// Returns the k largest elements along dim in descending order, or the k smallest in ascending
/// order.
ValuesIndices topk(const Variable& x, int64_t k, int dim = -1, bool largest = true,
                   Where where = Where::current());
/// Overload with PyTorch's flag `sorted`, which has no effect: the result is sorted.
ValuesIndices topk(const Variable& x, int64_t k, int dim, bool largest, bool /*sorted*/,
                   Where where = Where::current());
/// Options of topk(x, 3, {.dim = 0, .largest = false}).
struct TopkOptions {
  ByName by_name = {};
  int dim = -1;
  bool largest = true;
  bool sorted = true;  // no effect
};
ValuesIndices topk(const Variable& x, int64_t k, TopkOptions options,
                   Where where = Where::current());
/// Returns the k-th smallest element along dim; k starts at 1.
ValuesIndices kthvalue(const Variable& x, int64_t k, int dim = -1, bool keepdim = false,
                       Where where = Where::current());
/// Returns the median along dim or of all elements; the lower of the two middle elements if their
/// number is even. NaN if any element is NaN. Without dim, elements that equal the median share its
/// gradient.
ValuesIndices median(const Variable& x, int dim, bool keepdim = false,
                     Where where = Where::current());
Variable median(const Variable& x, Where where = Where::current());

/// Rule for a quantile between two elements a <= b.
enum class Interpolation { kLinear, kLower, kHigher, kMidpoint, kNearest };
constexpr auto choice_names(Interpolation) {
  return std::to_array<ChoiceName<Interpolation>>({{"linear", Interpolation::kLinear},
                                                   {"lower", Interpolation::kLower},
                                                   {"higher", Interpolation::kHigher},
                                                   {"midpoint", Interpolation::kMidpoint},
                                                   {"nearest", Interpolation::kNearest}});
}
struct QuantileOptions {
  std::optional<int> dim = {};  // default: all elements
  bool keepdim = false;
  Choice<Interpolation> interpolation = Interpolation::kLinear;
};
namespace detail {
Variable quantile_over(const Variable& x, const Variable& q, const Dims& dims,
                       QuantileOptions options, Where where);
}  // namespace detail
/// Returns the q-th quantile along dim; NaN if any element is NaN. A vector q adds a first
/// dimension with one result for each of its elements. Throws ArgumentError for q outside [0, 1].
Variable quantile(const Variable& x, const Variable& q, QuantileOptions options = {},
                  Where where = Where::current());
Variable quantile(const Variable& x, double q, QuantileOptions options = {},
                  Where where = Where::current());
/// Returns the quantile over several dimensions together, as in NumPy. Ignores options.dim.
template <std::convertible_to<const Variable&> V>
Variable quantile(const V& x, const Variable& q, const Dims& dims, QuantileOptions options = {},
                  Where where = Where::current()) {
  return detail::quantile_over(x, q, dims, options, where);
}

/// Overloads with q as numbers: quantile(x, {0.25, 0.75}), quantile(x, 0.5, 1).
Variable quantile(const Variable& x, std::initializer_list<double> q, QuantileOptions options = {},
                  Where where = Where::current());
/// Overload with q as numbers, and dim by position: quantile(x, {0.25, 0.75}, 1).
template <std::integral T>
Variable quantile(const Variable& x, std::initializer_list<double> q, T dim, bool keepdim = false,
                  Where where = Where::current()) {
  return quantile(x, q, QuantileOptions{.dim = int(dim), .keepdim = keepdim}, where);
}
template <std::integral T>
Variable quantile(const Variable& x, const Variable& q, T dim, bool keepdim = false,
                  Where where = Where::current()) {
  return quantile(x, q, QuantileOptions{.dim = int(dim), .keepdim = keepdim}, where);
}
template <std::integral T>
Variable quantile(const Variable& x, double q, T dim, bool keepdim = false,
                  Where where = Where::current()) {
  return quantile(x, q, {.dim = int(dim), .keepdim = keepdim}, where);
}

struct Unique {
  static constexpr int kParts = 3;
  Variable values;   // the distinct values in ascending order: [u]
  Variable inverse;  // the index of each element's value in values: int64, x's shape
  Variable counts;   // the number of occurrences of each value: int64 [u]

  /// Converts to the values: `Variable ids = unique(x);`.
  operator const Variable&() const { return values; }
  // Members of the values: unique(x).numel().
  int64_t numel() const;
  int64_t size(int dim) const { return values.size(dim); }
  const Shape& sizes() const;
  template <typename T>
  std::vector<T> to_vector() const {
    return values.to_vector<T>();
  }
};
/// Returns the distinct values of all elements. Every NaN counts as a distinct value. No gradient.
Unique unique(const Variable& x, Where where = Where::current());
/// Returns the distinct slices along dim in lexicographic order; inverse and counts refer to slices
/// [n]. Sorts one column of elements at a time, so it suits short slices.
Unique unique(const Variable& x, int dim, Where where = Where::current());

/// Options of unique(x, {.dim = 0}). The flags have no effect: the result has all three parts and
/// is sorted.
struct UniqueOptions {
  ByName by_name = {};
  bool sorted = true, return_inverse = false, return_counts = false;
  std::optional<int> dim = {};
};
Unique unique(const Variable& x, UniqueOptions options);
/// Overloads with PyTorch's flags, which have no effect: the result has all three parts and is
/// sorted.
template <std::same_as<bool> B>
Unique unique(const Variable& x, B /*sorted*/, bool /*return_inverse*/ = false,
              bool /*return_counts*/ = false, Where where = Where::current()) {
  return unique(x, where);
}

/// Side of equal elements.
enum class Side { kLeft, kRight };
constexpr auto choice_names(Side) {
  return std::to_array<ChoiceName<Side>>({{"left", Side::kLeft}, {"right", Side::kRight}});
}
namespace detail {
[[noreturn]] void fail_out_int32(Where where);
}
/// Returns the position (int64) at which each value would be inserted to keep `sorted` sorted:
/// before equal elements, or after them if `right`. sorted is [n] for values of any shape, or
/// [..., n] for values [..., m].
Variable searchsorted(const Variable& sorted, const Variable& values, bool right = false,
                      Where where = Where::current());
/// Options of searchsorted(sorted, values, {.right = true}).
struct SearchSortedOptions {
  bool right = false;
  Choice<Side> side = Side::kLeft;  // kRight has the same meaning as `right`
};
template <std::convertible_to<const Variable&> V>
Variable searchsorted(const V& sorted, const Variable& values, SearchSortedOptions options,
                      Where where = Where::current()) {
  return searchsorted(sorted, values, options.right || options.side == Side::kRight, where);
}
/// Overload with libtorch's arguments. Throws ArgumentError if out_int32: positions are int64.
template <std::same_as<bool> B>
Variable searchsorted(const Variable& sorted, const Variable& values, bool out_int32, B right,
                      Where where = Where::current()) {
  if (out_int32) detail::fail_out_int32(where);
  return searchsorted(sorted, values, right, where);
}

namespace kernels {

// Tensors are contiguous.

/// Writes the positions of k elements of each row of x [rows, n] in sorted order, from the element
/// `first` on, to indices [rows, k]; 0 < k, first + k <= n.
extern Kernel<void(const Tensor& x, int64_t first, bool descending, Tensor& indices)> order;
/// y is [rows, m], for sorted [rows, n] or [1, n] and values [rows, m] of the same dtype.
extern Kernel<void(const Tensor& sorted, const Tensor& values, bool right, Tensor& y)> searchsorted;

}  // namespace kernels
}  // namespace tapegrad
