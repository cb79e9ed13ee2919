#include "nn/distributions/kl_divergence.h"

#include <cmath>

#include "nn/distributions/internal/distribution_parts.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/diagonal.h"
#include "ops/linalg.h"
#include "ops/reduce.h"
#include "ops/special.h"
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

Variable kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  const Variable ones =
      where(eq(q.probs, 0.0), INFINITY, p.probs * (softplus(-q.logits) - softplus(-p.logits)));
  const Variable zeros = where(eq(q.probs, 1.0), INFINITY,
                               (1.0 - p.probs) * (softplus(q.logits) - softplus(p.logits)));
  return where(eq(p.probs, 0.0), 0.0, ones) + where(eq(p.probs, 1.0), 0.0, zeros);
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
