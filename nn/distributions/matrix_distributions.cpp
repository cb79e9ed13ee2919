#include "nn/distributions/matrix_distributions.h"

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "nn/distributions/gamma_distributions.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "nn/distributions/internal/gamma_sample.h"
#include "ops/arithmetic.h"
#include "ops/diagonal.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/special.h"
#include "ops/special_composed.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

Variable diagonal_of(const Variable& matrix) { return diagonal(matrix, 0, -2, -1); }
/// Returns the log of the determinant of L L^T.
Variable log_det_of(const Variable& l) { return 2.0 * sum(log(diagonal_of(l)), -1); }
Variable as_matrices(const Variable& x) { return unsqueeze(unsqueeze(x, -1), -1); }

}  // namespace

LowRankMultivariateNormal::LowRankMultivariateNormal(const Variable& location,
                                                     const Variable& factor,
                                                     const Variable& diagonal, Where where)
    : Distribution("LowRankMultivariateNormal", {location}),
      loc(location),
      cov_factor(factor),
      cov_diag(diagonal) {
  const ErrorLine line(where);
  if (loc.rank() < 1 || cov_factor.rank() < 2 || cov_diag.rank() < 1 ||
      cov_factor.size(-2) != loc.size(-1) || cov_diag.size(-1) != loc.size(-1))
    fail<ShapeError>(kind(), ": a location of ", loc.shape(), " for a factor of ",
                     cov_factor.shape(), " and a diagonal of ", cov_diag.shape());
  require(kind(), "cov_diag > 0", cov_diag > 0, {cov_diag});
  const Variable scaled = cov_factor / unsqueeze(cov_diag, -1);
  const Variable identity = eye(cov_factor.size(-1), like(cov_factor));
  capacitance_tril_ = linalg::cholesky(matmul(cov_factor.mT(), scaled) + identity);
}
Shape LowRankMultivariateNormal::value_shape() const {
  const NoGrad no_grad;
  return (loc + cov_diag + sum(cov_factor, -1)).shape();
}
Variable LowRankMultivariateNormal::covariance_matrix() const {
  return matmul(cov_factor, cov_factor.mT()) + diag_embed(cov_diag);
}
Variable LowRankMultivariateNormal::log_det() const {
  return log_det_of(capacitance_tril_) + sum(log(cov_diag), -1);
}
Variable LowRankMultivariateNormal::log_prob_at(const Variable& value) const {
  // By Woodbury's identity, the inverse of W W^T + D is D^-1 - D^-1 W C^-1 W^T D^-1.
  const Variable difference = value - loc, scaled = difference / cov_diag;
  const Variable projected = matmul(cov_factor.mT(), unsqueeze(scaled, -1));
  const Variable z = linalg::solve_triangular(capacitance_tril_, projected, {.upper = false});
  const Variable distance = sum(difference * scaled, -1) - sum(square(z), {-2, -1});
  return -0.5 * (distance + log_det() + double(loc.size(-1)) * kLogTwoPi);
}
Variable LowRankMultivariateNormal::entropy() const {
  return 0.5 * (log_det() + double(loc.size(-1)) * (1 + kLogTwoPi)) +
         sum(zeros(value_shape(), like(loc)), -1);
}
Variable LowRankMultivariateNormal::mean() const { return expand(loc, value_shape()); }
Variable LowRankMultivariateNormal::mode() const { return mean(); }
Variable LowRankMultivariateNormal::variance() const {
  return expand(sum(square(cov_factor), -1) + cov_diag, value_shape());
}
Variable LowRankMultivariateNormal::draw_differentiably(const Shape& sample_shape,
                                                        RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, value_shape());
  Shape of_factor = shape;
  of_factor[of_factor.rank() - 1] = cov_factor.size(-1);
  const Variable common = unsqueeze(randn(of_factor, like(loc), generator), -1);
  return loc + squeeze(matmul(cov_factor, common), -1) +
         sqrt(cov_diag) * randn(shape, like(loc), generator);
}

Wishart::Wishart(FromFactor, const Parameter& degrees, const Variable& factor)
    : Distribution("Wishart", {factor}), df(as_variable(degrees)), scale_tril(factor) {
  const ErrorLine line(degrees.where());
  require(kind(), "df > d - 1 for matrices [d, d]", df > double(size() - 1), {df});
}
Wishart::Wishart(const Parameter& degrees, const MultivariateNormal::Options& options)
    : Wishart(FromFactor(), degrees, MultivariateNormal::factor_of("Wishart", options)) {}
Wishart::Wishart(const Parameter& degrees, const Variable& covariance, Where where)
    : Wishart(degrees, {.by_name = {where}, .covariance_matrix = covariance}) {}
Variable Wishart::covariance() const { return matmul(scale_tril, scale_tril.mT()); }
Variable Wishart::log_det() const { return log_det_of(scale_tril); }
Variable Wishart::mean() const { return as_matrices(df) * covariance(); }
Variable Wishart::mode() const {
  const Variable factor = df - double(size() + 1);
  return as_matrices(where(factor > 0, factor, NAN)) * covariance();
}
Variable Wishart::variance() const {
  const Variable v = covariance(), roots = diagonal_of(v);
  return as_matrices(df) * (square(v) + unsqueeze(roots, -1) * unsqueeze(roots, -2));
}
Variable Wishart::entropy() const {
  const int64_t d = size();
  const auto p = double(d);
  const Variable half = unsqueeze(0.5 * df, -1) - 0.5 * arange(d, like(df));
  return 0.5 * (p + 1) * (p * std::log(2.0) + log_det()) + mvlgamma(0.5 * df, d) -
         0.5 * (df - (p + 1)) * sum(digamma(half), -1) + 0.5 * p * df;
}
Variable Wishart::log_prob_at(const Variable& value) const {
  const auto p = double(size());
  const auto [sign, log_det_of_value] = linalg::slogdet(value);
  const auto solve = [&](const Variable& x) {
    return linalg::solve_triangular(scale_tril, x, {.upper = false});
  };
  const Variable trace = sum(diagonal_of(solve(solve(value).mT())), -1);
  const Variable logs = 0.5 * (df - (p + 1)) * log_det_of_value - 0.5 * trace -
                        0.5 * df * (p * std::log(2.0) + log_det()) - mvlgamma(0.5 * df, size());
  return where(sign <= 0, -INFINITY, logs);
}
Variable Wishart::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  // Bartlett's decomposition: A A^T for the roots of Chi2(df - i) on the diagonal of A, and normal
  // numbers below it.
  const Shape shape = joined(sample_shape, mean().shape());
  const Variable half = unsqueeze(0.5 * df, -1) - 0.5 * arange(size(), like(df));
  const Variable normals = tril(randn(shape, like(scale_tril), generator), -1);
  const Variable squares = 2.0 * rsample_gamma(expand(half, sum(normals, -1).shape()), generator);
  const Variable factor = matmul(scale_tril, normals + diag_embed(sqrt(squares)));
  return matmul(factor, factor.mT());
}

LKJCholesky::LKJCholesky(int64_t dim, const Parameter& eta)
    : Distribution("LKJCholesky", {eta}), dim(dim), concentration(as_variable(eta)) {
  const ErrorLine line(eta.where());
  if (dim < 2) fail<ArgumentError>(kind(), ": matrices [", dim, ", ", dim, "]; at least [2, 2]");
  require(kind(), "concentration > 0", concentration > 0, {concentration});
}
Shape LKJCholesky::value_shape() const { return joined(concentration.shape(), {dim, dim}); }
Variable LKJCholesky::log_prob_at(const Variable& value) const {
  const auto n = double(dim - 1);
  const Variable of_rows = double(dim) - arange(2, dim + 1, like(concentration));
  const Variable order = 2.0 * unsqueeze(concentration - 1.0, -1) + of_rows;
  const Variable logs = log(narrow(diagonal_of(value), -1, 1, dim - 1));
  const Variable alpha = concentration + 0.5 * n;
  const Variable norm =
      0.5 * n * std::log(std::numbers::pi) + mvlgamma(alpha - 0.5, dim - 1) - n * lgamma(alpha);
  return sum(order * logs, -1) - norm;
}
Variable LKJCholesky::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  // The onion method: each row is a point on the sphere of its dimensions. The squared radius of
  // its elements before the diagonal has a Beta distribution.
  const Variable row = clamp_min(arange(dim, like(concentration)) - 1.0, 0.0);
  const Variable marginal = unsqueeze(concentration + 0.5 * double(dim - 2), -1);
  const Variable squared_radius =
      unsqueeze(Beta(0.5 * row + 0.5, marginal - 0.5 * row).sample(sample_shape, generator), -1);
  const Shape shape = joined(sample_shape, value_shape());
  const Variable normals = tril(randn(shape, like(concentration), generator), -1);
  // The first row has no elements before the diagonal.
  const Variable squares = sum(square(normals), -1, true);
  const Variable w = normals * sqrt(squared_radius / where(squares > 0, squares, 1.0));
  return w + diag_embed(sqrt(clamp_min(1.0 - sum(square(w), -1), 1e-38)));
}

}  // namespace tapegrad::distributions
