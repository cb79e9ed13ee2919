#include "ops/sort.h"

#include <algorithm>
#include <cmath>

#include "core/base/internal/host_values.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/extent.h"
#include "ops/internal/operands.h"
#include "ops/internal/shared_choice.h"
#include "ops/internal/value_checks.h"
#include "ops/reshape.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(order) order{"sort"};
constinit decltype(searchsorted) searchsorted{"searchsorted"};

}  // namespace kernels

using namespace detail;

namespace {

/// Exchanges dim with the last dimension.
Tensor swapped(const Tensor& x, int dim) {
  StridedLayout layout = x.layout();
  std::swap(layout.shape[dim], layout.shape[x.rank() - 1]);
  std::swap(layout.strides[dim], layout.strides[x.rank() - 1]);
  return x.with_layout(layout);
}

/// Returns a contiguous matrix with the last dimension as rows.
Tensor as_rows(const Tensor& x, int64_t size) {
  const Tensor dense = x.contiguous();
  const Shape shape{size == 0 ? 0 : x.numel() / size, size};
  return dense.with_layout(contiguous_layout(shape, dense.layout().offset));
}

/// A tensor of rank 0 has one element along its only dimension.
Variable with_dimension(const Variable& x, Where where) {
  return x.rank() == 0 ? reshape(x, {1}, where) : x;
}

/// The indices of k elements in sorted order along dim, from the element `first` on.
struct Order {
  static constexpr std::string_view kName = "sort";
  static constexpr bool kDifferentiable = false;
  int64_t first, k;
  int dim;
  bool descending;

  Tensor forward(const Tensor& x) const {
    const int64_t n = x.shape()[dim];
    StridedLayout along{swapped(x, dim).shape(), {}, 0};
    along.shape[x.rank() - 1] = k;
    along.strides = contiguous_strides(along.shape);
    Tensor y = Tensor::empty(along.shape, i64, x.device());
    if (y.numel() > 0) {
      Tensor rows = as_rows(y, k);
      kernels::order(as_rows(swapped(x, dim), n), first, descending, rows);
    }
    return swapped(y, dim).contiguous();
  }
};

/// Checks dim and k; x has rank 1 or more.
Variable first_in_order(std::string_view op, const Variable& x, int64_t k, int& dim,
                        bool descending, Where where) {
  dim = normalize_dim(op, dim, x.rank());
  if (k < 0 || k > x.size(dim))
    fail<ArgumentError>(op, ": no ", k, " elements along dim ", dim, " of ", x.shape());
  return apply(Order{0, k, dim, descending}, where, x);
}

/// Returns the elements at one index each along dim, [..., 1, ...].
ValuesIndices taken(const Variable& x, const Variable& index, int dim, bool keepdim, bool number,
                    Where where) {
  const auto shaped = [&](const Variable& y) {
    return number ? reshape(y, {}, where) : keepdim ? y : squeeze(y, dim, where);
  };
  return {shaped(gather(x, dim, index, where)), shaped(index)};
}

}  // namespace

ValuesIndices sort(const Variable& input, int dim, bool descending, Where where) {
  const ErrorLine line(where);
  const Variable x = with_dimension(input, where);
  dim = normalize_dim("sort", dim, x.rank());
  const Variable order = first_in_order("sort", x, x.size(dim), dim, descending, where);
  const Variable values = gather(x, dim, order, where);
  return {reshape(values, input.shape(), where), reshape(order, input.shape(), where)};
}

Variable argsort(const Variable& input, int dim, bool descending, Where where) {
  const ErrorLine line(where);
  const Variable x = with_dimension(input, where);
  dim = normalize_dim("argsort", dim, x.rank());
  return reshape(first_in_order("argsort", x, x.size(dim), dim, descending, where), input.shape(),
                 where);
}

ValuesIndices topk(const Variable& input, int64_t k, int dim, bool largest, Where where) {
  const ErrorLine line(where);
  const Variable x = with_dimension(input, where);
  const Variable order = first_in_order("topk", x, k, dim, largest, where);
  const Variable values = gather(x, dim, order, where);
  if (input.rank() == 0 && k == 1) return {reshape(values, {}, where), reshape(order, {}, where)};
  return {values, order};
}

ValuesIndices kthvalue(const Variable& input, int64_t k, int dim, bool keepdim, Where where) {
  const ErrorLine line(where);
  const Variable x = with_dimension(input, where);
  if (k < 1) fail<ArgumentError>("kthvalue: k counts from 1, and is ", k);
  dim = normalize_dim("kthvalue", dim, x.rank());
  if (k > x.size(dim))
    fail<ArgumentError>("kthvalue: no ", k, " elements along dim ", dim, " of ", x.shape());
  return taken(x, apply(Order{k - 1, 1, dim, false}, where, x), dim, keepdim, input.rank() == 0,
               where);
}

ValuesIndices median(const Variable& input, int dim, bool keepdim, Where where) {
  const ErrorLine line(where);
  const Variable x = with_dimension(input, where);
  dim = normalize_dim("median", dim, x.rank());
  const int64_t n = x.size(dim);
  if (n == 0) fail<ArgumentError>("median: nothing to choose from in ", x.shape());
  Variable position = apply(Order{(n - 1) / 2, 1, dim, false}, where, x);
  if (is_float(x.dtype())) {  // the first NaN, if there is one
    const Variable largest = argmax(x.detach(), dim, /*keepdim=*/true, where);
    const Variable wrong = isnan(gather(x.detach(), dim, largest, where));
    position = tapegrad::where(wrong, largest, position);
  }
  return taken(x, position, dim, keepdim, input.rank() == 0, where);
}
Variable median(const Variable& x, Where where) {
  const ErrorLine line(where);
  const Variable chosen = median(reshape(x.detach(), {x.numel()}, where), 0, false, where).values;
  return apply(SharedChoice{chosen.value()}, where, x);
}

namespace {

/// Returns the values at the positions `rank`, along the last dimension of ordered rows. A position
/// between two elements is interpolated.
Variable values_at(const Variable& ordered, const Variable& rank, Interpolation interpolation,
                   Where where) {
  const auto at = [&](const Variable& position) {
    return gather(ordered, -1, position.to(i64), where);
  };
  const Variable below = floor(rank), above = ceil(rank);
  switch (interpolation) {
    case Interpolation::kLower:
      return at(below);
    case Interpolation::kHigher:
      return at(above);
    case Interpolation::kMidpoint:
      return lerp(at(below), at(above), {0.5, where});
    case Interpolation::kNearest:
      return at(round(rank));
    case Interpolation::kLinear:
      break;
  }
  const DType dtype = ordered.dtype(), fine = compute_dtype(dtype);
  return lerp(at(below).to(fine), at(above).to(fine), {(rank - below).to(fine), where}).to(dtype);
}

}  // namespace

Variable quantile(const Variable& input, const Variable& q, QuantileOptions options, Where where) {
  const ErrorLine line(where);
  require_float("quantile", input.value());
  if (q.rank() > 1) fail<ShapeError>("quantile: q is a number or a vector, not ", q.shape());
  require_value(all(logical_and(q >= 0, q <= 1)), "quantile: q is outside [0, 1]");
  const Variable x = options.dim ? with_dimension(input, where) : flatten(input, 0, -1, where);
  const int dim = normalize_dim("quantile", options.dim.value_or(0), x.rank());
  const int64_t n = x.size(dim);
  if (n == 0) fail<ArgumentError>("quantile: nothing to choose from in ", input.shape());
  // In double, which represents every position.
  Variable position = flatten(q.to(f64, where)) * double(n - 1);
  const Variable wrong = transpose(any(isnan(x), {dim}, /*keepdim=*/true), dim, -1);
  const Variable rows = transpose(x, dim, -1, where);
  // The elements in order along the last dimension: all, or those next to the only position. q's
  // dimension is appended, and moved to the front at the end.
  Variable ordered;
  const bool selects = q.numel() == 1 && context.recorder == nullptr;  // a recording has no values
  if (selects) {
    const double place = position.detach().item();
    const int64_t first = int64_t(std::floor(place)), last = int64_t(std::ceil(place));
    const Variable largest = apply(Order{n - 1, 1, x.rank() - 1, false}, where, rows),
                   next = apply(Order{first, last - first + 1, x.rank() - 1, false}, where, rows);
    ordered = gather(rows, -1, tapegrad::where(wrong, largest, next), where);
    position = position - double(first);
  } else {
    ordered = sort(rows, -1, false, where).values;
  }
  Shape shape = ordered.shape();
  shape[shape.rank() - 1] = q.numel();
  Variable rank = expand(position, shape);
  if (!selects) rank = tapegrad::where(wrong, double(n - 1), rank);
  Variable y = values_at(ordered, rank, options.interpolation, where);
  Dims to_front{y.rank() - 1};
  for (int i = 0; i < y.rank() - 1; ++i) to_front.push_back(i);
  y = permute(y, to_front, where);  // [q, ..., the dimension exchanged with dim, ...]
  // undo the exchange of dim with the last dimension
  y = transpose(unsqueeze(y, -1, where), 1 + dim, -1, where);
  if (!options.dim) {
    y = reshape(y, {q.numel()}, where);
    if (options.keepdim)
      for (int i = 0; i < input.rank(); ++i) y = unsqueeze(y, -1, where);
  } else if (!options.keepdim || input.rank() == 0) {
    y = squeeze(y, 1 + dim, where);
  }
  return q.rank() == 0 ? select(y, 0, 0, where) : y;
}
Variable quantile(const Variable& x, double q, QuantileOptions options, Where where) {
  return quantile(x, scalar(q, {.dtype = f64, .device = x.device()}), options, where);
}
Variable detail::quantile_over(const Variable& x, const Variable& q, const Dims& dims,
                               QuantileOptions options, Where where) {
  const CallLine line(where);
  const Extent extent("quantile", x.shape(), dims, options.keepdim);
  Dims order, reduced;  // kept dimensions come first
  for (int i = 0; i < x.rank(); ++i) {
    const bool is_named = std::any_of(dims.begin(), dims.end(), [&](int64_t dim) {
      return normalize_dim("quantile", dim, x.rank()) == i;
    });
    (is_named || dims.rank() == 0 ? reduced : order).push_back(i);
  }
  const int first = order.rank();
  for (int64_t dim : reduced) order.push_back(dim);
  options.dim = -1;
  options.keepdim = false;
  const Variable y = quantile(flatten(permute(x, order), first), q, options);
  Shape shape;
  if (q.rank() == 1) shape.push_back(q.numel());
  for (int64_t size : extent.to) shape.push_back(size);
  return reshape(y, shape);
}

/// Makes the result from runs of equal elements: `starts` (bool [n], n > 0) marks the first element
/// of each run in sorted order.
static Unique runs(const Variable& sorted, const Variable& order, const Variable& starts,
                   const Shape& shape) {
  const int64_t n = order.numel();
  const TensorOptions whole{.dtype = i64, .device = order.device()};
  const Variable group = cumsum(starts, 0) - 1;
  const int64_t count = host_number(select(group, 0, -1).value()).to<int64_t>() + 1;
  const auto spread = [&](int64_t size, const Variable& to, const Variable& what) {
    return scatter_add(zeros({size}, whole), 0, to, what);
  };
  const Variable first = spread(count, group, tapegrad::where(starts, arange(n, whole), 0));
  return {index_select(sorted, 0, first), reshape(spread(n, order, group), shape),
          spread(count, group, ones({n}, whole))};
}

/// Returns whether each slice differs from the previous one; true for the first slice.
static Variable starts_of(const Variable& sorted) {
  const int64_t n = sorted.size(0);
  Variable differs = ne(narrow(sorted, 0, 1, n - 1), narrow(sorted, 0, 0, n - 1));
  if (sorted.rank() > 1) differs = any(differs, {1});
  return cat({ones({1}, {.dtype = boolean, .device = sorted.device()}), differs});
}

Unique unique(const Variable& x, Where where) {
  const ErrorLine line(where);
  const NoGrad off;
  const Variable flat = reshape(x.detach(), {x.numel()}, where);
  const TensorOptions whole{.dtype = i64, .device = x.device()};
  if (x.numel() == 0) return {flat, zeros(x.shape(), whole), zeros({0}, whole)};
  const auto [sorted, order] = sort(flat, 0, false, where);
  return runs(sorted, order, starts_of(sorted), x.shape());
}

/// Returns the order of rows compared column by column.
static Variable ordered_by(const Variable& rows, Where where) {
  Variable order = arange(rows.size(0), {.dtype = i64, .device = rows.device()});
  for (int64_t column = rows.size(1) - 1; column >= 0; --column) {  // the sort is stable
    const Variable keys = index_select(select(rows, 1, column), 0, order);
    order = index_select(order, 0, argsort(keys, 0, false, where));
  }
  return order;
}

Unique unique(const Variable& x, UniqueOptions options) {
  const Where where = options.by_name.where;
  return options.dim ? unique(x, *options.dim, where) : unique(x, where);
}
Unique unique(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  const NoGrad off;
  dim = normalize_dim("unique", dim, x.rank());
  const int64_t n = x.size(dim);
  const TensorOptions whole{.dtype = i64, .device = x.device()};
  if (n == 0) return {x.detach(), zeros({0}, whole), zeros({0}, whole)};
  const Variable slices = movedim(x.detach(), {dim}, {0}, where);
  const Variable rows = reshape(slices, {n, x.numel() / n}, where);
  // Sorts by the first columns only, if these differ for all slices.
  const int64_t columns = rows.size(1);
  Variable order = arange(n, whole);
  for (int64_t count = std::min<int64_t>(1, columns); count > 0;
       count = std::min(8 * count, columns)) {
    order = ordered_by(narrow(rows, 1, 0, count), where);
    if (count == columns) break;
    const Variable keys = index_select(narrow(rows, 1, 0, count), 0, order);
    const Variable before = narrow(keys, 0, 0, n - 1), after = narrow(keys, 0, 1, n - 1);
    const Variable differ = logical_and(ne(before, after), eq(after, after));  // not by NaN
    if (host_number(all(any(differ, {1})).value()).to<bool>()) break;
  }
  const Variable sorted = index_select(rows, 0, order);
  Unique found = runs(sorted, order, starts_of(sorted), {n});
  Shape shape = slices.shape();
  shape[0] = found.counts.numel();
  found.values = clone(movedim(reshape(found.values, shape), {0}, {dim}));
  return found;
}

namespace {

struct SearchSorted {
  static constexpr std::string_view kName = "searchsorted";
  static constexpr bool kDifferentiable = false;
  bool right;

  Tensor forward(const Tensor& sorted, const Tensor& values) const {
    check_same_device(kName, sorted, values);
    bool fits = sorted.rank() == 1 || sorted.rank() == values.rank();
    for (int i = 0; fits && sorted.rank() > 1 && i < sorted.rank() - 1; ++i)
      fits = sorted.shape()[i] == values.shape()[i];
    if (!fits || sorted.rank() == 0)
      fail<ShapeError>(kName, ": sorted ", sorted.shape(), " for values ", values.shape());
    Tensor y = Tensor::empty(values.shape(), i64, values.device());
    if (y.numel() == 0) return y;
    const int64_t n = sorted.shape()[sorted.rank() - 1];
    if (n == 0) return Tensor::full(values.shape(), 0, i64, values.device());
    const int64_t m = sorted.rank() == 1 ? values.numel() : values.shape()[values.rank() - 1];
    Tensor rows = as_rows(y, m);
    kernels::searchsorted(as_rows(sorted, n), as_rows(values, m), right, rows);
    return y;
  }
};

}  // namespace

Variable searchsorted(const Variable& sorted, const Variable& values, bool right, Where where) {
  const DType dtype = promote(sorted.dtype(), values.dtype());
  return apply(SearchSorted{right}, where, sorted.to(dtype, where), values.to(dtype, where));
}

void detail::fail_out_int32(Where where) {
  const ErrorLine line(where);
  fail<ArgumentError>("searchsorted: positions are int64; out_int32 must be false");
}

void catalog_sort(Catalog& catalog) {
  using A = const Arguments&;
  static constexpr auto both = [](const ValuesIndices& y) {
    return std::vector{y.values, y.indices};
  };
  const OpTraits flat{.max_order = 0};
  catalog.add("sort(input, dim: int = -1, descending: bool = false)", "in order along dim",
              [](A a) { return both(sort(a[0], a.int32("dim"), a.flag("descending"))); });
  catalog.add(
      "argsort(input, dim: int = -1, descending: bool = false)", "the indices that sort",
      [](A a) { return argsort(a[0], a.int32("dim"), a.flag("descending")); }, flat);
  catalog.add(
      "topk(input, k: int, dim: int = -1, largest: bool = true)", "the k largest along dim",
      [](A a) { return both(topk(a[0], a.integer("k"), a.int32("dim"), a.flag("largest"))); });
  catalog.add("kthvalue(input, k: int, dim: int = -1, keepdim: bool = false)",
              "the k-th smallest along dim", [](A a) {
                return both(kthvalue(a[0], a.integer("k"), a.int32("dim"), a.flag("keepdim")));
              });
  catalog.add("median(input, dim: int = none, keepdim: bool = false)", "the middle one", [](A a) {
    return a.has("dim") ? both(median(a[0], a.int32("dim"), a.flag("keepdim")))
                        : std::vector{median(a[0])};
  });
  catalog.add(
      "quantile(input, q, dim: ints = none, keepdim: bool = false, interpolation: str = linear)",
      "the element at q (n - 1) in order", [](A a) {
        QuantileOptions options{.keepdim = a.flag("keepdim"),
                                .interpolation = a.text("interpolation")};
        const Dims dims = a.has("dim") ? a.dims("dim") : Dims();
        if (dims.rank() > 1) return quantile(a[0], a[1], dims, options);
        if (dims.rank() == 1) options.dim = int(dims[0]);
        return quantile(a[0], a[1], options);
      });
  catalog.add(
      "unique(input, dim: int = none)",
      "the different values, which each element is, and their counts; or slices along dim",
      [](A a) {
        const Unique y = a.has("dim") ? unique(a[0], a.int32("dim")) : unique(a[0]);
        return std::vector{y.values, y.inverse, y.counts};
      },
      flat);
  catalog.add(
      "searchsorted(sorted_sequence, input, right: bool = false)",
      "how many are less than each value, or not larger",
      [](A a) { return searchsorted(a[0], a[1], a.flag("right")); }, flat);
}

ValuesIndices sort(const Variable& x, SortOptions options, Where where) {
  return sort(x, options.dim, options.descending, where);
}
ValuesIndices sort(const Variable& x, int dim, SortOptions options, Where where) {
  return sort(x, dim, options.descending, where);
}
Variable argsort(const Variable& x, SortOptions options, Where where) {
  return argsort(x, options.dim, options.descending, where);
}
ValuesIndices topk(const Variable& x, int64_t k, int dim, bool largest, bool /*sorted*/,
                   Where where) {
  return topk(x, k, dim, largest, where);
}
ValuesIndices topk(const Variable& x, int64_t k, TopkOptions options, Where where) {
  return topk(x, k, options.dim, options.largest, where);
}
int64_t Unique::numel() const { return values.numel(); }
const Shape& Unique::sizes() const { return values.shape(); }
}  // namespace tapegrad
