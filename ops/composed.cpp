#include "ops/composed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/base/error.h"
#include "core/base/output.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/aliases.h"
#include "ops/arrange.h"
#include "ops/distance.h"
#include "ops/einsum.h"
#include "ops/fft.h"
#include "ops/random.h"
#include "ops/scan.h"
#include "ops/settings.h"

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

void detail::print_line(const std::string& text) { standard_output() << text << std::endl; }

Shape broadcast_shapes(const Shape& a, const Shape& b, Where where) {
  const ErrorLine line(where);
  return broadcast("broadcast_shapes", a, b);
}

PcaLowrank pca_lowrank(const Variable& x, std::optional<int64_t> q, bool center, Where where) {
  const CallLine line(where);
  if (x.rank() != 2) fail<ShapeError>("pca_lowrank: a matrix wanted, not ", x.shape());
  const int64_t most = std::min(x.size(0), x.size(1)),
                wanted = q.value_or(std::min(most, int64_t(6)));
  if (wanted < 0 || wanted > most)
    fail<ArgumentError>("pca_lowrank: q is ", wanted, ", not from 0 to ", most);
  const auto [u, s, vh] = linalg::svd(center ? x - mean(x, 0, /*keepdim=*/true) : x, false);
  return {narrow(u, 1, 0, wanted), narrow(s, 0, 0, wanted), t(narrow(vh, 0, 0, wanted))};
}

Variable renorm(const Variable& x, double p, int dim, double maxnorm, Where where) {
  const int along = normalize_dim("renorm", dim, x.rank());
  if (x.rank() < 2) fail<ShapeError>("renorm: at least two dimensions, not ", x.shape());
  if (!(p > 0)) fail<ArgumentError>("renorm: p is ", p, ", not > 0");
  if (!(maxnorm >= 0)) fail<ArgumentError>("renorm: maxnorm is ", maxnorm, ", not >= 0");
  Dims others;
  for (int i = 0; i < x.rank(); ++i)
    if (i != along) others.push_back(i);
  const Variable norms = norm(x, p, others, /*keepdim=*/true, where);
  const Variable scale = tapegrad::where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0);
  return x * scale;
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
  // Element i may be at most n - 1 - (r - 1 - i) step, so that those behind it have a place.
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

Histogram histogram(const Variable& x, int64_t bins, double min, double max, Where where) {
  Variable hist = histc(x, bins, min, max, where);
  if (min == max && x.numel() > 0) {
    min = tapegrad::min(x.detach(), where).item();
    max = tapegrad::max(x.detach(), where).item();
  }
  if (min == max) min -= 0.5, max += 0.5;
  return {hist, linspace(min, max, bins + 1, {.dtype = hist.dtype(), .device = x.device()})};
}

namespace {

/// a0 - a1 cos(2 pi i / period) + a2 cos(4 pi i / period).
Variable cosine_window(int64_t n, bool periodic, double a0, double a1, double a2,
                       const TensorOptions& options) {
  if (n < 0) fail<ArgumentError>("window: the length is negative: ", n);
  const double period = double(periodic || n == 1 ? n : n - 1);
  const TensorOptions wide{.dtype = f64, .device = options.device};
  const Variable angle = arange(0.0, double(n), 1.0, wide) * (2 * std::numbers::pi / period);
  Variable window = a0 - a1 * cos(angle) + a2 * cos(2 * angle);
  if (n == 1) window = ones({1}, wide);
  return window.to(options.dtype.value_or(default_dtype())).requires_grad_(options.requires_grad);
}

}  // namespace

Variable hann_window(int64_t n, bool periodic, TensorOptions options) {
  const ErrorLine line(options.where);
  return cosine_window(n, periodic, 0.5, 0.5, 0, options);
}
Variable hamming_window(int64_t n, bool periodic, TensorOptions options) {
  const ErrorLine line(options.where);
  return cosine_window(n, periodic, 0.54, 0.46, 0, options);
}
Variable blackman_window(int64_t n, bool periodic, TensorOptions options) {
  const ErrorLine line(options.where);
  return cosine_window(n, periodic, 0.42, 0.5, 0.08, options);
}
Variable kaiser_window(int64_t n, bool periodic, double beta, TensorOptions options) {
  const ErrorLine line(options.where);
  if (n < 0) fail<ArgumentError>("window: the length is negative: ", n);
  if (!(std::abs(beta) <= 700))  // the limit of I0 in double
    fail<ArgumentError>("kaiser_window: beta is ", beta, ", not within 700 of 0");
  if (n == 1) return ones({1}, options);
  const double half = double(periodic ? n : n - 1) / 2, size = std::abs(beta);
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) {
    const double t = (double(i) - half) / half;
    values.push_back(std::cyl_bessel_i(0.0, size * std::sqrt(std::max(0.0, 1 - t * t))) /
                     std::cyl_bessel_i(0.0, size));
  }
  const Variable window = tensor(values, {.dtype = f64, .device = options.device});
  return window.to(options.dtype.value_or(default_dtype())).requires_grad_(options.requires_grad);
}
Variable bartlett_window(int64_t n, bool periodic, TensorOptions options) {
  const ErrorLine line(options.where);
  if (n < 0) fail<ArgumentError>("window: the length is negative: ", n);
  if (n == 1) return ones({1}, options);
  const double half = double(periodic ? n : n - 1) / 2;
  const TensorOptions wide{.dtype = f64, .device = options.device};
  Variable window = 1 - abs(arange(0.0, double(n), 1.0, wide) / half - 1);
  return window.to(options.dtype.value_or(default_dtype())).requires_grad_(options.requires_grad);
}

Variable fft::fftfreq(int64_t n, double d, TensorOptions options) {
  const ErrorLine line(options.where);
  if (n < 1) fail<ArgumentError>("fft.fftfreq: n is ", n, ", not at least 1");
  const TensorOptions wide{.dtype = f64, .device = options.device};
  const Variable i = arange(0.0, double(n), 1.0, wide);
  const Variable half = tapegrad::where(i < double((n + 1) / 2), i, i - double(n));
  return (half / (double(n) * d)).to(options.dtype.value_or(default_dtype()));
}
Variable fft::rfftfreq(int64_t n, double d, TensorOptions options) {
  const ErrorLine line(options.where);
  if (n < 1) fail<ArgumentError>("fft.rfftfreq: n is ", n, ", not at least 1");
  const TensorOptions wide{.dtype = f64, .device = options.device};
  return (arange(0.0, double(n / 2 + 1), 1.0, wide) / (double(n) * d))
      .to(options.dtype.value_or(default_dtype()));
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

std::vector<Variable> unravel_index(const Variable& positions, const Shape& shape, Where where) {
  const CallLine line(where);
  if (is_float(positions.dtype()) || positions.dtype() == boolean)
    fail<DTypeError>("unravel_index: positions of ", positions.dtype());
  const NoGrad off;
  Variable rest = positions.to(i64);
  const int64_t size = numel(shape);
  if (rest.numel() > 0 && any(logical_or(lt(rest, 0), ge(rest, size))).item<bool>(where))
    fail<IndexError>("unravel_index: positions outside of ", shape, ", which has ", size,
                     " elements");
  std::vector<Variable> coordinates(shape.size());
  for (size_t i = shape.size(); i-- > 0; rest = floor_divide(rest, shape[int(i)]))
    coordinates[i] = remainder(rest, shape[int(i)]);
  return coordinates;
}

Variable bilinear(const Variable& x1, const Variable& x2, const Variable& weight,
                  const Variable& bias, Where where) {
  Variable y = einsum("...i,oij,...j->...o", {x1, weight, x2}, where);
  return bias.defined() ? add({y, where}, {bias, where}) : y;
}

Variable rrelu(const Variable& x, double lower, double upper, bool training,
               RandomGenerator& generator, Where where) {
  if (!(lower <= upper))
    fail<ArgumentError>("rrelu: lower ", lower, " is not at most upper ", upper);
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  const Variable slope = training ? lower + (upper - lower) * rand(x.shape(), like, generator)
                                  : full({}, (lower + upper) / 2, like);
  return tapegrad::where(x >= 0, {x, where}, x * slope);
}

Variable pdist(const Variable& x, double p, Where where) {
  if (x.rank() != 2) fail<ShapeError>("pdist: a matrix of rows, not ", x.shape());
  const int64_t n = x.size(0);
  if (p == 1 || p == 2 || p == std::numeric_limits<double>::infinity()) {  // cdist has kernels
    std::vector<int64_t> pairs;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = i + 1; k < n; ++k) pairs.push_back(i * n + k);
    const Variable all = reshape(cdist(x, x, p, where), {n * n}, where);
    return index_select(all, 0, tensor(pairs).to(x.device()), where);
  }
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = i + 1; k < n; ++k) {
      first.push_back(i);
      second.push_back(k);
    }
  const auto rows = [&](const std::vector<int64_t>& indices) {
    return index_select(x, 0, tensor(indices).to(x.device()), where);
  };
  return norm(rows(first) - rows(second), p, -1, false, where);
}

Variable cholesky_inverse(const Variable& factor, bool upper, Where where) {
  if (factor.rank() < 2 || factor.size(-1) != factor.size(-2))
    fail<ShapeError>("cholesky_inverse: square matrices, not ", factor.shape());
  const Variable l = upper ? transpose(triu(factor), -2, -1, where) : tril(factor);
  const Variable inverse = linalg::inv(l, where);
  return matmul(transpose(inverse, -2, -1, where), inverse, where);
}

Variable linalg::vecdot(const Variable& a, const Variable& b, int dim, Where where) {
  return sum(mul({a, where}, {b, where}), dim, false, where);
}
Variable linalg::cond(const Variable& x, Where where) {
  const Variable s = linalg::svdvals(x, where);
  return amax(s, -1, false, where) / amin(s, -1, false, where);
}
Variable linalg::matrix_rank(const Variable& x, std::optional<double> rtol, Where where) {
  const Variable s = linalg::svdvals(x.detach(), where);
  if (s.size(-1) == 0) return sum(s.to(i64), -1, false, where);
  const double share =
      rtol.value_or(finfo(x.dtype()).eps * double(std::max(x.size(-1), x.size(-2))));
  return sum((s > amax(s, -1, true, where) * share).to(i64), -1, false, where);
}

Variable entr(const Variable& x, Where where) {
  const double low = -std::numeric_limits<double>::infinity();
  return tapegrad::where(x < 0, low, -xlogy({x, where}, {x, where}));
}
Variable ndtr(const Variable& x, Where where) {
  return 0.5 * erfc(x * -std::numbers::sqrt2 / 2, where);
}

namespace {

struct Ndtri {
  static constexpr std::string_view kName = "ndtri";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }

  Tensor forward(const Tensor& x) {
    const Variable p = Variable(x).to(f64), tail = minimum(p, 1.0 - p), log_tail = log(tail);
    // Newton's method for log(ndtr(y)) = log(tail), which is concave. It starts with the first
    // terms of the asymptotic series, or near the middle with the inverse of erf.
    const Variable square = -2.0 * log_tail;
    const Variable far = -sqrt(square - log(square) - std::log(2 * std::numbers::pi));
    const Variable near = std::numbers::sqrt2 * erfinv(2.0 * tail - 1.0);
    Variable y = tapegrad::where(tail < 0.02, far, near);
    for (int i = 0; i < 4; ++i) {
      const Variable value = ndtr(y), density = exp(-0.5 * y * y) / kRootTwoPi;
      const Variable step = (log(value) - log_tail) * (value / density);
      y = tapegrad::where(isfinite(step), y - step, y);
    }
    y = tapegrad::where(tail == 0.0, -std::numeric_limits<double>::infinity(), y);
    return tapegrad::where(p > 0.5, -y, y).value().to(x.dtype());
  }
  Variable backward(const Variable& dy) const { return dy * (kRootTwoPi * exp(0.5 * y() * y())); }

 private:
  static constexpr double kRootTwoPi = std::numbers::sqrt2 / std::numbers::inv_sqrtpi;
};

}  // namespace

Variable ndtri(const Variable& x, Where where) {
  return apply(Ndtri{}, where, is_float(x.dtype()) ? x : x.to(default_dtype(), where));
}
Variable mvlgamma(const Variable& x, int64_t p, Where where) {
  if (p < 1 || p > 1024) fail<ArgumentError>("mvlgamma: p is ", p, ", not in [1, 1024]");
  Variable y = lgamma(x, where);
  for (int64_t i = 1; i < p; ++i) y = y + lgamma(x - double(i) / 2, where);
  return y + double(p) * double(p - 1) / 4 * std::log(std::numbers::pi);
}

}  // namespace tapegrad
