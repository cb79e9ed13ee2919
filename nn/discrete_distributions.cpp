#include "nn/discrete_distributions.h"

#include <cmath>

#include "nn/internal/distribution_parts.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/noise.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

/// log of the binomial coefficient n over k.
Variable log_choose(double n, const Variable& k) {
  return std::lgamma(n + 1) - lgamma(k + 1.0) - lgamma(n - k + 1.0);
}

Variable probs_of(const Odds& odds) {
  return odds.probs.defined() ? odds.probs : sigmoid(odds.logits);
}
Variable logits_of(const Odds& odds) {
  return odds.logits.defined() ? odds.logits : log(odds.probs) - log1p(-odds.probs);
}
void require_one(std::string_view kind, const Odds& odds) {
  if (odds.probs.defined() == odds.logits.defined())
    fail<ArgumentError>(kind, ": give either .probs or .logits");
}

}  // namespace

Poisson::Poisson(const Parameter& mean_count) : Distribution("Poisson"), rate(mean_count) {
  require(kind(), "rate >= 0", rate >= 0);
}
Variable Poisson::log_prob(const Variable& value) const {
  return xlogy(value, rate) - rate - lgamma(value + 1.0);
}
Variable Poisson::entropy() const { fail<ArgumentError>(kind(), ": no formula for entropy()"); }
Variable Poisson::mean() const { return rate; }
Variable Poisson::variance() const { return rate; }
Variable Poisson::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  return poisson(expand(rate, joined(sample_shape, rate.shape())).contiguous(), generator);
}

Geometric::Geometric(const Odds& odds) : Distribution("Geometric") {
  require_one(kind(), odds);
  probs = probs_of(odds);
  logits = logits_of(odds);
  require(kind(), "0 < probs <= 1", logical_and(probs > 0, probs <= 1));
}
Variable Geometric::log_prob(const Variable& value) const {
  return xlogy(value, 1.0 - probs) + log(probs);
}
Variable Geometric::entropy() const {
  const Variable other = 1.0 - probs;
  return -(xlogy(other, other) + xlogy(probs, probs)) / probs;
}
Variable Geometric::mean() const { return 1.0 / probs - 1.0; }
Variable Geometric::variance() const { return (1.0 / probs - 1.0) / probs; }
Variable Geometric::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable u = open_uniform(joined(sample_shape, probs.shape()), probs, generator);
  return floor(log(u) / log1p(-probs));
}

Binomial::Binomial(int64_t count, const Odds& odds) : Distribution("Binomial"), total_count(count) {
  require_one(kind(), odds);
  if (count < 0) fail<ArgumentError>(kind(), ": total_count is ", count);
  probs = probs_of(odds);
  logits = logits_of(odds);
  require(kind(), "0 <= probs <= 1", logical_and(probs >= 0, probs <= 1));
}
Variable Binomial::log_prob(const Variable& value) const {
  return log_choose(double(total_count), value) + xlogy(value, probs) +
         xlogy(double(total_count) - value, 1.0 - probs);
}
Variable Binomial::entropy() const { fail<ArgumentError>(kind(), ": no formula for entropy()"); }
Variable Binomial::mean() const { return double(total_count) * probs; }
Variable Binomial::variance() const { return double(total_count) * probs * (1.0 - probs); }
Variable Binomial::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  constexpr int64_t kMostTrials = 1 << 20;  // which are drawn one by one
  if (total_count > kMostTrials)
    fail<ArgumentError>(kind(), ": sample() of ", total_count, " trials; at most ", kMostTrials);
  const Shape shape = joined(sample_shape, probs.shape());
  Variable count = zeros(shape, like(probs));
  for (int64_t i = 0; i < total_count; ++i)
    count = count + (rand(shape, like(probs), generator) < probs).to(probs.dtype());
  return count;
}

Variable OneHotCategorical::log_prob(const Variable& value) const {
  return categorical.log_prob(argmax(value, -1));
}
Variable OneHotCategorical::entropy() const { return categorical.entropy(); }
Variable OneHotCategorical::mean() const { return categorical.probs; }
Variable OneHotCategorical::variance() const {
  return categorical.probs * (1.0 - categorical.probs);
}
Variable OneHotCategorical::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable ids = categorical.sample(sample_shape, generator);
  return one_hot(ids, categorical.probs.size(-1)).to(categorical.probs.dtype());
}

RelaxedOneHotCategorical::RelaxedOneHotCategorical(double heat, const Odds& odds)
    : Distribution("RelaxedOneHotCategorical"), temperature(heat), categorical(odds) {
  if (!(heat > 0)) fail<ArgumentError>(kind(), ": temperature is ", heat, ", not > 0");
}
Variable RelaxedOneHotCategorical::log_prob(const Variable& value) const {
  const auto n = double(categorical.logits.size(-1));
  const Variable score = categorical.logits - temperature * log(value);
  const Variable total = sum(score - logsumexp(score, -1, true), -1);
  return total + (std::lgamma(n) + (n - 1) * std::log(temperature)) - sum(log(value), -1);
}
Variable RelaxedOneHotCategorical::entropy() const {
  fail<ArgumentError>(kind(), ": no formula for entropy()");
}
Variable RelaxedOneHotCategorical::mean() const {
  fail<ArgumentError>(kind(), ": no formula for mean()");
}
Variable RelaxedOneHotCategorical::variance() const {
  fail<ArgumentError>(kind(), ": no formula for variance()");
}
Variable RelaxedOneHotCategorical::rsample(const Shape& sample_shape,
                                           RandomGenerator& generator) const {
  const Variable& logits = categorical.logits;
  const Variable u = open_uniform(joined(sample_shape, logits.shape()), logits, generator);
  return softmax((logits - log(-log(u))) / temperature, -1);
}

}  // namespace tapegrad::distributions
