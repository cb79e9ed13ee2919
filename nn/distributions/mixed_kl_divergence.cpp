// Divergences between distributions of two kinds: minus the entropy of p, minus the mean over p of
// log q.
#include <cmath>
#include <numbers>

#include "nn/distributions/internal/distribution_parts.h"
#include "nn/distributions/kl_divergence.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/extremes.h"
#include "ops/special.h"
#include "ops/unary.h"

namespace tapegrad::distributions {
namespace {

/// Returns the mean of log x over a distribution.
Variable mean_log(const Beta& p) {
  return digamma(p.concentration1) - digamma(p.concentration1 + p.concentration0);
}
Variable mean_log(const Exponential& p) { return -log(p.rate) - kEuler; }
Variable mean_log(const Pareto& p) { return log(p.scale) + 1.0 / p.alpha; }
/// Returns the mean of log x over the interval, for low >= 0.
Variable mean_log(const Variable& low, const Variable& high) {
  const Variable l = clamp_min(low, 0.0), h = clamp_min(high, 0.0);
  return (xlogy(h, h) - xlogy(l, l)) / (h - l) - 1.0;
}
Variable excluded(const Variable& outside, const Variable& finite) {
  return where(outside, INFINITY, finite);
}
Variable kl_to_gamma(const Distribution& p, const Variable& mean_log, const Gamma& q) {
  return lgamma(q.concentration) - q.concentration * log(q.rate) -
         (q.concentration - 1.0) * mean_log + q.rate * p.mean() - p.entropy();
}
/// `mean_exp` is the mean over p of exp((q.loc - x) / q.scale).
Variable kl_to_gumbel(const Distribution& p, const Variable& mean_exp, const Gumbel& q) {
  return log(q.scale) + (p.mean() - q.loc) / q.scale + mean_exp - p.entropy();
}
Variable kl_to_continuous_bernoulli(const Distribution& p, const ContinuousBernoulli& q) {
  return -p.entropy() - p.mean() * q.logits - log1p(-q.probs) - q.log_factor();
}

}  // namespace

namespace detail {

Variable kl_to(const Distribution& p, const Normal& q) {
  const Variable squares = p.variance() + square(p.mean() - q.loc);
  return log(q.scale * std::sqrt(2 * std::numbers::pi)) + 0.5 * squares / square(q.scale) -
         p.entropy();
}
Variable kl_to(const Distribution& p, const Exponential& q) {
  return q.rate * p.mean() - log(q.rate) - p.entropy();
}
Variable kl_of_unit(const Distribution& p, const Uniform& q) {
  return excluded(logical_or(q.low > 0, q.high < 1), log(q.high - q.low) - p.entropy());
}
Variable infinite_kl(const Distribution& p, const Distribution& q) {
  const Variable of = zeros_like(p.mean().detach()) + zeros_like(q.mean().detach());
  return full_like(of, INFINITY);
}

}  // namespace detail

Variable kl_divergence(const Beta& p, const ContinuousBernoulli& q) {
  return kl_to_continuous_bernoulli(p, q);
}
Variable kl_divergence(const ContinuousBernoulli& p, const ContinuousBernoulli& q) {
  return kl_to_continuous_bernoulli(p, q);
}
Variable kl_divergence(const Beta& p, const Gamma& q) { return kl_to_gamma(p, mean_log(p), q); }
Variable kl_divergence(const Exponential& p, const Gamma& q) {
  return kl_to_gamma(p, mean_log(p), q);
}
Variable kl_divergence(const Pareto& p, const Gamma& q) {
  return excluded(p.alpha <= 1, kl_to_gamma(p, mean_log(p), q));
}
Variable kl_divergence(const Exponential& p, const Gumbel& q) {
  const Variable rate = p.rate * q.scale;
  return kl_to_gumbel(p, exp(q.loc / q.scale) * (rate / (rate + 1.0)), q);
}
Variable kl_divergence(const Gamma& p, const Gumbel& q) {
  const Variable logs = q.loc / q.scale - p.concentration * log1p(1.0 / (p.rate * q.scale));
  return kl_to_gumbel(p, exp(logs), q);
}
Variable kl_divergence(const Normal& p, const Gumbel& q) {
  const Variable logs = (q.loc - p.loc) / q.scale + 0.5 * square(p.scale / q.scale);
  return kl_to_gumbel(p, exp(logs), q);
}
Variable kl_divergence(const Normal& p, const Laplace& q) {
  const Variable z = (p.loc - q.loc) / (p.scale * std::numbers::sqrt2);
  // The mean of |x - q.loc|.
  const Variable distance =
      p.scale * std::sqrt(2 / std::numbers::pi) * exp(-square(z)) + (p.loc - q.loc) * erf(z);
  return log(2.0 * q.scale) + distance / q.scale - p.entropy();
}
Variable kl_divergence(const Uniform& p, const Beta& q) {
  const Variable logs = mean_log(p.low, p.high), rest = mean_log(1.0 - p.high, 1.0 - p.low);
  const Variable log_beta = lgamma(q.concentration1) + lgamma(q.concentration0) -
                            lgamma(q.concentration1 + q.concentration0);
  const Variable finite =
      log_beta - (q.concentration1 - 1.0) * logs - (q.concentration0 - 1.0) * rest - p.entropy();
  return excluded(logical_or(p.low<0, p.high> 1), finite);
}
Variable kl_divergence(const Uniform& p, const ContinuousBernoulli& q) {
  return excluded(logical_or(p.low<0, p.high> 1), kl_to_continuous_bernoulli(p, q));
}
Variable kl_divergence(const Uniform& p, const Exponential& q) {
  return excluded(p.low < 0, detail::kl_to(p, q));
}
Variable kl_divergence(const Uniform& p, const Gamma& q) {
  return excluded(p.low < 0, kl_to_gamma(p, mean_log(p.low, p.high), q));
}
Variable kl_divergence(const Uniform& p, const Gumbel& q) {
  const Variable first = exp((q.loc - p.low) / q.scale), last = exp((q.loc - p.high) / q.scale);
  return kl_to_gumbel(p, q.scale * (first - last) / (p.high - p.low), q);
}
Variable kl_divergence(const Uniform& p, const Pareto& q) {
  const Variable finite = (q.alpha + 1.0) * mean_log(p.low, p.high) - log(q.alpha) -
                          q.alpha * log(q.scale) - p.entropy();
  return excluded(p.low < q.scale, finite);
}
Variable kl_divergence(const Bernoulli& p, const Poisson& q) {
  return q.rate - xlogy(p.probs, q.rate) - p.entropy();
}

}  // namespace tapegrad::distributions
