#include "nn/distributions/categorical_distributions.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "ops/arithmetic.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

Shape without_last(const Shape& shape) {
  Shape rest;
  for (int i = 0; i + 1 < shape.rank(); ++i) rest.push_back(shape[i]);
  return rest;
}

}  // namespace

Categorical::Categorical(const Odds& odds)
    : Distribution("Categorical", {odds.probs, odds.logits}) {
  const ErrorLine line(odds.where);
  require_one(kind(), odds);
  const Variable given = as_variable(odds.probs.defined() ? odds.probs : odds.logits);
  if (given.rank() == 0) fail<ShapeError>(kind(), ": no dimension of classes");
  if (odds.probs.defined()) {
    const Variable total = sum(given, {-1}, true);
    require(kind(), "probs >= 0", given >= 0, {given});
    require(kind(), "sum(probs) > 0", total > 0, {total});
    probs = given / total;
    logits = log(clamp_probs(probs));
  } else {
    require(kind(), "logits == logits", given == given, {given});
    logits = given - logsumexp(given, {-1}, true);
    probs = softmax(logits, -1);
  }
  of_number_.dtype = f64;  // represents each class id, unlike a dtype of 16 bits
}
Variable Categorical::log_prob_at(const Variable& ids) const {
  const Variable index = unsqueeze(ids.to(i64), -1);
  const Shape batch = without_last(batch_of(index, logits));
  const Variable all = expand(logits, joined(batch, {logits.size(-1)}));
  const Variable picked = reshape(gather(all, -1, expand(index, joined(batch, {1}))), batch);
  return is_float(ids.dtype()) ? where(has_fraction(ids), -INFINITY, picked) : picked;
}
Variable Categorical::entropy() const {
  const double lowest = logits.dtype() == f64 ? -std::numeric_limits<double>::max()
                                              : -std::numeric_limits<float>::max();
  return -sum(clamp(logits, {.min = lowest}) * probs, {-1});
}
Variable Categorical::mean() const { return full(without_last(probs.shape()), NAN, like(probs)); }
Variable Categorical::variance() const { return mean(); }
Variable Categorical::mode() const { return argmax(probs, -1); }
Variable Categorical::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  // The index of the largest of the logits plus Gumbel noise.
  const Variable u = rand(joined(sample_shape, logits.shape()), like(logits), generator);
  return argmax(logits - log(-log(u)), -1);
}

Multinomial::Multinomial(int64_t total_count, const Odds& odds)
    : Distribution("Multinomial", {odds.probs, odds.logits}),
      total_count(total_count),
      categorical(odds) {
  const ErrorLine line(odds.where);
  if (total_count < 0) fail<ArgumentError>(kind(), ": total_count is ", total_count, ", below 0");
}
Variable Multinomial::log_prob_at(const Variable& counts) const {
  const Variable& logits = categorical.logits;
  const Variable n = counts.to(logits.dtype()), total = sum(n, {-1});
  const Variable is_no_count = logical_or(n < 0, has_fraction(n));
  const Variable outside = logical_or(any(is_no_count, -1), total != double(total_count));
  return log_density(n, unsqueeze(outside, -1), 0.0,
                     [&](const Variable& inside) {
                       return unsqueeze(lgamma(total + 1.0) - sum(lgamma(inside + 1.0), {-1}) +
                                            sum(count_times(inside, logits), {-1}),
                                        -1);
                     })
      .squeeze(-1);
}
Variable Multinomial::mean() const { return categorical.probs * double(total_count); }
Variable Multinomial::variance() const {
  return double(total_count) * categorical.probs * (1.0 - categorical.probs);
}
Variable Multinomial::entropy() const {
  // The entropy is n H - log n!, plus the sum over classes of the mean of log x! for x from
  // Binomial(n, p), where H is the entropy of the Categorical.
  const double n = double(total_count);
  Variable result = n * categorical.entropy() - std::lgamma(n + 1);
  const Variable& p = categorical.probs;
  for (int64_t x = 2; x <= total_count; ++x) {
    const double log_factorial = std::lgamma(double(x) + 1);
    const double ways = std::lgamma(n + 1) - log_factorial - std::lgamma(n - double(x) + 1);
    const Variable log_binomial = ways + xlogy(double(x), p) + xlogy(n - double(x), 1.0 - p);
    result = result + log_factorial * sum(exp(log_binomial), {-1});
  }
  return result;
}
Variable Multinomial::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const int64_t classes = categorical.probs.size(-1);
  Variable counts = zeros(joined(sample_shape, categorical.probs.shape()), like(categorical.probs));
  for (int64_t i = 0; i < total_count; ++i)
    counts =
        counts + one_hot(categorical.sample(sample_shape, generator), classes).to(counts.dtype());
  return counts;
}

Variable OneHotCategorical::log_prob_at(const Variable& value) const {
  const Variable outside = logical_or(any(value * value != value, -1), sum(value, -1) != 1.0);
  return where(outside, -INFINITY, categorical.log_prob(argmax(value, -1)));
}
Variable OneHotCategorical::entropy() const { return categorical.entropy(); }
Variable OneHotCategorical::mean() const { return categorical.probs; }
Variable OneHotCategorical::variance() const {
  return categorical.probs * (1.0 - categorical.probs);
}
Variable OneHotCategorical::mode() const {
  return one_hot(categorical.mode(), categorical.probs.size(-1)).to(categorical.probs.dtype());
}
Variable OneHotCategorical::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable ids = categorical.sample(sample_shape, generator);
  return one_hot(ids, categorical.probs.size(-1)).to(categorical.probs.dtype());
}

Variable OneHotCategoricalStraightThrough::draw_differentiably(const Shape& sample_shape,
                                                               RandomGenerator& generator) const {
  const Variable& probs = categorical.probs;
  return sample(sample_shape, generator) + (probs - probs.detach());
}

RelaxedOneHotCategorical::RelaxedOneHotCategorical(const Parameter& heat, const Odds& odds)
    : Distribution("RelaxedOneHotCategorical", {odds.probs, odds.logits, heat}),
      temperature(as_variable(heat)),
      categorical(odds) {
  const ErrorLine line(odds.where);
  require(kind(), "temperature > 0", temperature > 0, {temperature});
}
Variable RelaxedOneHotCategorical::log_prob_at(const Variable& value) const {
  const auto n = double(categorical.logits.size(-1));
  const Variable score = categorical.logits - temperature * log(value);
  const Variable total = sum(score - logsumexp(score, -1, true), -1);
  return total + (std::lgamma(n) + (n - 1) * log(temperature)) - sum(log(value), -1);
}
Variable RelaxedOneHotCategorical::draw_differentiably(const Shape& sample_shape,
                                                       RandomGenerator& generator) const {
  const Variable& logits = categorical.logits;
  const Variable u = open_uniform(joined(sample_shape, logits.shape()), logits, generator);
  return softmax((logits - log(-log(u))) / temperature, -1);
}

}  // namespace tapegrad::distributions

namespace tapegrad::distributions {
Categorical::Categorical(const Variable& p, Where where) : Categorical(Odds{p, {}, where}) {}
Multinomial::Multinomial(int64_t count, const Variable& probs, Where where)
    : Multinomial(count, Odds{probs, {}, where}) {}
OneHotCategorical::OneHotCategorical(const Variable& p, Where where)
    : OneHotCategorical(Odds{p, {}, where}) {}
OneHotCategorical::OneHotCategorical(const Odds& odds)
    : Distribution("OneHotCategorical", {odds.probs, odds.logits}), categorical(odds) {}
RelaxedOneHotCategorical::RelaxedOneHotCategorical(const Parameter& heat, const Variable& p,
                                                   Where where)
    : RelaxedOneHotCategorical(heat, Odds{p, {}, where}) {}
Shape RelaxedOneHotCategorical::value_shape() const { return categorical.logits.shape(); }
}  // namespace tapegrad::distributions
