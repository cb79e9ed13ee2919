// Distributions of matrices, and the normal distribution whose covariance matrix has a low rank.
#pragma once

#include "nn/distributions/distribution.h"
#include "nn/distributions/normal_distributions.h"

namespace tapegrad::distributions {

/// Normal distribution of vectors [..., d] with the covariance matrix W W^T plus a diagonal, for a
/// cov_factor W [..., d, m] and a cov_diag [..., d]. log_prob() takes O(d m^2) operations. Throws
/// ShapeError if the sizes do not match.
class LowRankMultivariateNormal final : public Distribution {
 public:
  LowRankMultivariateNormal(const Variable& loc, const Variable& cov_factor,
                            const Variable& cov_diag, Where where = Where::current());
  Variable covariance_matrix() const;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  int event_rank() const override { return 1; }

  Variable loc, cov_factor, cov_diag;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
  Shape value_shape() const override;
  Variable log_det() const;  // of the covariance matrix

  Variable capacitance_tril_;  // Cholesky factor of I + W^T D^-1 W
};

/// Distribution of the positive definite matrices [..., d, d] that are the sum of x x^T over df
/// normal vectors x of a covariance matrix. Throws ArgumentError unless df > d - 1.
class Wishart final : public Distribution {
 public:
  Wishart(const Parameter& degrees, const Variable& covariance, Where where = Where::current());
  /// Exactly one of the matrices must be set: `Wishart(df, {.scale_tril = L})`.
  Wishart(const Parameter& df, const MultivariateNormal::Options& options);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  int event_rank() const override { return 2; }

  Variable df, scale_tril;

 private:
  struct FromFactor {};
  Wishart(FromFactor, const Parameter& df, const Variable& factor);
  int64_t size() const { return scale_tril.size(-1); }
  Variable covariance() const;
  Variable log_det() const;
  Variable log_prob_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of the lower Cholesky factors [..., dim, dim] of correlation matrices M with
/// density proportional to det(M)^(concentration - 1) (Lewandowski, Kurowicka and Joe 2009).
/// mean(), variance(), entropy() and rsample() throw ArgumentError.
class LKJCholesky final : public Distribution {
 public:
  explicit LKJCholesky(int64_t dim, const Parameter& concentration = 1.0);
  int event_rank() const override { return 2; }

  int64_t dim;
  Variable concentration;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
  Shape value_shape() const override;
};

}  // namespace tapegrad::distributions
