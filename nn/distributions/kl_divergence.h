// Kullback-Leibler divergences.
#pragma once

#include <concepts>

#include "nn/distributions/continuous_distributions.h"
#include "nn/distributions/discrete_distributions.h"
#include "nn/distributions/matrix_distributions.h"
#include "nn/distributions/unit_distributions.h"

namespace tapegrad::distributions {

namespace detail {

template <typename T, typename... Ts>
concept OneOf = (std::same_as<T, Ts> || ...);

Variable kl_to(const Distribution& p, const Normal& q);
Variable kl_to(const Distribution& p, const Exponential& q);
Variable kl_of_unit(const Distribution& p, const Uniform& q);
Variable infinite_kl(const Distribution& p, const Distribution& q);

}  // namespace detail

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
Variable kl_divergence(const Cauchy& p, const Cauchy& q);
Variable kl_divergence(const Gumbel& p, const Gumbel& q);
Variable kl_divergence(const HalfNormal& p, const HalfNormal& q);
Variable kl_divergence(const Pareto& p, const Pareto& q);
Variable kl_divergence(const Poisson& p, const Poisson& q);
Variable kl_divergence(const Geometric& p, const Geometric& q);
/// Throws ArgumentError if p has fewer trials than q.
Variable kl_divergence(const Binomial& p, const Binomial& q);
Variable kl_divergence(const OneHotCategorical& p, const OneHotCategorical& q);
Variable kl_divergence(const ContinuousBernoulli& p, const ContinuousBernoulli& q);
Variable kl_divergence(const LogisticNormal& p, const LogisticNormal& q);
Variable kl_divergence(const Wishart& p, const Wishart& q);
/// Factorise the covariance matrices [d, d].
Variable kl_divergence(const LowRankMultivariateNormal& p, const LowRankMultivariateNormal& q);
Variable kl_divergence(const LowRankMultivariateNormal& p, const MultivariateNormal& q);
Variable kl_divergence(const MultivariateNormal& p, const LowRankMultivariateNormal& q);

// Distributions of two kinds.
template <
    detail::OneOf<Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform>
        P>
Variable kl_divergence(const P& p, const Normal& q) {
  return detail::kl_to(p, q);
}
template <detail::OneOf<Beta, ContinuousBernoulli, Gamma, Pareto> P>
Variable kl_divergence(const P& p, const Exponential& q) {
  return detail::kl_to(p, q);
}
template <detail::OneOf<Beta, ContinuousBernoulli> P>
Variable kl_divergence(const P& p, const Uniform& q) {
  return detail::kl_of_unit(p, q);
}
Variable kl_divergence(const Beta& p, const ContinuousBernoulli& q);
Variable kl_divergence(const Beta& p, const Gamma& q);
Variable kl_divergence(const Exponential& p, const Gamma& q);
Variable kl_divergence(const Pareto& p, const Gamma& q);
Variable kl_divergence(const Exponential& p, const Gumbel& q);
Variable kl_divergence(const Gamma& p, const Gumbel& q);
Variable kl_divergence(const Normal& p, const Gumbel& q);
Variable kl_divergence(const Normal& p, const Laplace& q);
Variable kl_divergence(const Uniform& p, const Beta& q);
Variable kl_divergence(const Uniform& p, const ContinuousBernoulli& q);
Variable kl_divergence(const Uniform& p, const Exponential& q);
Variable kl_divergence(const Uniform& p, const Gamma& q);
Variable kl_divergence(const Uniform& p, const Gumbel& q);
Variable kl_divergence(const Uniform& p, const Pareto& q);
Variable kl_divergence(const Bernoulli& p, const Poisson& q);

// Infinite divergences: p has values that q excludes.
template <detail::OneOf<Exponential, Gamma, Gumbel, Laplace, Normal, Pareto> P,
          detail::OneOf<Beta, ContinuousBernoulli, Uniform> Q>
Variable kl_divergence(const P& p, const Q& q) {
  return detail::infinite_kl(p, q);
}
template <detail::OneOf<Gumbel, Laplace, Normal> P, detail::OneOf<Exponential, Gamma> Q>
Variable kl_divergence(const P& p, const Q& q) {
  return detail::infinite_kl(p, q);
}
template <detail::OneOf<Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal> P>
Variable kl_divergence(const P& p, const Pareto& q) {
  return detail::infinite_kl(p, q);
}
template <detail::OneOf<Bernoulli, Binomial> Q>
Variable kl_divergence(const Poisson& p, const Q& q) {
  return detail::infinite_kl(p, q);
}

// Chi2 is a Gamma.
template <typename Q>
Variable kl_divergence(const Chi2& p, const Q& q) {
  return kl_divergence(p.as_gamma(), q);
}
template <typename P>
Variable kl_divergence(const P& p, const Chi2& q) {
  return kl_divergence(p, q.as_gamma());
}
inline Variable kl_divergence(const Chi2& p, const Chi2& q) {
  return kl_divergence(p.as_gamma(), q.as_gamma());
}

}  // namespace tapegrad::distributions
