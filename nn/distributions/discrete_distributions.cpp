#include "nn/distributions/discrete_distributions.h"

#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "nn/distributions/internal/gamma_sample.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/special.h"
#include "ops/special_composed.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

/// Returns the log of the binomial coefficient n over k.
Variable log_choose(double n, const Variable& k) {
  return std::lgamma(n + 1) - lgamma(k + 1.0) - lgamma(n - k + 1.0);
}

/// Returns integers in the float dtype of a parameter, and other values unchanged.
Variable as_float(const Variable& value, const Variable& parameter) {
  return is_float(value.dtype()) ? value : value.to(parameter.dtype());
}
Variable is_no_count(const Variable& value) { return logical_or(value < 0, has_fraction(value)); }

/// Returns both the probabilities and the logits, computed from the defined one.
std::pair<Variable, Variable> both_of(const Variable& probs, const Variable& logits) {
  if (probs.defined()) return {probs, log(probs) - log1p(-probs)};
  return {sigmoid(logits), logits};
}

/// Checks the condition of the probabilities if they are given. Logits are any numbers, also those
/// whose probability is rounded to 0 or 1.
void require_odds(std::string_view kind, const Odds& odds, std::string_view condition,
                  const Variable& holds, const Variable& probs, const Variable& logits) {
  if (odds.probs.defined()) return require(kind, condition, holds, {probs});
  require(kind, "logits == logits", logits == logits, {logits});
}

/// Returns the log-probability of numbers of successes and failures. A number of 0 adds 0.
Variable log_of(const Variable& successes, const Variable& failures, const Variable& probs,
                const Variable& logits, bool has_logits) {
  if (!has_logits) return xlogy(successes, probs) + xlog1py(failures, -probs);
  return count_times(successes, logsigmoid(logits)) + count_times(failures, logsigmoid(-logits));
}

}  // namespace

Bernoulli::Bernoulli(const Odds& odds) : Distribution("Bernoulli", {odds.probs, odds.logits}) {
  const ErrorLine line(odds.where);
  require_one(kind(), odds);
  if (odds.probs.defined()) {
    probs = as_variable(odds.probs);
    require(kind(), "0 <= probs <= 1", logical_and(probs >= 0, probs <= 1), {probs});
    const Variable p = clamp_probs(probs);
    logits = log(p) - log1p(-p);
  } else {
    logits = as_variable(odds.logits);
    require(kind(), "logits == logits", logits == logits, {logits});
    probs = sigmoid(logits);
  }
}
Variable Bernoulli::log_prob_at(const Variable& value) const {
  batch_of(logits, value);  // checks the shapes
  const Variable x = value.to(logits.dtype()), outside = abs(x * x - x) > 0;
  return log_density(x, outside, 0.0, [&](const Variable& inside) {
    return log_of(inside, 1.0 - inside, probs, logits, true);
  });
}
Variable Bernoulli::entropy() const { return -log_of(probs, 1.0 - probs, probs, logits, true); }
Variable Bernoulli::variance() const { return probs * (1.0 - probs); }
Variable Bernoulli::mode() const {
  return where(probs == 0.5, NAN, (probs > 0.5).to(probs.dtype()));
}
Variable Bernoulli::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  return bernoulli(expand(probs, joined(sample_shape, probs.shape())), generator);
}

Binomial::Binomial(int64_t count, const Odds& odds)
    : Distribution("Binomial", {odds.probs, odds.logits}),
      total_count(count),
      has_logits_(odds.logits.defined()) {
  const ErrorLine line(odds.where);
  require_one(kind(), odds);
  if (count < 0) fail<ArgumentError>(kind(), ": total_count is ", count);
  std::tie(probs, logits) = both_of(as_variable(odds.probs), as_variable(odds.logits));
  require_odds(kind(), odds, "0 <= probs <= 1", logical_and(probs >= 0, probs <= 1), probs, logits);
}
Variable Binomial::log_prob_at(const Variable& given) const {
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
  // -p log p of the logarithms: p may round to 0, where the derivative of entr(p) is infinite.
  const Variable logs = log_prob(counts.to(probs.device()));
  return -sum(count_times(exp(logs), logs), 0);
}
Variable Binomial::mean() const { return double(total_count) * probs; }
Variable Binomial::variance() const { return double(total_count) * probs * (1.0 - probs); }
Variable Binomial::mode() const {
  return clamp_max(floor(double(total_count + 1) * probs), double(total_count));
}
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
    : Distribution("NegativeBinomial", {failures, odds.probs, odds.logits}),
      has_logits_(odds.logits.defined()) {
  const ErrorLine line(odds.where);
  require_one(kind(), odds);
  const Variable count = as_variable(failures);
  const auto [p, log_odds] = both_of(as_variable(odds.probs), as_variable(odds.logits));
  require(kind(), "total_count > 0", count > 0, {count});
  require_odds(kind(), odds, "0 <= probs < 1", logical_and(p >= 0, p < 1), p, log_odds);
  const std::vector<Variable> all = broadcast_tensors({count, p, log_odds});
  total_count = all[0];
  probs = all[1];
  logits = all[2];
}
Variable NegativeBinomial::log_prob_at(const Variable& given) const {
  const Variable value = as_float(given, probs);
  return log_density(value, is_no_count(value), 0.0, [&](const Variable& x) {
    return lgamma(total_count + x) - lgamma(x + 1.0) - lgamma(total_count) +
           log_of(x, total_count, probs, logits, has_logits_);
  });
}
Variable NegativeBinomial::mean() const { return total_count * exp(logits); }
Variable NegativeBinomial::variance() const { return mean() / sigmoid(-logits); }
Variable NegativeBinomial::mode() const {
  return clamp_min(floor((total_count - 1.0) * exp(logits)), 0.0);
}
Variable NegativeBinomial::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable count = expand(total_count, joined(sample_shape, probs.shape())).contiguous();
  return poisson(rsample_gamma(count, generator) * exp(logits), generator);
}

Geometric::Geometric(const Odds& odds)
    : Distribution("Geometric", {odds.probs, odds.logits}), has_logits_(odds.logits.defined()) {
  const ErrorLine line(odds.where);
  require_one(kind(), odds);
  std::tie(probs, logits) = both_of(as_variable(odds.probs), as_variable(odds.logits));
  require_odds(kind(), odds, "0 < probs <= 1", logical_and(probs > 0, probs <= 1), probs, logits);
}
Variable Geometric::log_prob_at(const Variable& given) const {
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
Variable Geometric::mode() const { return zeros_like(probs.detach()); }
Variable Geometric::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable u = open_uniform(joined(sample_shape, probs.shape()), probs, generator);
  return floor(log(u) / log1p(-probs));
}

Poisson::Poisson(const Parameter& mean_count)
    : Distribution("Poisson", {mean_count}), rate(as_variable(mean_count)) {
  const ErrorLine line(mean_count.where());
  require(kind(), "rate >= 0", rate >= 0, {rate});
}
Variable Poisson::log_prob_at(const Variable& given) const {
  const Variable value = as_float(given, rate);
  return log_density(value, is_no_count(value), 0.0,
                     [&](const Variable& x) { return xlogy(x, rate) - rate - lgamma(x + 1.0); });
}
Variable Poisson::mean() const { return rate; }
Variable Poisson::variance() const { return rate; }
Variable Poisson::mode() const { return floor(rate); }
Variable Poisson::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  return poisson(expand(rate, joined(sample_shape, rate.shape())).contiguous(), generator);
}

}  // namespace tapegrad::distributions

namespace tapegrad::distributions {
Bernoulli::Bernoulli(const Parameter& p) : Bernoulli(Odds{p, {}, p.where()}) {}
Binomial::Binomial(int64_t count, const Parameter& p) : Binomial(count, Odds{p, {}, p.where()}) {}
NegativeBinomial::NegativeBinomial(const Parameter& count, const Parameter& p)
    : NegativeBinomial(count, Odds{p, {}, p.where()}) {}
Geometric::Geometric(const Parameter& p) : Geometric(Odds{p, {}, p.where()}) {}
}  // namespace tapegrad::distributions
