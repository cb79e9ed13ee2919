// Further ops that write and read elements by index. The rules of ops/index.h for indices apply. If
// several elements are written to one place without being combined, the last one along dim remains
// and alone receives the gradient.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/by_name.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Returns, for dim 0, x with element [index[i][j]][j] replaced by source[i][j] or by value;
/// likewise for other dims and ranks.
Variable scatter(const Variable& x, int dim, const Variable& index, const Variable& source,
                 Where where = Where::current());
Variable scatter(const Variable& x, int dim, const Variable& index, Number value,
                 Where where = Where::current());

enum class Reduce { kSum, kProd, kMean, kAmax, kAmin };
/// Returns x with elements of source combined at the index. include_self determines whether the
/// element of x takes part. Integer means are rounded down. Equal extremes share the gradient. A
/// second derivative of kProd over a zero throws AutogradError.
Variable scatter_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                        Reduce reduce, bool include_self = true, Where where = Where::current());
/// Overload with the name of the reduction: "sum", "prod", "mean", "amax" or "amin".
Variable scatter_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                        std::string_view reduce, bool include_self = true,
                        Where where = Where::current());

/// Option of scatter_reduce(x, 0, index, source, "mean", {.include_self = false}).
struct IncludeSelfOption {
  ByName by_name = {};
  bool include_self = true;
};
template <std::convertible_to<std::string_view> Name>
Variable scatter_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                        const Name& reduce, IncludeSelfOption option,
                        Where where = Where::current()) {
  return scatter_reduce(x, dim, index, source, std::string_view(reduce), option.include_self,
                        where);
}
/// Options of scatter_reduce(x, 0, index, source, {.reduce = "mean"}).
struct ScatterReduceOptions {
  ByName by_name = {};
  std::string_view reduce;
  bool include_self = true;
};
Variable scatter_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                        ScatterReduceOptions options, Where where = Where::current());

/// Returns x in which the entries index[i] along dim are combined with the entries i of source, by
/// "prod", "mean", "amax" or "amin". The rules of scatter_reduce() apply.
Variable index_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                      std::string_view reduce, bool include_self = true,
                      Where where = Where::current());
template <std::convertible_to<std::string_view> Name>
Variable index_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                      const Name& reduce, IncludeSelfOption option,
                      Where where = Where::current()) {
  return index_reduce(x, dim, index, source, std::string_view(reduce), option.include_self, where);
}

/// Equivalent to scatter_reduce() with "sum" or "prod", for the names "add" and "multiply".
Variable scatter(const Variable& x, int dim, const Variable& index, const Variable& source,
                 std::string_view reduce, Where where = Where::current());

/// Returns elements of flattened x at row-major positions; the result has the shape of index.
/// Negative positions count from the end.
Variable take(const Variable& x, const Variable& index, Where where = Where::current());
/// Gathers with broadcasting: index and x have equal sizes or size 1 in every dimension except dim.
/// Without dim, both are flattened. Negative indices count from the end.
Variable take_along_dim(const Variable& x, const Variable& index, std::optional<int> dim = {},
                        Where where = Where::current());

/// Returns the elements where mask is true, as a vector in row-major order. x and mask broadcast.
Variable masked_select(const Variable& x, const Variable& mask, Where where = Where::current());
/// Replaces elements of x where mask is true by successive elements of source, in row-major order.
/// x and mask broadcast. Throws ShapeError if source has too few elements.
Variable masked_scatter(const Variable& x, const Variable& mask, const Variable& source,
                        Where where = Where::current());

/// Returns the indices of nonzero elements, one row for each: int64 [n, rank].
Variable nonzero(const Variable& x, Where where = Where::current());
template <std::same_as<bool> B>
auto nonzero(const Variable&, B) {
  static_assert(detail::kNever<B>,
                "nonzero(x, true): type where(x), which returns the indices of each dimension");
}
struct AsTupleOption {
  bool as_tuple;
};
template <typename V = void>
auto nonzero(const Variable&, AsTupleOption) {
  static_assert(detail::kNever<V>,
                "nonzero(x, {.as_tuple = true}): type where(x), which returns the indices of each "
                "dimension");
}
/// Returns the indices of nonzero elements, one vector for each dimension; usable as index tensors
/// (ops/subscript.h).
std::vector<Variable> where(const Variable& condition, Where where = Where::current());

namespace kernels {

/// Computes y = source at the index. source is contiguous and has the shape of index; y has the
/// same shape except along dim.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Tensor& y)> scatter;
/// Combines y with source at the index, by kProd, kAmax or kAmin. On the CPU the index may be a
/// vector for all slices of source and of a contiguous y.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Reduce reduce, Tensor& y)>
    scatter_reduce;
/// Writes the row-major positions of the nonzero elements of a contiguous x. The size of positions
/// equals the number of these elements.
extern Kernel<void(const Tensor& x, Tensor& positions)> nonzero;

}  // namespace kernels
}  // namespace tapegrad
