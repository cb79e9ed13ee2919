#include "nn/distributions/unit_distributions.h"

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "nn/distributions/vector_transforms.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

/// The coefficients B(2k) / (2k)! of x^(2k - 1) in coth(x / 2) / 2 - 1 / x, where B are the
/// Bernoulli numbers.
constexpr double kCothSeries[] = {1.0 / 12,
                                  -1.0 / 720,
                                  1.0 / 30240,
                                  -1.0 / 1209600,
                                  1.0 / 47900160,
                                  -691 / 1307674368e3,
                                  1 / 747242496e2,
                                  -3617 / 1067062284288e4,
                                  43867 / 5109094217170944e3,
                                  -174611 / 8028576626982912e5};

/// The log of the integral of exp(t x) over [0, 1], and its first two derivatives in t, which are
/// the mean and the variance of a ContinuousBernoulli with logits t. Small t use the series, as the
/// closed forms subtract almost equal numbers.
struct Cumulants {
  Variable log_integral, mean, variance;

  explicit Cumulants(const Variable& t) {
    const Variable is_small = abs(t) < 1.0;
    const Variable s = where(is_small, t, 0.0), square_s = square(s);
    Variable power = ones_like(s), logs = zeros_like(s), slope = logs, curve = logs;
    int k = 1;
    for (const double c : kCothSeries) {
      curve = curve + (c * (2 * k - 1)) * power;  // power is s^(2k - 2)
      slope = slope + c * power;
      logs = logs + (c / (2 * k)) * power;
      power = power * square_s, ++k;
    }
    const Variable a = where(is_small, 1.0, abs(t)), rest = -expm1(-a);
    const Variable far_mean = 1.0 / rest - 1.0 / a;  // for a positive t
    log_integral = where(is_small, 0.5 * s + logs * square_s, relu(t) + log(rest) - log(a));
    mean = 0.5 + where(is_small, slope * s, sign(t) * (far_mean - 0.5));
    variance = where(is_small, curve, 1.0 / square(a) - exp(-a) / square(rest));
  }
};

/// The magnitude of logits below which the cdf and its inverse use two terms of their series.
double least_logits(DType dtype) { return std::cbrt(epsilon(dtype)); }

}  // namespace

ContinuousBernoulli::ContinuousBernoulli(const Odds& odds)
    : Distribution("ContinuousBernoulli", {odds.probs, odds.logits}) {
  const ErrorLine line(odds.where);
  require_one(kind(), odds);
  if (odds.probs.defined()) {
    probs = as_variable(odds.probs);
    require(kind(), "0 <= probs <= 1", logical_and(probs >= 0, probs <= 1), {probs});
    probs = clamp_probs(probs);
    logits = log(probs) - log1p(-probs);
  } else {
    logits = as_variable(odds.logits);
    require(kind(), "logits == logits", logits == logits, {logits});
    probs = clamp_probs(sigmoid(logits));
  }
}
ContinuousBernoulli::ContinuousBernoulli(const Parameter& p)
    : ContinuousBernoulli(Odds{p, {}, p.where()}) {}
Variable ContinuousBernoulli::log_factor() const {
  return softplus(logits) - Cumulants(logits).log_integral;
}
Variable ContinuousBernoulli::log_prob_at(const Variable& value) const {
  return log_density(value, logical_or(value<0, value> 1), 0.5, [&](const Variable& x) {
    return logits * x - Cumulants(logits).log_integral;
  });
}
Variable ContinuousBernoulli::mean() const { return Cumulants(logits).mean; }
Variable ContinuousBernoulli::variance() const { return Cumulants(logits).variance; }
Variable ContinuousBernoulli::entropy() const {
  const Cumulants of(logits);
  return of.log_integral - logits * of.mean;
}
Variable ContinuousBernoulli::cdf_at(const Variable& value) const {
  const Variable x = clamp(value, {.min = 0.0, .max = 1.0}), t = logits + zeros_like(x.detach());
  const Variable is_tiny = abs(t) < least_logits(t.dtype());
  const Variable a = where(is_tiny, 1.0, abs(t));
  // expm1(t x) / expm1(t), without overflow for large t.
  const Variable far = expm1(-a * x) / expm1(-a) * where(t > 0, exp(a * (x - 1.0)), 1.0);
  return where(is_tiny, x - 0.5 * t * x * (1.0 - x), far);
}
Variable ContinuousBernoulli::icdf_at(const Variable& probability) const {
  const Variable u = checked_probability(probability), t = logits + zeros_like(u.detach());
  const Variable is_tiny = abs(t) < least_logits(t.dtype());
  const Variable a = where(is_tiny, 1.0, abs(t)), is_right = t > 0;
  const Variable from_end = -log1p(where(is_right, 1.0 - u, u) * expm1(-a)) / a;
  return where(is_tiny, u + 0.5 * t * u * (1.0 - u), where(is_right, 1.0 - from_end, from_end));
}
Variable ContinuousBernoulli::draw_differentiably(const Shape& sample_shape,
                                                  RandomGenerator& generator) const {
  return icdf_at(open_uniform(joined(sample_shape, logits.shape()), logits, generator));
}

Kumaraswamy::Kumaraswamy(const Parameter& a, const Parameter& b)
    : Distribution("Kumaraswamy", {a, b}),
      concentration1(as_variable(a)),
      concentration0(as_variable(b)) {
  const ErrorLine line(b.where());
  require(kind(), "concentration1 > 0", concentration1 > 0, {concentration1});
  require(kind(), "concentration0 > 0", concentration0 > 0, {concentration0});
}
Variable Kumaraswamy::log_prob_at(const Variable& value) const {
  return log_density(value, logical_or(value<0, value> 1), 0.5, [&](const Variable& x) {
    return log(concentration1 * concentration0) + xlogy(concentration1 - 1.0, x) +
           xlog1py(concentration0 - 1.0, -pow(x, concentration1));
  });
}
Variable Kumaraswamy::cdf_at(const Variable& value) const {
  const Variable x = clamp(value, {.min = 0.0, .max = 1.0});
  return -expm1(concentration0 * log1p(-pow(x, concentration1)));
}
Variable Kumaraswamy::icdf_at(const Variable& probability) const {
  const Variable u = checked_probability(probability);
  return pow(-expm1(log1p(-u) / concentration0), 1.0 / concentration1);
}
Variable Kumaraswamy::draw_differentiably(const Shape& sample_shape,
                                          RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(concentration1, concentration0));
  return icdf_at(open_uniform(shape, concentration1, generator));
}
Variable Kumaraswamy::moment(double order) const {
  const Variable a = 1.0 + order / concentration1;
  return concentration0 * exp(lgamma(a) + lgamma(concentration0) - lgamma(a + concentration0));
}
Variable Kumaraswamy::mean() const { return moment(1); }
Variable Kumaraswamy::variance() const { return moment(2) - square(moment(1)); }
Variable Kumaraswamy::mode() const {
  const Variable &a = concentration1, &b = concentration0;
  const Variable has_mode = logical_and(logical_and(a >= 1, b >= 1), a * b > 1);
  return where(has_mode, pow((a - 1.0) / where(has_mode, a * b - 1.0, 1.0), 1.0 / a), NAN);
}
Variable Kumaraswamy::entropy() const {
  const Variable harmonic = digamma(concentration0 + 1.0) + std::numbers::egamma;
  return (1.0 - 1.0 / concentration0) + (1.0 - 1.0 / concentration1) * harmonic -
         log(concentration1 * concentration0);
}

RelaxedBernoulli::RelaxedBernoulli(const Parameter& heat, const Odds& odds, const Bernoulli& base)
    : Distribution("RelaxedBernoulli", {odds.probs, odds.logits, heat}),
      temperature(as_variable(heat)),
      probs(base.probs),
      logits(base.logits) {
  const ErrorLine line(odds.where);
  require(kind(), "temperature > 0", temperature > 0, {temperature});
}
RelaxedBernoulli::RelaxedBernoulli(const Parameter& heat, const Odds& odds)
    : RelaxedBernoulli(heat, odds, Bernoulli(odds)) {}
RelaxedBernoulli::RelaxedBernoulli(const Parameter& heat, const Parameter& p)
    : RelaxedBernoulli(heat, Odds{p, {}, p.where()}) {}
Shape RelaxedBernoulli::value_shape() const { return batch_of(logits, temperature); }
Variable RelaxedBernoulli::log_prob_at(const Variable& value) const {
  return log_density(value, logical_or(value <= 0, value >= 1), 0.5, [&](const Variable& y) {
    const Variable logs = log(y), rest = log1p(-y);
    const Variable distance = logits - temperature * (logs - rest);
    return log(temperature) + distance - 2.0 * softplus(distance) - logs - rest;
  });
}
Variable RelaxedBernoulli::draw_differentiably(const Shape& sample_shape,
                                               RandomGenerator& generator) const {
  const Variable u = open_uniform(joined(sample_shape, value_shape()), logits, generator);
  return sigmoid((log(u) - log1p(-u) + logits) / temperature);
}

LogisticNormal::LogisticNormal(const Normal& normal)
    : TransformedDistribution(normal, StickBreakingTransform()),
      loc(normal.loc),
      scale(normal.scale) {}
LogisticNormal::LogisticNormal(const Parameter& location, const Parameter& width)
    : LogisticNormal(Normal(location, width)) {
  const ErrorLine line(location.where());
  if (batch_of(loc, scale).rank() == 0)
    fail<ShapeError>("LogisticNormal: no dimension of elements");
}

}  // namespace tapegrad::distributions
