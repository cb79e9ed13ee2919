#include "ops/statistics_composed.h"

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/scan.h"
#include "ops/scatter.h"
#include "ops/statistics.h"
#include "ops/view.h"

namespace tapegrad {

ValuesIndices mode(const Variable& x, int dim, bool keepdim, Where where) {
  const int along = x.rank() == 0 ? 0 : normalize_dim("mode", dim, x.rank());
  const int64_t n = x.rank() == 0 ? 1 : x.size(along);
  if (n == 0) fail<ShapeError>("mode: dimension ", along, " of ", x.shape(), " has no elements");
  if (x.rank() == 0) return {x, zeros({}, {.dtype = i64, .device = x.device()})};
  // The first longest run of equal elements; NaN differs from NaN.
  const auto [sorted, order] = sort(x.detach(), along);
  Shape line = Shape::filled(x.rank(), 1);
  line[along] = n;
  const Variable at = reshape(arange(n, {.dtype = i64, .device = x.device()}), line);
  const Variable equal = narrow(sorted, along, 1, n - 1) == narrow(sorted, along, 0, n - 1);
  const Variable starts = cat({zeros_like(narrow(order, along, 0, 1)),
                               tapegrad::where(equal, 0, narrow(at, along, 1, n - 1))},
                              along);
  const Variable length = at - cummax(starts, along).values;
  const Variable indices = gather(order, along, argmax(length, along, /*keepdim=*/true), where);
  const Variable y = gather(x, along, indices, where);
  if (keepdim) return {y, indices};
  return {squeeze(y, along, where), squeeze(indices, along, where)};
}

Unique unique_consecutive(const Variable& x, Where where) {
  const Variable flat = flatten(x.detach(), 0, -1, where);
  const int64_t n = flat.numel();
  if (n == 0) return {flat, zeros(x.shape(), i64), zeros({0}, i64)};
  const Variable first = ones({1}, {.dtype = boolean, .device = x.device()});
  const Variable begins =
      cat({first, narrow(flat, 0, 1, n - 1, where) != narrow(flat, 0, 0, n - 1, where)}, 0, where);
  const Variable at = flatten(nonzero(begins, where));
  const Variable end = full({1}, n, {.dtype = i64, .device = x.device()});
  return {index_select(flat, 0, at, where),
          reshape(cumsum(begins.to(i64), 0, where) - 1, x.shape(), where),
          narrow(cat({at, end}), 0, 1, at.numel()) - at};
}

Histogram histogram(const Variable& x, int64_t bins, double min, double max, Where where) {
  Variable hist = histc(x, bins, min, max, where);
  if (min == max && x.numel() > 0) {
    min = tapegrad::min(x.detach(), where).item();
    max = tapegrad::max(x.detach(), where).item();
  }
  if (min == max) min -= 0.5, max += 0.5;
  return {hist, linspace(min, max, bins + 1, {.dtype = hist.dtype(), .device = x.device()})};
}

Variable renorm(const Variable& x, double p, int dim, double maxnorm, Where where) {
  const int along = normalize_dim("renorm", dim, x.rank());
  if (x.rank() < 2) fail<ShapeError>("renorm: at least two dimensions, not ", x.shape());
  if (!(p > 0)) fail<ArgumentError>("renorm: p is ", p, ", not > 0");
  if (!(maxnorm >= 0)) fail<ArgumentError>("renorm: maxnorm is ", maxnorm, ", not >= 0");
  Dims others;
  for (int i = 0; i < x.rank(); ++i)
    if (i != along) others.push_back(i);
  const auto norms_of = [&](const Variable& rows) {
    return norm(rows, p, others, /*keepdim=*/true, where);
  };
  const Variable is_long = norms_of(x.detach()) > maxnorm;
  // The norms of the other rows receive no gradient, which would be NaN if an element is.
  const Variable norms = norms_of(tapegrad::where(is_long, x, 1.0));
  const Variable scale = tapegrad::where(is_long, maxnorm / (norms + 1e-7), 1.0);
  return x * scale;
}

std::vector<Variable> gradient(const Variable& y, double spacing, const Dims& dims, int edge_order,
                               Where where) {
  const CallLine line(where);
  if (edge_order != 1 && edge_order != 2)
    fail<ArgumentError>("gradient: edge_order is ", edge_order, ", not 1 or 2");
  if (!is_float(y.dtype()))
    return gradient(y.to(default_dtype()), spacing, dims, edge_order, where);
  Dims along = dims;
  if (along.rank() == 0)
    for (int dim = 0; dim < y.rank(); ++dim) along.push_back(dim);
  std::vector<Variable> slopes;
  for (const int64_t given : along) {
    const int dim = normalize_dim("gradient", int(given), y.rank());
    const int64_t n = y.size(dim);
    if (n <= edge_order)
      fail<ArgumentError>("gradient: dimension ", dim, " has ", n, " elements, which is too few");
    const auto at = [&](int64_t first, int64_t count) { return narrow(y, dim, first, count); };
    const auto end = [&](int64_t first, int64_t step) {  // step -1 mirrors the formula
      const Variable near = at(first + step, 1) - at(first, 1);
      const Variable slope =
          edge_order == 1 ? near : 2 * near - (at(first + 2 * step, 1) - at(first, 1)) / 2;
      return slope * double(step);
    };
    const Variable inside = (at(2, n - 2) - at(0, n - 2)) / 2;
    slopes.push_back(cat({end(0, 1), inside, end(n - 1, -1)}, dim) / spacing);
  }
  return slopes;
}

Variable Histogram::operator[](int part) const { return detail::part_at(*this, part); }
Histogram histogram(const Variable& x, int64_t bins, HistogramOptions options, Where where) {
  return histogram(x, bins, options.range.first, options.range.second, where);
}
}  // namespace tapegrad
