// The normal distribution and distributions derived from it.
#pragma once

#include "core/base/by_name.h"
#include "nn/distributions/distribution.h"

namespace tapegrad::distributions {

/// Normal distribution. Throws ArgumentError unless scale > 0.
class Normal final : public Distribution {
 public:
  Normal(const Parameter& loc, const Parameter& scale);
  Variable entropy() const override;
  Variable mean() const override { return loc; }
  Variable variance() const override { return scale * scale; }
  Variable mode() const override;
  Variable stddev() const override { return scale; }

  Variable loc, scale;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of positive numbers whose logarithm is Normal(loc, scale).
class LogNormal final : public Distribution {
 public:
  LogNormal(const Parameter& loc, const Parameter& scale);
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

  Normal normal_;
};

/// Distribution of |x| for x from Normal(0, scale).
class HalfNormal final : public Distribution {
 public:
  explicit HalfNormal(const Parameter& scale);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  Variable stddev() const override;

  Variable scale;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of vectors [..., d] with a covariance matrix [..., d, d]. Throws LinAlgError unless
/// the matrix is positive definite, and ShapeError if the sizes do not match.
class MultivariateNormal final : public Distribution {
 public:
  MultivariateNormal(const Variable& loc, const Variable& covariance,
                     Where where = Where::current());
  /// Exactly one of the matrices must be set: `MultivariateNormal(loc, {.scale_tril = L})`.
  struct Options {
    ByName by_name = {};
    Variable covariance_matrix = {}, precision_matrix = {}, scale_tril = {};
  };
  MultivariateNormal(const Variable& loc, const Options& options);
  /// Makes the distribution from the lower Cholesky factor of the covariance.
  static MultivariateNormal with_scale_tril(const Variable& loc, const Variable& scale_tril,
                                            Where where = Where::current());
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  int event_rank() const override { return 1; }

  Variable loc, scale_tril;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;

  struct FromFactor {};
  MultivariateNormal(FromFactor, const Variable& loc, const Variable& scale_tril, Where where);
  static Variable factor_of(const Variable& covariance, Where where);
  static Variable factor_of(std::string_view kind, const Options& options);
  friend class Wishart;
  Variable half_log_det() const;
};

}  // namespace tapegrad::distributions
