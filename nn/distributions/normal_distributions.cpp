#include "nn/distributions/normal_distributions.h"

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "ops/binary.h"
#include "ops/diagonal.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/special.h"
#include "ops/special_composed.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

/// Returns the log density of Normal(0, scale) at x.
Variable log_density_of_normal(const Variable& x, const Variable& scale) {
  return -(x * x) / (2.0 * (scale * scale)) - log(scale) - std::log(std::sqrt(2 * kPi));
}

}  // namespace

Normal::Normal(const Parameter& mean, const Parameter& deviation)
    : Distribution("Normal", {mean, deviation}) {
  const ErrorLine line(deviation.where());
  const std::vector<Variable> both = broadcast_tensors({as_variable(mean), as_variable(deviation)});
  loc = both[0];
  scale = both[1];
  require_location_scale(kind(), loc, scale);
}
Variable Normal::log_prob_at(const Variable& value) const {
  return log_density_of_normal(value - loc, scale);
}
Variable Normal::entropy() const {
  return (0.5 + 0.5 * kLogTwoPi) + log(scale) + 0.0 * loc.detach();
}
Variable Normal::mode() const { return expand(loc, batch_of(loc, scale)); }
Variable Normal::cdf_at(const Variable& value) const { return ndtr((value - loc) / scale); }
Variable Normal::icdf_at(const Variable& probability) const {
  return loc + scale * ndtri(probability);
}
Variable Normal::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  return loc + scale * randn(joined(sample_shape, batch_of(loc, scale)), like(loc), generator);
}

LogNormal::LogNormal(const Parameter& location, const Parameter& width)
    : Distribution("LogNormal", {location, width}),
      loc(as_variable(location)),
      scale(as_variable(width)),
      normal_(loc, Parameter(scale, width.where())) {}
Variable LogNormal::log_prob_at(const Variable& value) const {
  return log_density(value, value <= 0, 1.0, [&](const Variable& x) {
    const Variable logs = log(x);
    return normal_.log_prob(logs) - logs;
  });
}
Variable LogNormal::entropy() const { return normal_.entropy() + loc; }
Variable LogNormal::mean() const { return exp(loc + 0.5 * square(scale)); }
Variable LogNormal::variance() const {
  const Variable square_scale = square(scale);
  return expm1(square_scale) * exp(2.0 * loc + square_scale);
}
Variable LogNormal::mode() const { return exp(loc - square(scale)); }
Variable LogNormal::cdf_at(const Variable& value) const {
  const Variable outside = value <= 0;
  return where(outside, 0.0, normal_.cdf(log(where(outside, 1.0, value))));
}
Variable LogNormal::icdf_at(const Variable& probability) const {
  return exp(normal_.icdf(probability));
}
Variable LogNormal::draw_differentiably(const Shape& sample_shape,
                                        RandomGenerator& generator) const {
  return exp(normal_.rsample(sample_shape, generator));
}

HalfNormal::HalfNormal(const Parameter& width)
    : Distribution("HalfNormal", {width}), scale(as_variable(width)) {
  const ErrorLine line(width.where());
  require(kind(), "scale > 0", scale > 0, {scale});
}
Variable HalfNormal::log_prob_at(const Variable& value) const {
  return log_density(value, value < 0, 1.0, [&](const Variable& x) {
    return log_density_of_normal(x, scale) + std::log(2.0);
  });
}
Variable HalfNormal::entropy() const {
  return (0.5 + 0.5 * kLogTwoPi) + log(scale) - std::log(2.0);
}
Variable HalfNormal::mean() const { return scale * std::sqrt(2 / kPi); }
Variable HalfNormal::stddev() const { return scale * std::sqrt(1 - 2 / kPi); }
Variable HalfNormal::variance() const { return square(scale) * (1 - 2 / kPi); }
Variable HalfNormal::mode() const { return zeros_like(scale.detach()); }
Variable HalfNormal::cdf_at(const Variable& value) const {
  return erf(clamp_min(value, 0.0) / (scale * std::numbers::sqrt2));
}
Variable HalfNormal::icdf_at(const Variable& probability) const {
  return scale * std::numbers::sqrt2 * erfinv(checked_probability(probability));
}
Variable HalfNormal::draw_differentiably(const Shape& sample_shape,
                                         RandomGenerator& generator) const {
  return abs(scale * randn(joined(sample_shape, scale.shape()), like(scale), generator));
}

Variable MultivariateNormal::factor_of(const Variable& covariance, Where where) {
  const ErrorLine line(where);
  return linalg::cholesky(covariance);
}
MultivariateNormal::MultivariateNormal(const Variable& location, const Variable& covariance,
                                       Where where)
    : MultivariateNormal(FromFactor(), location, factor_of(covariance, where), where) {}
Variable MultivariateNormal::factor_of(std::string_view kind, const Options& options) {
  const auto& [named, covariance, precision, factor] = options;
  const ErrorLine line(named.where);
  if (covariance.defined() + precision.defined() + factor.defined() != 1)
    fail<ArgumentError>(kind, ": give one of covariance_matrix, precision_matrix and scale_tril");
  if (!factor.defined())
    return linalg::cholesky(covariance.defined() ? covariance : linalg::inv(precision));
  const Variable roots = diagonal(factor, 0, -2, -1);
  require(kind, "a positive diagonal of scale_tril", roots > 0, {roots});
  return tril(factor);
}
MultivariateNormal::MultivariateNormal(const Variable& location, const Options& options)
    : MultivariateNormal(FromFactor(), location, factor_of("MultivariateNormal", options),
                         options.by_name.where) {}
MultivariateNormal::MultivariateNormal(FromFactor, const Variable& location, const Variable& factor,
                                       Where where)
    : Distribution("MultivariateNormal", {location}), loc(location), scale_tril(factor) {
  const ErrorLine line(where);
  if (factor.rank() < 2 || loc.rank() < 1 || factor.size(-1) != loc.size(-1) ||
      factor.size(-2) != loc.size(-1))
    fail<ShapeError>(kind(), ": a location of ", loc.shape(), " for a matrix of ", factor.shape());
}
MultivariateNormal MultivariateNormal::with_scale_tril(const Variable& loc,
                                                       const Variable& scale_tril, Where where) {
  return MultivariateNormal(loc, {.by_name = {where}, .scale_tril = scale_tril});
}
Variable MultivariateNormal::half_log_det() const {
  return sum(log(diagonal(scale_tril, 0, -2, -1)), -1);
}
Variable MultivariateNormal::log_prob_at(const Variable& value) const {
  const Variable difference = unsqueeze(value - loc, -1);
  const Variable z = linalg::solve_triangular(scale_tril, difference, {.upper = false});
  const double constant = 0.5 * double(loc.size(-1)) * kLogTwoPi;
  return -0.5 * sum(square(z), {-2, -1}) - half_log_det() - constant;
}
Variable MultivariateNormal::entropy() const {
  const Variable batch = sum(zeros_like(mean()), -1);
  return batch + half_log_det() + 0.5 * double(loc.size(-1)) * (1 + kLogTwoPi);
}
Variable MultivariateNormal::mean() const {
  return expand(loc, batch_of(loc, sum(scale_tril.detach(), -1)));
}
Variable MultivariateNormal::variance() const {
  return expand(sum(square(scale_tril), -1), mean().shape());
}
Variable MultivariateNormal::mode() const { return mean(); }
Variable MultivariateNormal::draw_differentiably(const Shape& sample_shape,
                                                 RandomGenerator& generator) const {
  const Variable z = randn(joined(sample_shape, mean().shape()), like(loc), generator);
  return loc + squeeze(matmul(scale_tril, unsqueeze(z, -1)), -1);
}

}  // namespace tapegrad::distributions
