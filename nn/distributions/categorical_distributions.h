// Distributions of classes: as ids, as one-hot rows, and as counts.
#pragma once

#include "nn/distributions/distribution.h"

namespace tapegrad::distributions {

/// Distribution of class ids (int64). The probabilities along the last dimension are divided by
/// their sum.
class Categorical final : public Distribution {
 public:
  explicit Categorical(const Variable& p, Where where = Where::current());
  explicit Categorical(const Odds& odds);
  Variable entropy() const override;
  Variable mean() const override;      // NaN, because ids have no mean
  Variable variance() const override;  // NaN
  Variable mode() const override;

  Variable probs, logits;  // normalised

 private:
  Variable log_prob_at(const Variable& ids) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

/// Distribution of the counts of the classes in total_count draws of a Categorical.
class Multinomial final : public Distribution {
 public:
  Multinomial(int64_t count, const Variable& probs, Where where = Where::current());
  Multinomial(int64_t total_count, const Odds& odds);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  int event_rank() const override { return 1; }

  int64_t total_count;
  Categorical categorical;

 private:
  Variable log_prob_at(const Variable& counts) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

/// Categorical whose samples are rows of zeros with a single 1.
class OneHotCategorical : public Distribution {
 public:
  explicit OneHotCategorical(const Variable& p, Where where = Where::current());
  explicit OneHotCategorical(const Odds& odds);
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  int event_rank() const override { return 1; }

  Categorical categorical;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
};

/// OneHotCategorical whose rsample() passes the gradient of a sample to probs (Bengio et al. 2013).
class OneHotCategoricalStraightThrough final : public OneHotCategorical {
 public:
  using OneHotCategorical::OneHotCategorical;

 private:
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
};

/// Distribution of rows of positive numbers that sum to 1 and are close to one-hot at a low
/// temperature, with a gradient (Jang et al. 2016; Maddison et al. 2016). mean(), variance() and
/// entropy() throw ArgumentError.
class RelaxedOneHotCategorical final : public Distribution {
 public:
  RelaxedOneHotCategorical(const Parameter& heat, const Variable& p,
                           Where where = Where::current());
  RelaxedOneHotCategorical(const Parameter& temperature, const Odds& odds);
  int event_rank() const override { return 1; }

  Variable temperature;
  Categorical categorical;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;

  Shape value_shape() const override;
};

}  // namespace tapegrad::distributions
