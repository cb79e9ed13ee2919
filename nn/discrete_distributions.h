// Distributions of counts and of one-hot rows, as in torch.distributions; see nn/distributions.h.
#pragma once

#include "nn/distributions.h"

namespace tapegrad::distributions {

/// Distribution of the number of events that happen at a rate. entropy() throws ArgumentError.
class Poisson final : public Distribution {
 public:
  explicit Poisson(const Parameter& rate);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;

  Variable rate;

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

/// Distribution of the number of failures before the first success, which has probability probs.
class Geometric final : public Distribution {
 public:
  explicit Geometric(const Parameter& p) : Geometric(Odds{p, {}, p.where()}) {}
  explicit Geometric(const Odds& odds);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;

  Variable probs, logits;

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
  bool has_logits_;  // probs may be rounded to 1
};

/// Distribution of the number of successes in total_count trials of probability probs. entropy()
/// sums over all total_count + 1 values.
class Binomial final : public Distribution {
 public:
  Binomial(int64_t count, const Parameter& p) : Binomial(count, Odds{p, {}, p.where()}) {}
  Binomial(int64_t total_count, const Odds& odds);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;

  Variable probs, logits;
  int64_t total_count;

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
  bool has_logits_;  // probs may be rounded to 0 or 1
};

/// Distribution of the number of successes before total_count failures, where a success has
/// probability probs; total_count may be any positive number. entropy() throws ArgumentError.
class NegativeBinomial final : public Distribution {
 public:
  NegativeBinomial(const Parameter& count, const Parameter& p)
      : NegativeBinomial(count, Odds{p, {}, p.where()}) {}
  NegativeBinomial(const Parameter& total_count, const Odds& odds);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;

  Variable total_count, probs, logits;

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
  bool has_logits_;  // probs may be rounded to 0 or 1
};

/// Categorical whose samples are rows of zeros with a single 1.
class OneHotCategorical final : public Distribution {
 public:
  explicit OneHotCategorical(const Variable& p, Where where = Where::current())
      : OneHotCategorical(Odds{p, {}, where}) {}
  explicit OneHotCategorical(const Odds& odds)
      : Distribution("OneHotCategorical"), categorical(odds) {}
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  int event_rank() const override { return 1; }

  Categorical categorical;

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

/// Distribution of rows of positive numbers that sum to 1 and are close to one-hot at a low
/// temperature, with a gradient (Jang et al. 2016; Maddison et al. 2016). mean(), variance() and
/// entropy() throw ArgumentError.
class RelaxedOneHotCategorical final : public Distribution {
 public:
  RelaxedOneHotCategorical(double heat, const Variable& p, Where where = Where::current())
      : RelaxedOneHotCategorical(heat, Odds{p, {}, where}) {}
  RelaxedOneHotCategorical(double temperature, const Odds& odds);
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  int event_rank() const override { return 1; }
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

  double temperature;
  Categorical categorical;

 private:
  Shape value_shape() const override { return categorical.logits.shape(); }
};

}  // namespace tapegrad::distributions
