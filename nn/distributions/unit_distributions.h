// Distributions on the unit interval and on the simplex, except Beta and Dirichlet.
#pragma once

#include "nn/distributions/discrete_distributions.h"
#include "nn/distributions/distribution.h"
#include "nn/distributions/normal_distributions.h"
#include "nn/distributions/transformed_distribution.h"

namespace tapegrad::distributions {

/// Distribution on [0, 1] with density proportional to probs^x (1 - probs)^(1 - x)
/// (Loaiza-Ganem and Cunningham 2019). The mean is not probs.
class ContinuousBernoulli final : public Distribution {
 public:
  explicit ContinuousBernoulli(const Parameter& p);
  explicit ContinuousBernoulli(const Odds& odds);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  /// Returns the log of the factor of probs^x (1 - probs)^(1 - x) in the density.
  Variable log_factor() const;

  Variable probs, logits;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution on (0, 1) whose cdf is 1 - (1 - x^concentration1)^concentration0.
class Kumaraswamy final : public Distribution {
 public:
  Kumaraswamy(const Parameter& concentration1, const Parameter& concentration0);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable concentration1, concentration0;

 private:
  Variable moment(double order) const;
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of numbers in (0, 1) that are close to 0 or 1 at a low temperature, with a gradient
/// (Jang et al. 2016; Maddison et al. 2016). mean(), variance() and entropy() throw ArgumentError.
class RelaxedBernoulli final : public Distribution {
 public:
  RelaxedBernoulli(const Parameter& heat, const Parameter& p);
  RelaxedBernoulli(const Parameter& temperature, const Odds& odds);

  Variable temperature, probs, logits;

 private:
  RelaxedBernoulli(const Parameter& heat, const Odds& odds, const Bernoulli& base);
  Variable log_prob_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
  Shape value_shape() const override;
};

/// Distribution on the simplex: the StickBreakingTransform of vectors of normal numbers, which has
/// one more element than loc.
class LogisticNormal final : public TransformedDistribution {
 public:
  LogisticNormal(const Parameter& loc, const Parameter& scale);

  Variable loc, scale;

 private:
  explicit LogisticNormal(const Normal& normal);
};

}  // namespace tapegrad::distributions
