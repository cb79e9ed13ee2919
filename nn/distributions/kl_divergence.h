// Kullback-Leibler divergences.
#pragma once

#include "nn/distributions/continuous_distributions.h"
#include "nn/distributions/discrete_distributions.h"

namespace tapegrad::distributions {

/// Returns the Kullback-Leibler divergence: the mean over p of log p - log q. Infinite if q
/// excludes a value that p does not exclude.
Variable kl_divergence(const Normal& p, const Normal& q);
Variable kl_divergence(const Uniform& p, const Uniform& q);
Variable kl_divergence(const Bernoulli& p, const Bernoulli& q);
Variable kl_divergence(const Categorical& p, const Categorical& q);
Variable kl_divergence(const Dirichlet& p, const Dirichlet& q);
Variable kl_divergence(const Beta& p, const Beta& q);
Variable kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q);
Variable kl_divergence(const Exponential& p, const Exponential& q);
Variable kl_divergence(const Laplace& p, const Laplace& q);
Variable kl_divergence(const LogNormal& p, const LogNormal& q);
Variable kl_divergence(const Gamma& p, const Gamma& q);

}  // namespace tapegrad::distributions
