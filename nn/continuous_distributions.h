// Further distributions of real numbers, as in torch.distributions; see nn/distributions.h.
#pragma once

#include "nn/distributions.h"

namespace tapegrad::distributions {

/// Distribution with density 1 / (pi scale (1 + ((x - loc) / scale)^2)). mean() and variance() are
/// NaN and inf.
class Cauchy final : public Distribution {
 public:
  Cauchy(const Parameter& loc, const Parameter& scale);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable loc, scale;
};

/// Distribution of |x| for x from Normal(0, scale).
class HalfNormal final : public Distribution {
 public:
  explicit HalfNormal(const Parameter& scale);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable scale;
};

/// Distribution of |x| for x from Cauchy(0, scale). mean() and variance() are inf.
class HalfCauchy final : public Distribution {
 public:
  explicit HalfCauchy(const Parameter& scale);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable scale;
};

/// Limit distribution of the largest of many samples; loc - scale log(-log(u)) for a uniform u.
class Gumbel final : public Distribution {
 public:
  Gumbel(const Parameter& loc, const Parameter& scale);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable loc, scale;
};

/// Distribution of scale (-log(u))^(1 / concentration) for a uniform u.
class Weibull final : public Distribution {
 public:
  Weibull(const Parameter& scale, const Parameter& concentration);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable scale, concentration;
};

/// Distribution on [scale, inf) with density proportional to x^-(alpha + 1).
class Pareto final : public Distribution {
 public:
  Pareto(const Parameter& scale, const Parameter& alpha);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable scale, alpha;
};

/// Distribution of loc + scale z / sqrt(c / df) for a normal z and a Chi2(df) c.
class StudentT final : public Distribution {
 public:
  explicit StudentT(const Parameter& df, const Parameter& loc = 0.0, const Parameter& scale = 1.0);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable df, loc, scale;
};

/// Distribution of the sum of the squares of df normal numbers: Gamma(df / 2, 1 / 2).
class Chi2 final : public Distribution {
 public:
  explicit Chi2(const Parameter& df);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable df;
};

/// Distribution of angles, in radians, with the density exp(concentration cos(x - loc)) / (2 pi
/// I0(concentration)). mean() and variance() are circular: loc, and 1 - I1 / I0. Samples are in
/// [-pi, pi) and have no gradient.
class VonMises final : public Distribution {
 public:
  VonMises(const Parameter& loc, const Parameter& concentration);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;

  Variable loc, concentration;

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

}  // namespace tapegrad::distributions
