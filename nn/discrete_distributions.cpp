#include "nn/discrete_distributions.h"

#include <cmath>

#include "core/tape/internal/call_line.h"
#include "nn/internal/distribution_parts.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/arrange.h"
#include "ops/binary.h"
#include "ops/composed.h"
#include "ops/create.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/noise.h"
#include "ops/numeric.h"
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

/// Integers in the float dtype of a parameter; other values unchanged.
Variable as_float(const Variable& value, const Variable& parameter) {
  return is_float(value.dtype()) ? value : value.to(parameter.dtype());
}
Variable is_no_count(const Variable& value) { return logical_or(value < 0, has_fraction(value)); }

Variable probs_of(const Odds& odds) {
  if (odds.probs.defined()) return odds.probs;
  return sigmoid(odds.logits);
}
Variable logits_of(const Odds& odds) {
  if (odds.logits.defined()) return odds.logits;
  return log(odds.probs) - log1p(-odds.probs);
}
/// Returns the log-probability of numbers of successes and failures. A number of 0 adds 0.
Variable log_of(const Variable& successes, const Variable& failures, const Variable& probs,
                const Variable& logits, bool has_logits) {
  if (!has_logits) return xlogy(successes, probs) + xlog1py(failures, -probs);
  return count_times(successes, logsigmoid(logits)) + count_times(failures, logsigmoid(-logits));
}
void require_one(std::string_view kind, const Odds& odds) {
  if (odds.probs.defined() == odds.logits.defined())
    fail<ArgumentError>(kind, ": give either .probs or .logits");
}

}  // namespace

Poisson::Poisson(const Parameter& mean_count) : Distribution("Poisson"), rate(mean_count) {
  const ErrorLine line(mean_count.where());
  require(kind(), "rate >= 0", rate >= 0);
}
Variable Poisson::log_prob(const Variable& given) const {
  const Variable value = as_float(given, rate);
  return log_density(value, is_no_count(value), 0.0,
                     [&](const Variable& x) { return xlogy(x, rate) - rate - lgamma(x + 1.0); });
}
Variable Poisson::entropy() const { fail<ArgumentError>(kind(), ": no formula for entropy()"); }
Variable Poisson::mean() const { return rate; }
Variable Poisson::variance() const { return rate; }
Variable Poisson::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  return poisson(expand(rate, joined(sample_shape, rate.shape())).contiguous(), generator);
}

Geometric::Geometric(const Odds& odds)
    : Distribution("Geometric"), has_logits_(odds.logits.defined()) {
  const ErrorLine line(odds.where);
  require_one(kind(), odds);
  probs = probs_of(odds);
  logits = logits_of(odds);
  require(kind(), "0 < probs <= 1", logical_and(probs > 0, probs <= 1));
}
Variable Geometric::log_prob(const Variable& given) const {
  const Variable value = as_float(given, probs);
  return log_density(value, is_no_count(value), 0.0, [&](const Variable& x) {
    return log_of(ones_like(x), x, probs, logits, has_logits_);
  });
}
Variable Geometric::entropy() const {
  return -(xlog1py(1.0 - probs, -probs) + xlogy(probs, probs)) / probs;
}
Variable Geometric::mean() const { return 1.0 / probs - 1.0; }
Variable Geometric::variance() const { return (1.0 / probs - 1.0) / probs; }
Variable Geometric::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable u = open_uniform(joined(sample_shape, probs.shape()), probs, generator);
  return floor(log(u) / log1p(-probs));
}

Binomial::Binomial(int64_t count, const Odds& odds)
    : Distribution("Binomial"), total_count(count), has_logits_(odds.logits.defined()) {
  const ErrorLine line(odds.where);
  require_one(kind(), odds);
  if (count < 0) fail<ArgumentError>(kind(), ": total_count is ", count);
  probs = probs_of(odds);
  logits = logits_of(odds);
  require(kind(), "0 <= probs <= 1", logical_and(probs >= 0, probs <= 1));
}
Variable Binomial::log_prob(const Variable& given) const {
  const Variable value = as_float(given, probs);
  const double n = double(total_count);
  return log_density(value, logical_or(is_no_count(value), value > n), 0.0, [&](const Variable& x) {
    return log_choose(n, x) + log_of(x, n - x, probs, logits, has_logits_);
  });
}
Variable Binomial::entropy() const {
  constexpr int64_t kMostTrials = int64_t(1) << 30;  // whose terms are added
  if (total_count > kMostTrials)
    fail<ArgumentError>(kind(), ": entropy() of ", total_count, " trials; at most ", kMostTrials);
  Shape shape = Dims::filled(probs.rank() + 1, 1);
  shape[0] = total_count + 1;
  const Variable counts = reshape(arange(total_count + 1, {.dtype = probs.dtype()}), shape);
  return sum(entr(exp(log_prob(counts.to(probs.device())))), 0);
}
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

NegativeBinomial::NegativeBinomial(const Parameter& failures, const Odds& odds)
    : Distribution("NegativeBinomial"), has_logits_(odds.logits.defined()) {
  const ErrorLine line(odds.where);
  require_one(kind(), odds);
  const Variable& count = failures;
  const Variable p = probs_of(odds), log_odds = logits_of(odds);
  require(kind(), "total_count > 0", count > 0);
  require(kind(), "0 <= probs < 1", logical_and(p >= 0, p < 1));
  const std::vector<Variable> all = broadcast_tensors({count, p, log_odds});
  total_count = all[0];
  probs = all[1];
  logits = all[2];
}
Variable NegativeBinomial::log_prob(const Variable& given) const {
  const Variable value = as_float(given, probs);
  return log_density(value, is_no_count(value), 0.0, [&](const Variable& x) {
    return lgamma(total_count + x) - lgamma(x + 1.0) - lgamma(total_count) +
           log_of(x, total_count, probs, logits, has_logits_);
  });
}
Variable NegativeBinomial::entropy() const {
  fail<ArgumentError>(kind(), ": no formula for entropy()");
}
Variable NegativeBinomial::mean() const { return total_count * exp(logits); }
Variable NegativeBinomial::variance() const { return mean() / sigmoid(-logits); }
Variable NegativeBinomial::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable count = expand(total_count, joined(sample_shape, probs.shape())).contiguous();
  return poisson(rsample_gamma(count, generator) * exp(logits), generator);
}

Variable OneHotCategorical::log_prob(const Variable& value) const {
  const Variable outside = logical_or(any(value * value != value, -1), sum(value, -1) != 1.0);
  return where(outside, -INFINITY, categorical.log_prob(argmax(value, -1)));
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
  const ErrorLine line(odds.where);
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
