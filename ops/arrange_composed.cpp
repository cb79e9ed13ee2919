#include "ops/arrange_composed.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/index.h"
#include "ops/internal/value_checks.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

Variable squeeze(const Variable& x, const Dims& dims, Where where) {
  const ErrorLine line(where);
  std::vector<bool> is_given(size_t(std::max(x.rank(), 1)));
  for (const int64_t given : dims) {
    const auto dim = size_t(normalize_dim("squeeze", int(given), int(is_given.size())));
    if (is_given[dim]) fail<ArgumentError>("squeeze: dimension ", dim, " is given twice");
    is_given[dim] = true;
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i)
    if (!is_given[size_t(i)] || x.shape()[i] != 1) shape.push_back(x.shape()[i]);
  return reshape(x, shape, where);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, Where where) {
  const ErrorLine line(where);
  return broadcast("broadcast_shapes", a, b);
}

std::vector<Variable> unravel_index(const Variable& positions, const Shape& shape, Where where) {
  const CallLine line(where);
  if (is_float(positions.dtype()) || positions.dtype() == boolean)
    fail<DTypeError>("unravel_index: positions of ", positions.dtype());
  const NoGrad off;
  Variable rest = positions.to(i64);
  const int64_t size = numel(shape);
  if (rest.numel() > 0)
    detail::check_values(any(logical_or(lt(rest, 0), ge(rest, size))).value(),
                         [shape, size](const Tensor& is_outside) {
                           if (is_outside.item() != 0)
                             fail<IndexError>("unravel_index: positions outside of ", shape,
                                              ", which has ", size, " elements");
                         });
  std::vector<Variable> coordinates(shape.size());
  for (size_t i = shape.size(); i-- > 0; rest = floor_divide(rest, shape[int(i)]))
    coordinates[i] = remainder(rest, shape[int(i)]);
  return coordinates;
}

Variable combinations(const Variable& x, int64_t r, bool with_replacement, Where where) {
  if (x.rank() != 1) fail<ShapeError>("combinations: a vector, not ", x.shape());
  if (r < 0) fail<ArgumentError>("combinations: r is ", r);
  const int64_t n = x.numel(), step = with_replacement ? 0 : 1;
  const bool is_empty = r == 0 || n == 0 || (step == 1 && r > n);
  // The number of subsets is the number of ways to choose r of `of`.
  const double of = double(n) + (step == 0 ? double(r) - 1 : 0);
  const double log_count =
      std::lgamma(of + 1) - std::lgamma(double(r) + 1) - std::lgamma(of - double(r) + 1);
  if (!is_empty && log_count + std::log(double(r)) > std::log(1e9))
    fail<ArgumentError>("combinations: more than 1e9 elements, of ", n, " for r = ", r);
  std::vector<int64_t> positions, now(is_empty ? 0 : size_t(r), 0);
  for (size_t i = 0; i < now.size(); ++i) now[i] = int64_t(i) * step;
  // Element i is at most n - 1 - (r - 1 - i) step, so that later elements are below n.
  const auto most = [&](int64_t i) { return n - 1 - (r - 1 - i) * step; };
  bool is_valid = !is_empty;
  while (is_valid) {
    positions.insert(positions.end(), now.begin(), now.end());
    int64_t i = r - 1;
    while (i >= 0 && now[i] == most(i)) --i;
    is_valid = i >= 0;
    if (!is_valid) break;
    ++now[i];
    for (int64_t k = i + 1; k < r; ++k) now[k] = now[k - 1] + step;
  }
  const auto rows = r == 0 ? 0 : int64_t(positions.size()) / r;
  const Variable index = Variable(Tensor::from<int64_t>(positions, {rows * r})).to(x.device());
  return reshape(index_select(x, 0, index, where), {rows, r}, where);
}

}  // namespace tapegrad
