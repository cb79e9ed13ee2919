// Distributions of real numbers. Those derived from the normal and the gamma distribution have
// headers of their own, which this header includes.
#pragma once

#include "nn/distributions/distribution.h"
#include "nn/distributions/gamma_distributions.h"
#include "nn/distributions/normal_distributions.h"

namespace tapegrad::distributions {

/// Uniform distribution on [low, high). Throws ArgumentError unless low < high.
class Uniform final : public Distribution {
 public:
  Uniform(const Parameter& low, const Parameter& high);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  Variable stddev() const override;

  Variable low, high;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution on [0, inf) with mean 1 / rate.
class Exponential final : public Distribution {
 public:
  explicit Exponential(const Parameter& rate);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  Variable stddev() const override;

  Variable rate;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution with density exp(-|x - loc| / scale) / (2 scale).
class Laplace final : public Distribution {
 public:
  Laplace(const Parameter& loc, const Parameter& scale);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  Variable stddev() const override;

  Variable loc, scale;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution with density 1 / (pi scale (1 + ((x - loc) / scale)^2)). mean() and variance() are
/// NaN and inf.
class Cauchy final : public Distribution {
 public:
  Cauchy(const Parameter& loc, const Parameter& scale);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable loc, scale;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of |x| for x from Cauchy(0, scale). mean() and variance() are inf.
class HalfCauchy final : public Distribution {
 public:
  explicit HalfCauchy(const Parameter& scale);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable scale;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Limit distribution of the largest of many samples; loc - scale log(-log(u)) for a uniform u.
class Gumbel final : public Distribution {
 public:
  Gumbel(const Parameter& loc, const Parameter& scale);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  Variable stddev() const override;

  Variable loc, scale;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of scale (-log(u))^(1 / concentration) for a uniform u.
class Weibull final : public Distribution {
 public:
  Weibull(const Parameter& scale, const Parameter& concentration);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable scale, concentration;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution on [scale, inf) with density proportional to x^-(alpha + 1).
class Pareto final : public Distribution {
 public:
  Pareto(const Parameter& scale, const Parameter& alpha);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable scale, alpha;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of loc + scale ((1 - u)^-concentration - 1) / concentration for a uniform u, and of
/// loc - scale log(1 - u) if the concentration is 0. mean() and variance() are NaN for a
/// concentration of 1 and of 1 / 2 or more.
class GeneralizedPareto final : public Distribution {
 public:
  GeneralizedPareto(const Parameter& loc, const Parameter& scale, const Parameter& concentration);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable loc, scale, concentration;

 private:
  /// Returns -log(1 - cdf(value)) for values in the support.
  Variable hazard(const Variable& value) const;
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
  Shape value_shape() const override;
};

/// Distribution of angles, in radians, with the density exp(concentration cos(x - loc)) / (2 pi
/// I0(concentration)). mean() and variance() are circular: loc, and 1 - I1 / I0. Samples are in
/// [-pi, pi) and have no gradient.
class VonMises final : public Distribution {
 public:
  VonMises(const Parameter& loc, const Parameter& concentration);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable loc, concentration;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

}  // namespace tapegrad::distributions
