// Distributions of whole numbers. Distributions of classes have a header of their own, which this
// header includes.
#pragma once

#include "nn/distributions/categorical_distributions.h"
#include "nn/distributions/distribution.h"

namespace tapegrad::distributions {

/// Distribution of 1 with probability probs, and 0 otherwise.
class Bernoulli final : public Distribution {
 public:
  explicit Bernoulli(const Parameter& p);
  explicit Bernoulli(const Odds& odds);
  Variable entropy() const override;
  Variable mean() const override { return probs; }
  Variable variance() const override;
  Variable mode() const override;

  Variable probs, logits;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

/// Distribution of the number of successes in total_count trials of probability probs. entropy()
/// sums over all total_count + 1 values.
class Binomial final : public Distribution {
 public:
  Binomial(int64_t count, const Parameter& p);
  Binomial(int64_t total_count, const Odds& odds);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable probs, logits;
  int64_t total_count;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;

  bool has_logits_;  // probs may be rounded to 0 or 1
};

/// Distribution of the number of successes before total_count failures, where a success has
/// probability probs; total_count may be any positive number. entropy() throws ArgumentError.
class NegativeBinomial final : public Distribution {
 public:
  NegativeBinomial(const Parameter& count, const Parameter& p);
  NegativeBinomial(const Parameter& total_count, const Odds& odds);
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable total_count, probs, logits;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;

  bool has_logits_;  // probs may be rounded to 0 or 1
};

/// Distribution of the number of failures before the first success, which has probability probs.
class Geometric final : public Distribution {
 public:
  explicit Geometric(const Parameter& p);
  explicit Geometric(const Odds& odds);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable probs, logits;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;

  bool has_logits_;  // probs may be rounded to 1
};

/// Distribution of the number of events that happen at a rate. entropy() throws ArgumentError.
class Poisson final : public Distribution {
 public:
  explicit Poisson(const Parameter& rate);
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;

  Variable rate;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

}  // namespace tapegrad::distributions
