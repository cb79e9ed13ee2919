// Probability distributions with gradients, named as in torch.distributions.
//
//   const distributions::Categorical policy({.logits = net(state)});
//   Variable action = policy.sample();
//   Variable loss = -policy.log_prob(action) * reward;
//
//   const distributions::Normal posterior(mean, exp(log_std));
//   Variable z = posterior.rsample();                      // differentiable in mean and log_std
//   Variable kl = kl_divergence(posterior, distributions::Normal(0.0, 1.0));
//
// Parameters broadcast to the shape of a batch of distributions. The values equal PyTorch's.
#pragma once

#include "core/base/generator.h"
#include "core/tape/variable.h"
#include "ops/binary.h"

namespace tapegrad::distributions {

/// Base of the distributions.
class Distribution {
 public:
  virtual ~Distribution() = default;

  /// Returns the log of the density, or of the probability, at a value that broadcasts to the
  /// batch: -inf at a value that cannot occur, NaN at NaN.
  virtual Variable log_prob(const Variable& value) const = 0;
  virtual Variable entropy() const = 0;
  virtual Variable mean() const = 0;
  virtual Variable variance() const = 0;
  Variable stddev() const;
  /// Return the probability of values up to `value`, and its inverse. cdf() is 0 below all values;
  /// icdf() is NaN outside of [0, 1]. Throw ArgumentError if there is no formula.
  virtual Variable cdf(const Variable& value) const;
  virtual Variable icdf(const Variable& probability) const;
  /// Number of dimensions of one value: 0 for numbers, 1 for vectors.
  virtual int event_rank() const { return 0; }
  /// Return the shape of the batch of distributions, and of one value.
  Shape batch_shape() const;
  Shape event_shape() const;
  /// Returns random values of shape [sample_shape, batch, event] without a gradient.
  Variable sample(const Shape& sample_shape = {},
                  RandomGenerator& generator = default_generator()) const;
  /// Returns random values through which gradients flow to the parameters. Throws ArgumentError for
  /// a distribution of integers; use log_prob(sample()) for these. Beta and Dirichlet compute the
  /// gradient by implicit differentiation (Figurnov et al. 2018).
  virtual Variable rsample(const Shape& sample_shape = {},
                           RandomGenerator& generator = default_generator()) const;

  friend class TransformedDistribution;

 protected:
  /// `kind` must be a string literal.
  explicit Distribution(std::string_view kind) : kind_(kind) {}
  std::string_view kind() const { return kind_; }
  /// Returns the shape of a single sample: [batch, event].
  virtual Shape value_shape() const;
  /// Draws a sample. Called without recording. Calls rsample() unless overridden.
  virtual Variable draw(const Shape& sample_shape, RandomGenerator& generator) const {
    return rsample(sample_shape, generator);
  }

 private:
  std::string_view kind_;
};

/// A parameter: a Variable, or a number of the default float dtype.
class Parameter {
 public:
  Parameter(const Variable& value, Where where = Where::current()) : value_(value), where_(where) {}
  Parameter(double value, Where where = Where::current());
  operator const Variable&() const { return value_; }
  /// Returns the line of the program that passed the value, for errors of the distribution.
  Where where() const { return where_; }

 private:
  Variable value_;
  Where where_;
};

/// A parameter that may be left out: `Bernoulli({.probs = 0.5})`.
struct OptionalParameter : Variable {
  OptionalParameter() = default;
  OptionalParameter(const Variable& value) : Variable(value) {}
  OptionalParameter(const Parameter& value) : Variable(value) {}
  OptionalParameter(double value, Where where = Where::current())
      : Variable(Parameter(value, where)) {}
};

/// Probabilities, or their logarithms up to a constant (for Bernoulli: the logits log p - log(1 -
/// p)). Exactly one of the two must be set.
struct Odds {
  OptionalParameter probs = {};
  OptionalParameter logits = {};
  Where where = Where::current();  // line of the call, for errors
};

/// Normal distribution. Throws ArgumentError unless scale > 0.
class Normal final : public Distribution {
 public:
  Normal(const Parameter& loc, const Parameter& scale);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override { return loc; }
  Variable variance() const override { return scale * scale; }
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable loc, scale;
};

/// Uniform distribution on [low, high). Throws ArgumentError unless low < high.
class Uniform final : public Distribution {
 public:
  Uniform(const Parameter& low, const Parameter& high);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable low, high;
};

/// Distribution of 1 with probability probs, and 0 otherwise.
class Bernoulli final : public Distribution {
 public:
  explicit Bernoulli(const Parameter& p) : Bernoulli(Odds{p, {}, p.where()}) {}
  explicit Bernoulli(const Odds& odds);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override { return probs; }
  Variable variance() const override;

  Variable probs, logits;

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

/// Distribution of class ids (int64). The probabilities along the last dimension are divided by
/// their sum.
class Categorical final : public Distribution {
 public:
  explicit Categorical(const Variable& p, Where where = Where::current())
      : Categorical(Odds{p, {}, where}) {}
  explicit Categorical(const Odds& odds);
  Variable log_prob(const Variable& ids) const override;
  Variable entropy() const override;
  Variable mean() const override;      // NaN, because ids have no mean
  Variable variance() const override;  // NaN

  Variable probs, logits;  // normalised

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

/// Distribution of the counts of the classes in total_count draws of a Categorical.
class Multinomial final : public Distribution {
 public:
  Multinomial(int64_t count, const Variable& probs, Where where = Where::current())
      : Multinomial(count, Odds{probs, {}, where}) {}
  Multinomial(int64_t total_count, const Odds& odds);
  Variable log_prob(const Variable& counts) const override;
  Variable entropy() const override;
  Variable mean() const override;
  int event_rank() const override { return 1; }
  Variable variance() const override;

  int64_t total_count;
  Categorical categorical;

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

/// Distribution on the simplex: vectors along the last dimension whose elements are positive and
/// sum to 1.
class Dirichlet final : public Distribution {
 public:
  explicit Dirichlet(const Variable& concentration, Where where = Where::current());
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  int event_rank() const override { return 1; }
  Variable variance() const override;

  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable concentration;
};

/// Distribution on (0, 1) with density proportional to x^(concentration1 - 1) (1 -
/// x)^(concentration0 - 1).
class Beta final : public Distribution {
 public:
  Beta(const Parameter& concentration1, const Parameter& concentration0);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;

  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable concentration1, concentration0;

 private:
  Dirichlet dirichlet_;
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
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  int event_rank() const override { return 1; }
  Variable variance() const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable loc, scale_tril;

 private:
  struct FromFactor {};
  MultivariateNormal(FromFactor, const Variable& loc, const Variable& scale_tril, Where where);
  static Variable factor_of(const Variable& covariance, Where where);
  Variable half_log_det() const;
};

/// Distribution on [0, inf) with mean 1 / rate.
class Exponential final : public Distribution {
 public:
  explicit Exponential(const Parameter& rate);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable rate;
};

/// Distribution with density exp(-|x - loc| / scale) / (2 scale).
class Laplace final : public Distribution {
 public:
  Laplace(const Parameter& loc, const Parameter& scale);
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

/// Distribution of positive numbers whose logarithm is Normal(loc, scale).
class LogNormal final : public Distribution {
 public:
  LogNormal(const Parameter& loc, const Parameter& scale);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable loc, scale;

 private:
  Normal normal_;
};

/// Distribution on (0, inf) with density proportional to x^(concentration - 1) exp(-rate x). The
/// gradient of samples is computed as for Beta and Dirichlet. A second derivative of rsample() or
/// cdf() with respect to the concentration throws AutogradError.
class Gamma final : public Distribution {
 public:
  Gamma(const Parameter& concentration, const Parameter& rate);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  Variable concentration, rate;
};

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
