#include "nn/distributions/transformed_distribution.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/index.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/statistics.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
Variable TransformedDistribution::log_prob_at(const Variable& value) const {
  const Variable x = transform_.inv(value);
  const int rank = event_rank() - transform_.codomain_rank() + transform_.domain_rank();
  return sum_last(base_->log_prob(x), rank - base_->event_rank()) -
         sum_last(transform_.log_abs_det_jacobian(x, value), rank - transform_.domain_rank());
}
Variable TransformedDistribution::cdf_at(const Variable& value) const {
  if (transform_.codomain_rank() > 0) return Distribution::cdf_at(value);  // throws
  const Variable below = base_->cdf(transform_.inv(value));
  return where(transform_.sign() > 0, below, 1.0 - below);
}
Variable TransformedDistribution::icdf_at(const Variable& probability) const {
  if (transform_.codomain_rank() > 0) return Distribution::icdf_at(probability);  // throws
  const Variable at = where(transform_.sign() > 0, probability, 1.0 - probability);
  return transform_(base_->icdf(at));
}
Variable TransformedDistribution::draw_differentiably(const Shape& sample_shape,
                                                      RandomGenerator& generator) const {
  return transform_(base_->rsample(sample_shape, generator));
}
Variable TransformedDistribution::draw(const Shape& sample_shape,
                                       RandomGenerator& generator) const {
  return transform_(base_->sample(sample_shape, generator));
}

void Independent::check(Where where) const {
  const ErrorLine line(where);
  if (ndims_ < 0 || ndims_ > base_->batch_shape().rank())
    fail<ArgumentError>(kind(), ": ", ndims_, " dimensions of a batch of ", base_->batch_shape());
}
Variable Independent::log_prob_at(const Variable& value) const {
  return sum_last(base_->log_prob(value), ndims_);
}
Variable Independent::entropy() const { return sum_last(base_->entropy(), ndims_); }
Variable Independent::draw_differentiably(const Shape& sample_shape,
                                          RandomGenerator& generator) const {
  return base_->rsample(sample_shape, generator);
}
Variable Independent::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  return base_->sample(sample_shape, generator);
}

Variable MixtureSameFamily::weights() const {
  Variable probs = mixture_.probs;
  for (int i = 0; i < event_rank(); ++i) probs = unsqueeze(probs, -1);
  return probs;
}
Variable MixtureSameFamily::log_prob_at(const Variable& value) const {
  return logsumexp(components_->log_prob(spread(value)) + log_softmax(mixture_.logits, -1), -1);
}
Variable MixtureSameFamily::mean() const {
  return sum(weights() * components_->mean(), -1 - event_rank());
}
Variable MixtureSameFamily::variance() const {
  const Variable within = sum(weights() * components_->variance(), -1 - event_rank());
  const Variable distance = components_->mean() - spread(mean());
  return within + sum(weights() * square(distance), -1 - event_rank());
}
Variable MixtureSameFamily::cdf_at(const Variable& value) const {
  return sum(components_->cdf(spread(value)) * mixture_.probs, -1);
}
Variable MixtureSameFamily::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable values = components_->sample(sample_shape, generator);
  Variable chosen = unsqueeze(mixture_.sample(sample_shape, generator), -1);
  Shape shape = values.shape();
  const int along = shape.rank() - 1 - event_rank();
  if (along < 0) fail<ShapeError>(kind(), ": components of shape ", shape, " have no batch");
  shape[along] = 1;
  for (int i = 0; i < event_rank(); ++i) chosen = unsqueeze(chosen, -1);
  return squeeze(gather(values, along, expand(chosen, shape).contiguous()), along);
}

}  // namespace tapegrad::distributions

namespace tapegrad::distributions {
int TransformedDistribution::event_rank() const {
  const int further = base_->event_rank() - transform_.domain_rank();
  return transform_.codomain_rank() + std::max(further, 0);
}
Shape TransformedDistribution::value_shape() const {
  const NoGrad no_grad;
  return transform_(zeros(base_->value_shape(), of_number_)).shape();
}
Variable Independent::mean() const { return base_->mean(); }
Variable Independent::mode() const { return base_->mode(); }
Variable Independent::variance() const { return base_->variance(); }
int Independent::event_rank() const { return base_->event_rank() + ndims_; }
int MixtureSameFamily::event_rank() const { return components_->event_rank(); }
Variable MixtureSameFamily::spread(const Variable& value) const {
  return value.unsqueeze(-1 - event_rank());
}
}  // namespace tapegrad::distributions
