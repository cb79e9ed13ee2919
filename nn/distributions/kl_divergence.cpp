#include "nn/distributions/kl_divergence.h"

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/diagonal.h"
#include "ops/linalg.h"
#include "ops/reduce.h"
#include "ops/special.h"
#include "ops/special_composed.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {

Variable kl_divergence(const Normal& p, const Normal& q) {
  const Variable ratio = p.scale / q.scale, distance = (p.loc - q.loc) / q.scale;
  const Variable squared = ratio * ratio;
  return 0.5 * (squared + distance * distance - 1.0 - log(squared));
}

Variable kl_divergence(const Uniform& p, const Uniform& q) {
  const Variable result = log((q.high - q.low) / (p.high - p.low));
  return where(logical_or(gt(q.low, p.low), lt(q.high, p.high)), INFINITY, result);
}

namespace {

/// Returns the divergence of one trial with probabilities p and q.
Variable kl_of_trial(const Variable& p, const Variable& logits, const Variable& q,
                     const Variable& logits_of_q) {
  const Variable ones =
      where(eq(q, 0.0), INFINITY, p * (softplus(-logits_of_q) - softplus(-logits)));
  const Variable zeros =
      where(eq(q, 1.0), INFINITY, (1.0 - p) * (softplus(logits_of_q) - softplus(logits)));
  return where(eq(p, 0.0), 0.0, ones) + where(eq(p, 1.0), 0.0, zeros);
}
Variable half_log_det(const Variable& l) { return sum(log(diagonal(l, 0, -2, -1)), -1); }

}  // namespace

Variable kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  return kl_of_trial(p.probs, p.logits, q.probs, q.logits);
}

Variable kl_divergence(const Categorical& p, const Categorical& q) {
  const Variable part = where(eq(q.probs, 0.0), INFINITY, p.probs * (p.logits - q.logits));
  return sum(where(eq(p.probs, 0.0), 0.0, part), {-1});
}

Variable kl_divergence(const Dirichlet& p, const Dirichlet& q) {
  const Variable &a = p.concentration, &b = q.concentration;
  const Variable total = sum(a, {-1}, true);
  return lgamma(sum(a, {-1})) - lgamma(sum(b, {-1})) - sum(lgamma(a) - lgamma(b), {-1}) +
         sum((a - b) * (digamma(a) - digamma(total)), {-1});
}

Variable kl_divergence(const Beta& p, const Beta& q) {
  return kl_divergence(Dirichlet(pair_of(p.concentration1, p.concentration0)),
                       Dirichlet(pair_of(q.concentration1, q.concentration0)));
}

Variable kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q) {
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

Variable kl_divergence(const Cauchy& p, const Cauchy& q) {
  return log(square(p.scale + q.scale) + square(p.loc - q.loc)) - log(4.0 * p.scale * q.scale);
}

Variable kl_divergence(const Gumbel& p, const Gumbel& q) {
  const Variable ratio = p.scale / q.scale, distance = (p.loc - q.loc) / q.scale;
  return distance - log(ratio) + (ratio - 1.0) * std::numbers::egamma - 1.0 +
         exp(lgamma(1.0 + ratio) - distance);
}

Variable kl_divergence(const HalfNormal& p, const HalfNormal& q) {
  return kl_divergence(Normal(0.0, p.scale), Normal(0.0, q.scale));
}

Variable kl_divergence(const Pareto& p, const Pareto& q) {
  const Variable ratio = q.alpha / p.alpha;
  const Variable result = q.alpha * log(p.scale / q.scale) - log(ratio) + ratio - 1.0;
  return where(p.scale < q.scale, INFINITY, result);
}

Variable kl_divergence(const Poisson& p, const Poisson& q) {
  return xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate);
}

Variable kl_divergence(const Geometric& p, const Geometric& q) {
  return -p.entropy() - log1p(-q.probs) / p.probs - q.logits;
}

Variable kl_divergence(const Binomial& p, const Binomial& q) {
  if (p.total_count < q.total_count)
    fail<ArgumentError>("kl_divergence: no formula for Binomials of ", p.total_count, " and ",
                        q.total_count, " trials");
  const Variable of_trial = kl_of_trial(p.probs, p.logits, q.probs, q.logits);
  if (p.total_count > q.total_count) return full_like(of_trial.detach(), INFINITY);
  return double(p.total_count) * of_trial;
}

Variable kl_divergence(const OneHotCategorical& p, const OneHotCategorical& q) {
  return kl_divergence(p.categorical, q.categorical);
}

Variable kl_divergence(const LogisticNormal& p, const LogisticNormal& q) {
  return sum(kl_divergence(Normal(p.loc, p.scale), Normal(q.loc, q.scale)), -1);
}

Variable kl_divergence(const Wishart& p, const Wishart& q) {
  const int64_t d = p.scale_tril.size(-1);
  const Variable m = linalg::solve_triangular(q.scale_tril, p.scale_tril, {.upper = false});
  const Variable trace = sum(square(m), {-2, -1});
  const Variable half = unsqueeze(0.5 * p.df, -1) - 0.5 * arange(d, like(p.df));
  return q.df * (half_log_det(q.scale_tril) - half_log_det(p.scale_tril)) +
         0.5 * p.df * (trace - double(d)) + mvlgamma(0.5 * q.df, d) - mvlgamma(0.5 * p.df, d) +
         0.5 * (p.df - q.df) * sum(digamma(half), -1);
}

namespace {

MultivariateNormal as_full(const LowRankMultivariateNormal& d) {
  return MultivariateNormal(d.loc, d.covariance_matrix());
}

}  // namespace

Variable kl_divergence(const LowRankMultivariateNormal& p, const LowRankMultivariateNormal& q) {
  return kl_divergence(as_full(p), as_full(q));
}
Variable kl_divergence(const LowRankMultivariateNormal& p, const MultivariateNormal& q) {
  return kl_divergence(as_full(p), q);
}
Variable kl_divergence(const MultivariateNormal& p, const LowRankMultivariateNormal& q) {
  return kl_divergence(p, as_full(q));
}

}  // namespace tapegrad::distributions
