// The gamma distribution and distributions whose samples are made of gamma samples.
#pragma once

#include "nn/distributions/distribution.h"

namespace tapegrad::distributions {

/// Distribution on (0, inf) with density proportional to x^(concentration - 1) exp(-rate x). The
/// gradient of samples is computed as for Beta and Dirichlet. A second derivative of rsample() or
/// cdf() with respect to the concentration throws AutogradError.
class Gamma final : public Distribution {
 public:
  Gamma(const Parameter& concentration, const Parameter& rate);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable concentration, rate;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of 1 / x for x from Gamma(concentration, rate). mean() and variance() are inf for a
/// concentration up to 1 and 2.
class InverseGamma final : public Distribution {
 public:
  InverseGamma(const Parameter& concentration, const Parameter& rate);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable concentration, rate;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of (a / df1) / (b / df2) for a from Chi2(df1) and b from Chi2(df2). mean() and
/// variance() are NaN for df2 up to 2 and 4. entropy() throws ArgumentError.
class FisherSnedecor final : public Distribution {
 public:
  FisherSnedecor(const Parameter& df1, const Parameter& df2);
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable df1, df2;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of the sum of the squares of df normal numbers: Gamma(df / 2, 1 / 2).
class Chi2 final : public Distribution {
 public:
  explicit Chi2(const Parameter& df);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  Gamma as_gamma() const;

  Variable df;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of loc + scale z / sqrt(c / df) for a normal z and a Chi2(df) c.
class StudentT final : public Distribution {
 public:
  explicit StudentT(const Parameter& df, const Parameter& loc = 0.0, const Parameter& scale = 1.0);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable df, loc, scale;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution on the simplex: vectors along the last dimension whose elements are positive and
/// sum to 1.
class Dirichlet final : public Distribution {
 public:
  explicit Dirichlet(const Variable& concentration, Where where = Where::current());
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  int event_rank() const override { return 1; }

  Variable concentration;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution on (0, 1) with density proportional to x^(concentration1 - 1) (1 -
/// x)^(concentration0 - 1).
class Beta final : public Distribution {
 public:
  Beta(const Parameter& concentration1, const Parameter& concentration0);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable concentration1, concentration0;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;

  Dirichlet dirichlet_;
};

}  // namespace tapegrad::distributions
