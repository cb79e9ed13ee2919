#include "nn/distributions.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "nn/internal/distribution_parts.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/arrange.h"
#include "ops/composed.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/internal/pointwise_kernels.h"
#include "ops/internal/value_checks.h"
#include "ops/linalg.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kLogTwoPi = std::log(2 * std::numbers::pi);

Shape without_last(const Shape& shape) {
  Shape rest;
  for (int i = 0; i + 1 < shape.rank(); ++i) rest.push_back(shape[i]);
  return rest;
}

double epsilon(DType dtype) {
  if (dtype == f64) return std::numeric_limits<double>::epsilon();
  if (dtype == f32) return std::numeric_limits<float>::epsilon();
  return dtype == f16 ? 0x1p-10 : 0x1p-7;
}

Variable clamp_probs(const Variable& probs) {
  const double eps = epsilon(probs.dtype());
  return clamp(probs, {.min = eps, .max = 1 - eps});
}

void require_one(std::string_view kind, const Odds& odds) {
  if (odds.probs.defined() == odds.logits.defined())
    fail<ArgumentError>(kind, ": give either .probs or .logits");
}

}  // namespace

Shape joined(const Shape& a, const Shape& b) {
  Shape shape = a;
  for (const int64_t size : b) shape.push_back(size);
  return shape;
}

Shape batch_of(const Variable& a, const Variable& b) {
  const NoGrad no_grad;
  return (a + b).shape();
}

void require(std::string_view kind, std::string_view condition, const Variable& holds) {
  detail::check_values(all(holds).value(), [kind, condition](const Tensor& x) {
    if (x.item() == 0) fail<ArgumentError>(kind, ": a parameter does not satisfy ", condition);
  });
}

Variable count_times(const Variable& counts, const Variable& logs) {
  return counts * where(logical_and(counts == 0, logs == -INFINITY), 0.0, logs);
}
Variable has_fraction(const Variable& value) {
  if (!is_float(value.dtype())) return value != value;
  return value - floor(value) > 0;  // false for NaN and infinities
}

Variable checked_probability(const Variable& probability) {
  const Variable is_invalid = logical_or(probability<0, probability> 1);
  return where(is_invalid, NAN, probability);
}

Parameter::Parameter(double value, Where where) : value_(full({}, value)), where_(where) {}

Variable Distribution::stddev() const { return sqrt(variance()); }
Variable Distribution::cdf(const Variable&) const {
  fail<ArgumentError>(kind_, ": no formula for cdf()");
}
Variable Distribution::icdf(const Variable&) const {
  fail<ArgumentError>(kind_, ": no formula for icdf()");
}
Shape Distribution::value_shape() const { return mean().shape(); }
Shape Distribution::batch_shape() const {
  const Shape all = value_shape();
  Shape batch;
  for (int i = 0; i < all.rank() - event_rank(); ++i) batch.push_back(all[i]);
  return batch;
}
Shape Distribution::event_shape() const {
  const Shape all = value_shape();
  Shape event;
  for (int i = all.rank() - event_rank(); i < all.rank(); ++i) event.push_back(all[i]);
  return event;
}
Variable Distribution::sample(const Shape& sample_shape, RandomGenerator& generator) const {
  const NoGrad no_grad;
  return draw(sample_shape, generator);
}

Variable Distribution::rsample(const Shape&, RandomGenerator&) const {
  fail<ArgumentError>(kind(),
                      ": rsample: no gradient flows through a sample; use sample() and log_prob()");
}

Normal::Normal(const Parameter& mean, const Parameter& deviation) : Distribution("Normal") {
  const ErrorLine line(deviation.where());
  const std::vector<Variable> both = broadcast_tensors({mean, deviation});
  loc = both[0];
  scale = both[1];
  require(kind(), "scale > 0", gt(scale, 0.0));
}
Variable Normal::log_prob(const Variable& value) const {
  const Variable distance = value - loc;
  return -(distance * distance) / (2.0 * variance()) - log(scale) -
         std::log(std::sqrt(2 * std::numbers::pi));
}
Variable Normal::entropy() const {
  return (0.5 + 0.5 * kLogTwoPi) + log(scale) + 0.0 * loc.detach();
}
Variable Normal::cdf(const Variable& value) const { return ndtr((value - loc) / scale); }
Variable Normal::icdf(const Variable& probability) const {
  return loc + scale * ndtri(probability);
}
Variable Normal::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return loc + scale * randn(joined(sample_shape, batch_of(loc, scale)), like(loc), generator);
}

Uniform::Uniform(const Parameter& low, const Parameter& high)
    : Distribution("Uniform"), low(low), high(high) {
  const ErrorLine line(high.where());
  require(kind(), "low < high", lt(this->low, this->high));
}
Variable Uniform::log_prob(const Variable& value) const {
  const Variable is_inside = logical_and(le(low, value), gt(high, value));
  return log(is_inside.to(low.dtype())) - log(high - low);
}
Variable Uniform::entropy() const { return log(high - low); }
Variable Uniform::mean() const { return (high + low) / 2.0; }
Variable Uniform::variance() const { return (high - low) * (high - low) / 12.0; }
Variable Uniform::cdf(const Variable& value) const {
  return clamp((value - low) / (high - low), {.min = 0.0, .max = 1.0});
}
Variable Uniform::icdf(const Variable& probability) const {
  return low + checked_probability(probability) * (high - low);
}
Variable Uniform::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable u = rand(joined(sample_shape, batch_of(low, high)), like(low), generator);
  return low + u * (high - low);
}

Bernoulli::Bernoulli(const Odds& odds) : Distribution("Bernoulli") {
  const ErrorLine line(odds.where);
  require_one("Bernoulli", odds);
  if (odds.probs.defined()) {
    probs = odds.probs;
    require("Bernoulli", "0 <= probs <= 1", logical_and(ge(probs, 0.0), le(probs, 1.0)));
    const Variable p = clamp_probs(probs);
    logits = log(p) - log1p(-p);
  } else {
    logits = odds.logits;
    probs = sigmoid(logits);
  }
}
Variable Bernoulli::log_prob(const Variable& value) const {
  const Shape shape = batch_of(logits, value);
  const Variable x = value.to(logits.dtype()), outside = abs(x * x - x) > 0;
  return log_density(x, outside, 0.0, [&](const Variable& inside) {
    return -binary_cross_entropy_with_logits(expand(logits, shape), expand(inside, shape),
                                             {.reduction = Reduction::kNone});
  });
}
Variable Bernoulli::entropy() const {
  return binary_cross_entropy_with_logits(logits, probs, {.reduction = Reduction::kNone});
}
Variable Bernoulli::variance() const { return probs * (1.0 - probs); }
Variable Bernoulli::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  return bernoulli(expand(probs, joined(sample_shape, probs.shape())), generator);
}

Categorical::Categorical(const Odds& odds) : Distribution("Categorical") {
  const ErrorLine line(odds.where);
  require_one("Categorical", odds);
  const Variable& given = odds.probs.defined() ? odds.probs : odds.logits;
  if (given.rank() == 0) fail<ShapeError>("Categorical: no dimension of classes");
  if (odds.probs.defined()) {
    require("Categorical", "probs >= 0", ge(given, 0.0));
    require("Categorical", "a sum of probs > 0", gt(sum(given, {-1}), 0.0));
    probs = given / sum(given, {-1}, true);
    logits = log(clamp_probs(probs));
  } else {
    require("Categorical", "logits that are not NaN", eq(given, given));
    logits = given - logsumexp(given, {-1}, true);
    probs = softmax(logits, -1);
  }
}
Variable Categorical::log_prob(const Variable& ids) const {
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
Variable Categorical::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  // The index of the largest of the logits plus Gumbel noise.
  const Variable u = rand(joined(sample_shape, logits.shape()), like(logits), generator);
  return argmax(logits - log(-log(u)), -1);
}

Multinomial::Multinomial(int64_t total_count, const Odds& odds)
    : Distribution("Multinomial"), total_count(total_count), categorical(odds) {
  const ErrorLine line(odds.where);
  if (total_count < 0)
    fail<ArgumentError>("Multinomial: total_count is ", total_count, ", below 0");
}
Variable Multinomial::log_prob(const Variable& counts) const {
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
/// n H - log n! + the sum over classes of the mean of log x! for x ~ Binomial(n, p).
Variable Multinomial::entropy() const {
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

Dirichlet::Dirichlet(const Variable& concentration, Where where)
    : Distribution("Dirichlet"), concentration(concentration) {
  const ErrorLine line(where);
  if (concentration.rank() == 0) fail<ShapeError>("Dirichlet: no dimension of elements");
  require("Dirichlet", "concentration > 0", gt(concentration, 0.0));
}
Variable Dirichlet::log_prob(const Variable& value) const {
  // A vector whose sum is 1 up to rounding.
  const Variable is_no_sum =
      abs(sum(value, {-1}, true) - 1.0) > std::sqrt(epsilon(concentration.dtype()));
  const Variable outside = logical_or(any(value < 0, -1, true), is_no_sum);
  return log_density(value, outside, 0.5,
                     [&](const Variable& inside) {
                       return sum(xlogy(concentration - 1.0, inside), {-1}, true) +
                              lgamma(sum(concentration, {-1}, true)) -
                              sum(lgamma(concentration), {-1}, true);
                     })
      .squeeze(-1);
}
Variable Dirichlet::entropy() const {
  const Variable total = sum(concentration, {-1});
  return sum(lgamma(concentration), {-1}) - lgamma(total) -
         (double(concentration.size(-1)) - total) * digamma(total) -
         sum((concentration - 1.0) * digamma(concentration), {-1});
}
Variable Dirichlet::mean() const { return concentration / sum(concentration, {-1}, true); }
Variable Dirichlet::variance() const {
  const Variable total = sum(concentration, {-1}, true);
  return concentration * (total - concentration) / (total * total * (total + 1.0));
}
Variable Dirichlet::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable gamma =
      rsample_gamma(expand(concentration, joined(sample_shape, concentration.shape())), generator);
  return gamma / sum(gamma, {-1}, true);
}

namespace {

Variable pair_of(const Variable& a, const Variable& b) {
  const Shape shape = batch_of(a, b);
  return stack({{expand(a, shape), expand(b, shape)}}, -1);
}

}  // namespace

Beta::Beta(const Parameter& concentration1, const Parameter& concentration0)
    : Distribution("Beta"),
      concentration1(concentration1),
      concentration0(concentration0),
      dirichlet_(pair_of(concentration1, concentration0), concentration1.where()) {}
Variable Beta::log_prob(const Variable& value) const {
  const Variable outside = logical_or(value<0, value> 1);
  return log_density(value, outside, 0.5, [&](const Variable& x) {
    return xlogy(concentration1 - 1.0, x) + xlogy(concentration0 - 1.0, 1.0 - x) +
           lgamma(concentration1 + concentration0) - lgamma(concentration1) -
           lgamma(concentration0);
  });
}
Variable Beta::entropy() const { return dirichlet_.entropy(); }
Variable Beta::mean() const { return concentration1 / (concentration1 + concentration0); }
Variable Beta::variance() const {
  const Variable total = concentration1 + concentration0;
  return concentration1 * concentration0 / (total * total * (total + 1.0));
}
Variable Beta::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return select(dirichlet_.rsample(sample_shape, generator), -1, 0);
}

Variable kl_divergence(const Normal& p, const Normal& q) {
  const Variable ratio = p.scale / q.scale, distance = (p.loc - q.loc) / q.scale;
  const Variable squared = ratio * ratio;
  return 0.5 * (squared + distance * distance - 1.0 - log(squared));
}

Variable kl_divergence(const Uniform& p, const Uniform& q) {
  const Variable result = log((q.high - q.low) / (p.high - p.low));
  return where(logical_or(gt(q.low, p.low), lt(q.high, p.high)), kInfinity, result);
}

Variable kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  const Variable ones =
      where(eq(q.probs, 0.0), kInfinity, p.probs * (softplus(-q.logits) - softplus(-p.logits)));
  const Variable zeros = where(eq(q.probs, 1.0), kInfinity,
                               (1.0 - p.probs) * (softplus(q.logits) - softplus(p.logits)));
  return where(eq(p.probs, 0.0), 0.0, ones) + where(eq(p.probs, 1.0), 0.0, zeros);
}

Variable kl_divergence(const Categorical& p, const Categorical& q) {
  const Variable part = where(eq(q.probs, 0.0), kInfinity, p.probs * (p.logits - q.logits));
  return sum(where(eq(p.probs, 0.0), 0.0, part), {-1});
}

Variable kl_divergence(const Dirichlet& p, const Dirichlet& q) {
  const Variable &a = p.concentration, &b = q.concentration;
  const Variable total = sum(a, {-1}, true);
  return lgamma(sum(a, {-1})) - lgamma(sum(b, {-1})) - sum(lgamma(a) - lgamma(b), {-1}) +
         sum((a - b) * (digamma(a) - digamma(total)), {-1});
}

Variable kl_divergence(const Beta& p, const Beta& q) {
  return kl_divergence(Dirichlet(pair_of(p.concentration1, p.concentration0)),
                       Dirichlet(pair_of(q.concentration1, q.concentration0)));
}

Variable MultivariateNormal::factor_of(const Variable& covariance, Where where) {
  const ErrorLine line(where);
  return linalg::cholesky(covariance);
}
MultivariateNormal::MultivariateNormal(const Variable& location, const Variable& covariance,
                                       Where where)
    : MultivariateNormal(FromFactor(), location, factor_of(covariance, where), where) {}

MultivariateNormal::MultivariateNormal(const Variable& location, const Options& options)
    : MultivariateNormal([&] {
        const auto& [named, covariance, precision, factor] = options;
        const ErrorLine line(named.where);
        if (covariance.defined() + precision.defined() + factor.defined() != 1)
          fail<ArgumentError>(
              "MultivariateNormal: give one of covariance_matrix, "
              "precision_matrix and scale_tril");
        if (factor.defined()) return with_scale_tril(location, factor, named.where);
        return MultivariateNormal(
            location, covariance.defined() ? covariance : linalg::inv(precision), named.where);
      }()) {}

MultivariateNormal::MultivariateNormal(FromFactor, const Variable& location, const Variable& factor,
                                       Where where)
    : Distribution("MultivariateNormal"), loc(location), scale_tril(factor) {
  const ErrorLine line(where);
  if (factor.rank() < 2 || loc.rank() < 1 || factor.size(-1) != loc.size(-1) ||
      factor.size(-2) != loc.size(-1))
    fail<ShapeError>(kind(), ": a location of ", loc.shape(), " for a matrix of ", factor.shape());
}

MultivariateNormal MultivariateNormal::with_scale_tril(const Variable& loc,
                                                       const Variable& scale_tril, Where where) {
  const ErrorLine line(where);
  MultivariateNormal result(FromFactor(), loc, tril(scale_tril), where);
  require(result.kind(), "a positive diagonal of scale_tril", diagonal(scale_tril, 0, -2, -1) > 0);
  return result;
}

Variable MultivariateNormal::half_log_det() const {
  return sum(log(diagonal(scale_tril, 0, -2, -1)), -1);
}

Variable MultivariateNormal::log_prob(const Variable& value) const {
  const Variable difference = unsqueeze(value - loc, -1);
  const Variable z = linalg::solve_triangular(scale_tril, difference, {.upper = false});
  const double constant = 0.5 * double(loc.size(-1)) * kLogTwoPi;
  return -0.5 * sum(square(z), {-2, -1}) - half_log_det() - constant;
}

Variable MultivariateNormal::entropy() const {
  const Variable batch = sum(zeros_like(mean()), -1);
  return batch + half_log_det() + 0.5 * double(loc.size(-1)) * (1 + kLogTwoPi);
}

Variable MultivariateNormal::mean() const {
  return expand(loc, batch_of(loc, sum(scale_tril.detach(), -1)));
}
Variable MultivariateNormal::variance() const {
  return expand(sum(square(scale_tril), -1), mean().shape());
}

Variable MultivariateNormal::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable z = randn(joined(sample_shape, mean().shape()), like(loc), generator);
  return loc + squeeze(matmul(scale_tril, unsqueeze(z, -1)), -1);
}

Exponential::Exponential(const Parameter& parameter)
    : Distribution("Exponential"), rate(parameter) {
  const ErrorLine line(parameter.where());
  require(kind(), "rate > 0", rate > 0);
}
Variable Exponential::log_prob(const Variable& value) const {
  return log_density(value, value < 0, 1.0,
                     [&](const Variable& x) { return log(rate) - rate * x; });
}
Variable Exponential::entropy() const { return 1.0 - log(rate); }
Variable Exponential::mean() const { return 1.0 / rate; }
Variable Exponential::variance() const { return 1.0 / square(rate); }
Variable Exponential::cdf(const Variable& value) const {
  return -expm1(-rate * clamp_min(value, 0.0));
}
Variable Exponential::icdf(const Variable& probability) const {
  return -log1p(-checked_probability(probability)) / rate;
}
Variable Exponential::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return -log((1.0 - rand(joined(sample_shape, rate.shape()), like(rate), generator))) / rate;
}

Laplace::Laplace(const Parameter& location, const Parameter& width)
    : Distribution("Laplace"), loc(location), scale(width) {
  const ErrorLine line(width.where());
  require(kind(), "scale > 0", scale > 0);
}
Variable Laplace::log_prob(const Variable& value) const {
  return -abs(value - loc) / scale - log(2.0 * scale);
}
Variable Laplace::entropy() const { return 1.0 + log(2.0 * scale) + zeros_like(loc); }
Variable Laplace::mean() const { return expand(loc, batch_of(loc, scale)); }
Variable Laplace::variance() const { return 2.0 * square(scale) + zeros_like(loc); }
Variable Laplace::cdf(const Variable& value) const {
  const Variable z = (value - loc) / scale;
  return where(z < 0, 0.5 * exp(clamp_max(z, 0.0)), 1.0 - 0.5 * exp(-clamp_min(z, 0.0)));
}
Variable Laplace::icdf(const Variable& probability) const {
  const Variable p = checked_probability(probability);
  return loc + scale * where(p < 0.5, log(2.0 * p), -log(2.0 - 2.0 * p));
}
Variable Laplace::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(loc, scale));
  const Variable magnitude = -log(1.0 - rand(shape, like(scale), generator));  // never log(0)
  const Variable side = sign(rand(shape, like(scale), generator) - 0.5);
  return loc + scale * magnitude * side;
}

LogNormal::LogNormal(const Parameter& location, const Parameter& width)
    : Distribution("LogNormal"), loc(location), scale(width), normal_(location, width) {}
Variable LogNormal::log_prob(const Variable& value) const {
  return log_density(value, value <= 0, 1.0, [&](const Variable& x) {
    const Variable logs = log(x);
    return normal_.log_prob(logs) - logs;
  });
}
Variable LogNormal::entropy() const { return normal_.entropy() + loc; }
Variable LogNormal::mean() const { return exp(loc + 0.5 * square(scale)); }
Variable LogNormal::variance() const {
  const Variable square_scale = square(scale);
  return expm1(square_scale) * exp(2.0 * loc + square_scale);
}
Variable LogNormal::cdf(const Variable& value) const {
  const Variable outside = value <= 0;
  return where(outside, 0.0, normal_.cdf(log(where(outside, 1.0, value))));
}
Variable LogNormal::icdf(const Variable& probability) const {
  return exp(normal_.icdf(probability));
}
Variable LogNormal::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return exp(normal_.rsample(sample_shape, generator));
}

Gamma::Gamma(const Parameter& shape, const Parameter& inverse_scale)
    : Distribution("Gamma"), concentration(shape), rate(inverse_scale) {
  const ErrorLine line(inverse_scale.where());
  require(kind(), "concentration > 0", concentration > 0);
  require(kind(), "rate > 0", rate > 0);
}
Variable Gamma::log_prob(const Variable& value) const {
  const Variable outside = logical_or(value < 0, value == INFINITY);
  return log_density(value, outside, 1.0, [&](const Variable& x) {
    return xlogy(concentration, rate) + xlogy(concentration - 1.0, x) - rate * x -
           lgamma(concentration);
  });
}
Variable Gamma::entropy() const {
  return concentration - log(rate) + lgamma(concentration) +
         (1.0 - concentration) * digamma(concentration);
}
Variable Gamma::mean() const { return concentration / rate; }
Variable Gamma::variance() const { return concentration / square(rate); }
Variable Gamma::cdf(const Variable& value) const {
  return gamma_cdf(concentration, rate * clamp_min(value, 0.0));
}
Variable Gamma::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(concentration, rate));
  return rsample_gamma(expand(concentration, shape), generator) / rate;
}

Variable kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q) {
  const auto half_log_det = [](const Variable& l) { return sum(log(diagonal(l, 0, -2, -1)), -1); };
  const Variable m = linalg::solve_triangular(q.scale_tril, p.scale_tril, {.upper = false});
  const Variable z =
      linalg::solve_triangular(q.scale_tril, unsqueeze(q.loc - p.loc, -1), {.upper = false});
  return half_log_det(q.scale_tril) - half_log_det(p.scale_tril) +
         0.5 * (sum(square(m), {-2, -1}) + sum(square(z), {-2, -1}) - double(p.loc.size(-1)));
}
Variable kl_divergence(const Exponential& p, const Exponential& q) {
  const Variable ratio = q.rate / p.rate;
  return ratio - log(ratio) - 1.0;
}
Variable kl_divergence(const Laplace& p, const Laplace& q) {
  const Variable ratio = p.scale / q.scale, distance = abs(p.loc - q.loc);
  return distance / q.scale + ratio * exp(-distance / p.scale) - log(ratio) - 1.0;
}
Variable kl_divergence(const LogNormal& p, const LogNormal& q) {
  return kl_divergence(Normal(p.loc, p.scale), Normal(q.loc, q.scale));
}
Variable kl_divergence(const Gamma& p, const Gamma& q) {
  return q.concentration * log(p.rate / q.rate) + lgamma(q.concentration) -
         lgamma(p.concentration) + (p.concentration - q.concentration) * digamma(p.concentration) +
         (q.rate - p.rate) * (p.concentration / p.rate);
}

}  // namespace tapegrad::distributions
