// Further distributions, as in torch.distributions; see nn/distributions.h.
//
//   const distributions::MultivariateNormal prior(zeros({3}), eye(3));
//   Variable z = prior.rsample({64});                       // [64, 3]
//   Variable loss = -prior.log_prob(z).mean();              // [64] -> []
#pragma once

#include "nn/distributions.h"

namespace tapegrad::distributions {

/// Vectors [..., d] with a covariance matrix [..., d, d]. Throws LinAlgError unless it is positive
/// definite, ShapeError if the sizes do not fit.
class MultivariateNormal final : public Distribution {
 public:
  MultivariateNormal(const Variable& loc, const Variable& covariance);
  /// With the lower Cholesky factor of the covariance.
  static MultivariateNormal with_scale_tril(const Variable& loc, const Variable& scale_tril);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable rsample(const Shape& sample_shape = {},
                   Generator& generator = default_generator()) const override;

  Variable loc, scale_tril;

 private:
  struct FromFactor {};
  MultivariateNormal(FromFactor, const Variable& loc, const Variable& scale_tril);
  Variable half_log_det() const;
};

/// On [0, inf), with mean 1 / rate.
class Exponential final : public Distribution {
 public:
  explicit Exponential(const Parameter& rate);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable rsample(const Shape& sample_shape = {},
                   Generator& generator = default_generator()) const override;

  Variable rate;
};

/// Density exp(-|x - loc| / scale) / (2 scale).
class Laplace final : public Distribution {
 public:
  Laplace(const Parameter& loc, const Parameter& scale);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable rsample(const Shape& sample_shape = {},
                   Generator& generator = default_generator()) const override;

  Variable loc, scale;
};

/// Of positive numbers whose logarithm is Normal(loc, scale).
class LogNormal final : public Distribution {
 public:
  LogNormal(const Parameter& loc, const Parameter& scale);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable rsample(const Shape& sample_shape = {},
                   Generator& generator = default_generator()) const override;

  Variable loc, scale;

 private:
  Normal normal_;
};

/// On (0, inf), with density proportional to x^(concentration - 1) exp(-rate x). Samples have the
/// gradient of Beta and Dirichlet.
class Gamma final : public Distribution {
 public:
  Gamma(const Parameter& concentration, const Parameter& rate);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable rsample(const Shape& sample_shape = {},
                   Generator& generator = default_generator()) const override;

  Variable concentration, rate;
};

Variable kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q);
Variable kl_divergence(const Exponential& p, const Exponential& q);
Variable kl_divergence(const Laplace& p, const Laplace& q);
Variable kl_divergence(const LogNormal& p, const LogNormal& q);
Variable kl_divergence(const Gamma& p, const Gamma& q);

}  // namespace tapegrad::distributions
