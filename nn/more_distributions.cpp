#include "nn/more_distributions.h"

#include <cmath>
#include <numbers>

#include "nn/internal/distribution_parts.h"
#include "ops/arithmetic.h"
#include "ops/diagonal.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

const double kLogTwoPi = std::log(2 * std::numbers::pi);

/// Uniform numbers in (0, 1].
Variable positive_uniform(const Shape& shape, const Variable& of, Generator& generator) {
  return 1.0 - rand(shape, like(of), generator);
}

}  // namespace

MultivariateNormal::MultivariateNormal(const Variable& location, const Variable& covariance)
    : MultivariateNormal(FromFactor(), location, linalg::cholesky(covariance)) {}

MultivariateNormal::MultivariateNormal(FromFactor, const Variable& location, const Variable& factor)
    : Distribution("MultivariateNormal"), loc(location), scale_tril(factor) {
  if (factor.rank() < 2 || loc.rank() < 1 || factor.size(-1) != loc.size(-1) ||
      factor.size(-2) != loc.size(-1))
    fail<ShapeError>(kind(), ": a location of ", loc.shape(), " for a matrix of ", factor.shape());
}

MultivariateNormal MultivariateNormal::with_scale_tril(const Variable& loc,
                                                       const Variable& scale_tril) {
  MultivariateNormal result(FromFactor(), loc, tril(scale_tril));
  require(result.kind(), "a positive diagonal of scale_tril", diagonal(scale_tril, 0, -2, -1) > 0);
  return result;
}

Variable MultivariateNormal::half_log_det() const {
  return sum(log(diagonal(scale_tril, 0, -2, -1)), -1);
}

Variable MultivariateNormal::log_prob(const Variable& value) const {
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

Variable MultivariateNormal::rsample(const Shape& sample_shape, Generator& generator) const {
  const Variable z = randn(joined(sample_shape, mean().shape()), like(loc), generator);
  return loc + squeeze(matmul(scale_tril, unsqueeze(z, -1)), -1);
}

Exponential::Exponential(const Parameter& parameter)
    : Distribution("Exponential"), rate(parameter) {
  require(kind(), "rate > 0", rate > 0);
}
Variable Exponential::log_prob(const Variable& value) const {
  return where(value >= 0, log(rate) - rate * value, -INFINITY);
}
Variable Exponential::entropy() const { return 1.0 - log(rate); }
Variable Exponential::mean() const { return 1.0 / rate; }
Variable Exponential::variance() const { return 1.0 / square(rate); }
Variable Exponential::rsample(const Shape& sample_shape, Generator& generator) const {
  return -log(positive_uniform(joined(sample_shape, rate.shape()), rate, generator)) / rate;
}

Laplace::Laplace(const Parameter& location, const Parameter& width)
    : Distribution("Laplace"), loc(location), scale(width) {
  require(kind(), "scale > 0", scale > 0);
}
Variable Laplace::log_prob(const Variable& value) const {
  return -abs(value - loc) / scale - log(2.0 * scale);
}
Variable Laplace::entropy() const { return 1.0 + log(2.0 * scale) + zeros_like(loc); }
Variable Laplace::mean() const { return expand(loc, batch_of(loc, scale)); }
Variable Laplace::variance() const { return 2.0 * square(scale) + zeros_like(loc); }
Variable Laplace::rsample(const Shape& sample_shape, Generator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(loc, scale));
  const Variable magnitude = -log(positive_uniform(shape, scale, generator));
  const Variable side = sign(rand(shape, like(scale), generator) - 0.5);
  return loc + scale * magnitude * side;
}

LogNormal::LogNormal(const Parameter& location, const Parameter& width)
    : Distribution("LogNormal"), loc(location), scale(width), normal_(location, width) {}
Variable LogNormal::log_prob(const Variable& value) const {
  const Variable logs = log(value);
  return normal_.log_prob(logs) - logs;
}
Variable LogNormal::entropy() const { return normal_.entropy() + loc; }
Variable LogNormal::mean() const { return exp(loc + 0.5 * square(scale)); }
Variable LogNormal::variance() const {
  const Variable square_scale = square(scale);
  return expm1(square_scale) * exp(2.0 * loc + square_scale);
}
Variable LogNormal::rsample(const Shape& sample_shape, Generator& generator) const {
  return exp(normal_.rsample(sample_shape, generator));
}

Gamma::Gamma(const Parameter& shape, const Parameter& inverse_scale)
    : Distribution("Gamma"), concentration(shape), rate(inverse_scale) {
  require(kind(), "concentration > 0", concentration > 0);
  require(kind(), "rate > 0", rate > 0);
}
Variable Gamma::log_prob(const Variable& value) const {
  return xlogy(concentration, rate) + xlogy(concentration - 1.0, value) - rate * value -
         lgamma(concentration);
}
Variable Gamma::entropy() const {
  return concentration - log(rate) + lgamma(concentration) +
         (1.0 - concentration) * digamma(concentration);
}
Variable Gamma::mean() const { return concentration / rate; }
Variable Gamma::variance() const { return concentration / square(rate); }
Variable Gamma::rsample(const Shape& sample_shape, Generator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(concentration, rate));
  return rsample_gamma(expand(concentration, shape), generator) / rate;
}

Variable kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q) {
  const auto half_log_det = [](const Variable& l) { return sum(log(diagonal(l, 0, -2, -1)), -1); };
  const Variable m = linalg::solve_triangular(q.scale_tril, p.scale_tril, {.upper = false});
  const Variable z =
      linalg::solve_triangular(q.scale_tril, unsqueeze(q.loc - p.loc, -1), {.upper = false});
  return half_log_det(q.scale_tril) - half_log_det(p.scale_tril) +
         0.5 * (sum(square(m), {-2, -1}) + sum(square(z), {-2, -1}) - double(p.loc.size(-1)));
}
Variable kl_divergence(const Exponential& p, const Exponential& q) {
  const Variable ratio = q.rate / p.rate;
  return ratio - log(ratio) - 1.0;
}
Variable kl_divergence(const Laplace& p, const Laplace& q) {
  const Variable ratio = p.scale / q.scale, distance = abs(p.loc - q.loc);
  return distance / q.scale + ratio * exp(-distance / p.scale) - log(ratio) - 1.0;
}
Variable kl_divergence(const LogNormal& p, const LogNormal& q) {
  return kl_divergence(Normal(p.loc, p.scale), Normal(q.loc, q.scale));
}
Variable kl_divergence(const Gamma& p, const Gamma& q) {
  return q.concentration * log(p.rate / q.rate) + lgamma(q.concentration) -
         lgamma(p.concentration) + (p.concentration - q.concentration) * digamma(p.concentration) +
         (q.rate - p.rate) * (p.concentration / p.rate);
}

}  // namespace tapegrad::distributions
