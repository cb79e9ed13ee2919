#include "nn/distributions/vector_transforms.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/diagonal.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/scan.h"
#include "ops/softmax.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {

Variable AbsTransform::operator()(const Variable& x) const { return abs(x); }
Variable AbsTransform::inv(const Variable& y) const { return y; }
Variable SoftmaxTransform::operator()(const Variable& x) const { return softmax(x, -1); }
Variable SoftmaxTransform::inv(const Variable& y) const { return log(y); }

namespace {

/// Returns x minus the log of the number of elements that follow in the result: the logits of the
/// share of each element.
Variable logits_of_shares(const Variable& x) { return x - log(arange(x.size(-1), 0, -1, like(x))); }

}  // namespace

Variable StickBreakingTransform::operator()(const Variable& x) const {
  const Variable shares = logits_of_shares(x), left = cumsum(logsigmoid(-shares), -1);
  const Variable none = zeros_like(narrow(left, -1, 0, 1));
  return exp(cat({logsigmoid(shares), none}, -1) + cat({none, left}, -1));
}
Variable StickBreakingTransform::inv(const Variable& y) const {
  const int64_t n = y.size(-1) - 1;
  const Variable left = narrow(flip(cumsum(flip(y, {-1}), -1), {-1}), -1, 1, n);
  return log(narrow(y, -1, 0, n)) - log(left) + log(arange(n, 0, -1, like(y)));
}
Variable StickBreakingTransform::log_abs_det_jacobian(const Variable& x, const Variable& y) const {
  return sum(logsigmoid(-logits_of_shares(x)) + log(narrow(y, -1, 0, x.size(-1))), -1);
}

namespace {

/// Returns the positions in a flat matrix [d, d] of the elements below the given diagonal.
Variable positions_below(int64_t d, int64_t diagonal, Device device) {
  std::vector<int64_t> positions;
  for (int64_t row = 0; row < d; ++row)
    for (int64_t column = 0; column <= row + diagonal; ++column)
      positions.push_back(row * d + column);
  return tensor(positions, {.dtype = i64, .device = device});
}
/// Returns the elements below a diagonal of matrices [..., d, d], row by row.
Variable below(const Variable& x, int64_t diagonal) {
  const Variable flat = flatten(x, -2, -1);
  return index_select(flat, -1, positions_below(x.size(-1), diagonal, x.device()));
}
/// Returns matrices [..., d, d] of zeros with d (d - 1) / 2 numbers below the main diagonal.
Variable lower_of(const Variable& x) {
  const auto n = double(x.size(-1));
  const auto d = int64_t(std::lround((1 + std::sqrt(1 + 8 * n)) / 2));
  if (d * (d - 1) / 2 != x.size(-1))
    fail<ShapeError>("CorrCholeskyTransform: ", x.size(-1), " elements, not d (d - 1) / 2");
  std::vector<int64_t> from(size_t(d * d), x.size(-1));  // an appended zero
  int64_t next = 0;
  for (int64_t row = 0; row < d; ++row)
    for (int64_t column = 0; column < row; ++column) from[size_t(row * d + column)] = next++;
  Shape one = x.shape();
  one[one.rank() - 1] = 1;
  const Variable padded = cat({x, zeros(one, like(x))}, -1);
  const Variable index = tensor(from, {.dtype = i64, .device = x.device()});
  return unflatten(index_select(padded, -1, index), -1, {d, d});
}
/// Returns the sum of the squares of the elements before each element of the rows.
Variable squares_before(const Variable& y) { return cumsum(square(y), -1) - square(y); }

}  // namespace

Variable CorrCholeskyTransform::operator()(const Variable& x) const {
  const Variable lower = lower_of(tanh(x));
  const Variable ones_on_diagonal = lower + eye(lower.size(-1), like(x));
  const Variable left = cumprod(sqrt(1.0 - square(lower)), -1);  // after each element of a row
  const Variable first = ones_like(narrow(left, -1, 0, 1));
  return ones_on_diagonal * cat({first, narrow(left, -1, 0, left.size(-1) - 1)}, -1);
}
Variable CorrCholeskyTransform::inv(const Variable& y) const {
  return atanh(below(y, -1) / sqrt(1.0 - below(squares_before(y), -1)));
}
Variable CorrCholeskyTransform::log_abs_det_jacobian(const Variable& x, const Variable& y) const {
  const Variable of_rows = 0.5 * sum(log(1.0 - below(cumsum(square(y), -1), -2)), -1);
  return of_rows - 2.0 * sum(x + softplus(-2.0 * x) - std::numbers::ln2, -1);
}

Variable LowerCholeskyTransform::operator()(const Variable& x) const {
  return tril(x, -1) + diag_embed(exp(diagonal(x, 0, -2, -1)));
}
Variable LowerCholeskyTransform::inv(const Variable& y) const {
  return tril(y, -1) + diag_embed(log(diagonal(y, 0, -2, -1)));
}
Variable PositiveDefiniteTransform::operator()(const Variable& x) const {
  const Variable factor = LowerCholeskyTransform()(x);
  return matmul(factor, factor.mT());
}
Variable PositiveDefiniteTransform::inv(const Variable& y) const {
  return LowerCholeskyTransform().inv(linalg::cholesky(y));
}

Variable CumulativeDistributionTransform::operator()(const Variable& x) const {
  return distribution->cdf(x);
}
Variable CumulativeDistributionTransform::inv(const Variable& y) const {
  return distribution->icdf(y);
}
Variable CumulativeDistributionTransform::log_abs_det_jacobian(const Variable& x,
                                                               const Variable&) const {
  return distribution->log_prob(x);
}

IndependentTransform::IndependentTransform(const Transforms& base, int ndims, Where where)
    : base_(base), ndims_(ndims) {
  const ErrorLine line(where);
  if (ndims < 0) fail<ArgumentError>("IndependentTransform: ", ndims, " dimensions");
}
Variable IndependentTransform::operator()(const Variable& x) const { return base_(x); }
Variable IndependentTransform::inv(const Variable& y) const { return base_.inv(y); }
Variable IndependentTransform::log_abs_det_jacobian(const Variable& x, const Variable& y) const {
  return sum_last(base_.log_abs_det_jacobian(x, y), ndims_);
}
Variable IndependentTransform::sign() const { return base_.sign(); }
int IndependentTransform::domain_rank() const { return base_.domain_rank() + ndims_; }
int IndependentTransform::codomain_rank() const { return base_.codomain_rank() + ndims_; }

namespace {

/// Returns the sizes of x before its last dimensions, followed by `to`. Throws ShapeError unless
/// the last sizes of x are `from`.
Shape with_last(const Variable& x, const Shape& from, const Shape& to) {
  const int before = x.rank() - from.rank();
  Shape batch, last;
  for (int i = 0; i < x.rank(); ++i) (i < before ? batch : last).push_back(x.size(i));
  if (before < 0 || last != from)
    fail<ShapeError>("ReshapeTransform: ", x.shape(), " does not end with ", from);
  return joined(batch, to);
}

}  // namespace

ReshapeTransform::ReshapeTransform(const Shape& from, const Shape& to, Where where)
    : in_shape(from), out_shape(to) {
  const ErrorLine line(where);
  if (numel(from) != numel(to))
    fail<ShapeError>("ReshapeTransform: ", from, " and ", to, " have other numbers of elements");
}
Variable ReshapeTransform::operator()(const Variable& x) const {
  return reshape(x, with_last(x, in_shape, out_shape));
}
Variable ReshapeTransform::inv(const Variable& y) const {
  return reshape(y, with_last(y, out_shape, in_shape));
}
Variable ReshapeTransform::log_abs_det_jacobian(const Variable& x, const Variable&) const {
  return zeros(with_last(x, in_shape, {}), like(x));
}
int ReshapeTransform::domain_rank() const { return in_shape.rank(); }
int ReshapeTransform::codomain_rank() const { return out_shape.rank(); }

namespace {

int largest_domain_rank(const Transforms& parts) {
  int rank = 0;
  for (const auto& [part] : parts.list()) rank = std::max(rank, part->domain_rank());
  return rank;
}

}  // namespace

CatTransform::CatTransform(const Transforms& parts, int dim, const Shape& lengths, Where where)
    : parts_(parts), dim_(dim), lengths_(lengths) {
  const ErrorLine line(where);
  const auto count = int(parts.list().size());
  if (count == 0) fail<ArgumentError>("CatTransform: no transforms");
  if (lengths.rank() == 0) lengths_ = Dims::filled(count, 1);
  if (lengths_.rank() != count)
    fail<ArgumentError>("CatTransform: ", lengths.rank(), " lengths of ", count, " transforms");
}
template <typename F>
std::vector<Variable> CatTransform::map(const Variable& x, const F& f) const {
  int64_t total = 0;
  for (const int64_t length : lengths_) total += length;
  if (total != x.size(dim_))
    fail<ShapeError>("CatTransform: lengths of ", total, " for dimension ", dim_, " of ",
                     x.shape());
  std::vector<Variable> results;
  int64_t start = 0;
  int i = 0;
  for (const auto& [part] : parts_.list()) {
    results.push_back(f(*part, start, lengths_[i]));
    start += lengths_[i++];
  }
  return results;
}
Variable CatTransform::operator()(const Variable& x) const {
  const auto apply = [&](const Transform& part, int64_t start, int64_t length) {
    return part(narrow(x, dim_, start, length));
  };
  return cat(map(x, apply), dim_);
}
Variable CatTransform::inv(const Variable& y) const {
  const auto invert = [&](const Transform& part, int64_t start, int64_t length) {
    return part.inv(narrow(y, dim_, start, length));
  };
  return cat(map(y, invert), dim_);
}
Variable CatTransform::log_abs_det_jacobian(const Variable& x, const Variable& y) const {
  const std::vector<Variable> parts =
      map(x, [&](const Transform& part, int64_t start, int64_t length) {
        const Variable of = part.log_abs_det_jacobian(narrow(x, dim_, start, length),
                                                      narrow(y, dim_, start, length));
        return sum_last(of, domain_rank() - part.domain_rank());
      });
  const int from_end = (dim_ < 0 ? dim_ : dim_ - x.rank()) + domain_rank();
  if (from_end < 0) return cat(parts, from_end);
  return sum(stack(parts), 0);  // dim is a dimension of one value
}
int CatTransform::domain_rank() const { return largest_domain_rank(parts_); }

StackTransform::StackTransform(const Transforms& parts, int dim) : parts_(parts), dim_(dim) {}
template <typename F>
Variable StackTransform::map(const Variable& x, const F& f) const {
  const auto count = int64_t(parts_.list().size());
  if (count == 0 || count != x.size(dim_))
    fail<ShapeError>("StackTransform: ", count, " transforms for dimension ", dim_, " of ",
                     x.shape());
  std::vector<Variable> results;
  for (const auto& [part] : parts_.list()) results.push_back(f(*part, int64_t(results.size())));
  return stack(results, dim_);
}
Variable StackTransform::operator()(const Variable& x) const {
  return map(x, [&](const Transform& part, int64_t i) { return part(select(x, dim_, i)); });
}
Variable StackTransform::inv(const Variable& y) const {
  return map(y, [&](const Transform& part, int64_t i) { return part.inv(select(y, dim_, i)); });
}
Variable StackTransform::log_abs_det_jacobian(const Variable& x, const Variable& y) const {
  return map(x, [&](const Transform& part, int64_t i) {
    return part.log_abs_det_jacobian(select(x, dim_, i), select(y, dim_, i));
  });
}
int StackTransform::domain_rank() const { return largest_domain_rank(parts_); }

}  // namespace tapegrad::distributions
