#include "nn/distributions/gamma_distributions.h"

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "nn/distributions/internal/gamma_sample.h"
#include "ops/arithmetic.h"
#include "ops/extremes.h"
#include "ops/gamma.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {

Gamma::Gamma(const Parameter& shape, const Parameter& inverse_scale)
    : Distribution("Gamma", {shape, inverse_scale}),
      concentration(as_variable(shape)),
      rate(as_variable(inverse_scale)) {
  const ErrorLine line(inverse_scale.where());
  require(kind(), "concentration > 0", concentration > 0, {concentration});
  require(kind(), "rate > 0", rate > 0, {rate});
}
Variable Gamma::log_prob_at(const Variable& value) const {
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
Variable Gamma::mode() const { return clamp_min((concentration - 1.0) / rate, 0.0); }
Variable Gamma::cdf_at(const Variable& value) const {
  return igamma(concentration, rate * clamp_min(value, 0.0));
}
Variable Gamma::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(concentration, rate));
  return rsample_gamma(expand(concentration, shape), generator) / rate;
}

InverseGamma::InverseGamma(const Parameter& shape, const Parameter& inverse_scale)
    : Distribution("InverseGamma", {shape, inverse_scale}),
      concentration(as_variable(shape)),
      rate(as_variable(inverse_scale)) {
  const ErrorLine line(inverse_scale.where());
  require(kind(), "concentration > 0", concentration > 0, {concentration});
  require(kind(), "rate > 0", rate > 0, {rate});
}
Variable InverseGamma::log_prob_at(const Variable& value) const {
  const Variable outside = logical_or(value <= 0, value == INFINITY);
  return log_density(value, outside, 1.0, [&](const Variable& x) {
    return concentration * log(rate) - (concentration + 1.0) * log(x) - rate / x -
           lgamma(concentration);
  });
}
Variable InverseGamma::entropy() const {
  return concentration + log(rate) + lgamma(concentration) -
         (1.0 + concentration) * digamma(concentration);
}
Variable InverseGamma::mean() const {
  const Variable exists = concentration > 1.0;
  return where(exists, rate / (where(exists, concentration, 2.0) - 1.0), INFINITY);
}
Variable InverseGamma::variance() const {
  const Variable exists = concentration > 2.0;
  const Variable a = where(exists, concentration, 3.0);
  return where(exists, square(rate / (a - 1.0)) / (a - 2.0), INFINITY);
}
Variable InverseGamma::mode() const { return rate / (concentration + 1.0); }
Variable InverseGamma::cdf_at(const Variable& value) const {
  return igammac(concentration, rate / clamp_min(value, 0.0));
}
Variable InverseGamma::draw_differentiably(const Shape& sample_shape,
                                           RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(concentration, rate));
  return rate / rsample_gamma(expand(concentration, shape), generator);
}

FisherSnedecor::FisherSnedecor(const Parameter& first, const Parameter& second)
    : Distribution("FisherSnedecor", {first, second}),
      df1(as_variable(first)),
      df2(as_variable(second)) {
  const ErrorLine line(second.where());
  require(kind(), "df1 > 0", df1 > 0, {df1});
  require(kind(), "df2 > 0", df2 > 0, {df2});
}
Variable FisherSnedecor::log_prob_at(const Variable& value) const {
  const Variable outside = logical_or(value < 0, value == INFINITY);
  return log_density(value, outside, 1.0, [&](const Variable& x) {
    const Variable a = 0.5 * df1, b = 0.5 * df2, ratio = df1 / df2;
    return lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(ratio) + xlogy(a - 1.0, x) -
           (a + b) * log1p(ratio * x);
  });
}
Variable FisherSnedecor::mean() const {
  return where(df2 > 2.0, df2 / (df2 - 2.0), NAN) + zeros_like(df1);
}
Variable FisherSnedecor::variance() const {
  const Variable finite = 2.0 * square(df2 / (df2 - 2.0)) * (df1 + df2 - 2.0) / (df1 * (df2 - 4.0));
  return where(df2 > 4.0, finite, NAN);
}
Variable FisherSnedecor::mode() const {
  return where(df1 > 2.0, (df1 - 2.0) / df1 * (df2 / (df2 + 2.0)), NAN);
}
Variable FisherSnedecor::draw_differentiably(const Shape& sample_shape,
                                             RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(df1, df2));
  const Variable a = rsample_gamma(expand(0.5 * df1, shape), generator) / df1;
  return a / (rsample_gamma(expand(0.5 * df2, shape), generator) / df2);
}

Chi2::Chi2(const Parameter& degrees) : Distribution("Chi2", {degrees}), df(as_variable(degrees)) {
  const ErrorLine line(degrees.where());
  require(kind(), "df > 0", df > 0, {df});
}
Gamma Chi2::as_gamma() const { return Gamma(0.5 * df, 0.5); }
Variable Chi2::log_prob_at(const Variable& value) const { return as_gamma().log_prob(value); }
Variable Chi2::entropy() const { return as_gamma().entropy(); }
Variable Chi2::mean() const { return df; }
Variable Chi2::variance() const { return 2.0 * df; }
Variable Chi2::mode() const { return clamp_min(df - 2.0, 0.0); }
Variable Chi2::cdf_at(const Variable& value) const { return as_gamma().cdf(value); }
Variable Chi2::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  return as_gamma().rsample(sample_shape, generator);
}

StudentT::StudentT(const Parameter& degrees, const Parameter& location, const Parameter& width)
    : Distribution("StudentT", {degrees, location, width}),
      df(as_variable(degrees)),
      loc(as_variable(location)),
      scale(as_variable(width)) {
  const ErrorLine line(width.where());
  require(kind(), "df > 0", df > 0, {df});
  require_location_scale(kind(), loc, scale);
}
Variable StudentT::log_prob_at(const Variable& value) const {
  const Variable y = (value - loc) / scale;
  const Variable z = log(scale) + 0.5 * log(df) + 0.5 * std::log(std::numbers::pi) +
                     lgamma(0.5 * df) - lgamma(0.5 * (df + 1.0));
  return -0.5 * (df + 1.0) * log1p(square(y) / df) - z;
}
Variable StudentT::entropy() const {
  const Variable half = 0.5 * df, more = 0.5 * (df + 1.0);
  const Variable log_beta = lgamma(half) + std::lgamma(0.5) - lgamma(more);
  return log(scale) + more * (digamma(more) - digamma(half)) + 0.5 * log(df) + log_beta +
         zeros_like(loc);
}
Variable StudentT::mean() const { return where(df > 1.0, loc + 0.0 * scale, NAN); }
Variable StudentT::variance() const {
  const Variable finite = square(scale) * df / (df - 2.0) + zeros_like(loc);
  return where(df > 2.0, finite, where(df > 1.0, full_like(finite.detach(), INFINITY), NAN));
}
Variable StudentT::mode() const { return expand(loc, (df + loc + scale).shape()); }
Variable StudentT::draw_differentiably(const Shape& sample_shape,
                                       RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, (df + loc + scale).shape());
  const Variable z = randn(shape, like(scale), generator);
  const Variable chi2 = 2.0 * rsample_gamma(expand(0.5 * df, shape), generator);
  return loc + scale * z * rsqrt(chi2 / df);
}

Dirichlet::Dirichlet(const Variable& concentration, Where where)
    : Distribution("Dirichlet", {concentration}), concentration(concentration) {
  const ErrorLine line(where);
  if (concentration.rank() == 0) fail<ShapeError>(kind(), ": no dimension of elements");
  require(kind(), "concentration > 0", concentration > 0, {concentration});
}
Variable Dirichlet::log_prob_at(const Variable& value) const {
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
Variable Dirichlet::mode() const {
  // Without an element of 1 or more, the density is infinite at every corner; as in PyTorch, the
  // first one is returned.
  const Variable excess = clamp_min(concentration - 1.0, 0.0), total = sum(excess, {-1}, true);
  const Variable inside = excess / where(total > 0, total, 1.0);
  const Variable corner = one_hot(argmax(excess, -1), excess.size(-1)).to(excess.dtype());
  return where(all(concentration < 1.0, -1, true), corner, where(total > 0, inside, NAN));
}
Variable Dirichlet::draw_differentiably(const Shape& sample_shape,
                                        RandomGenerator& generator) const {
  const Variable gamma =
      rsample_gamma(expand(concentration, joined(sample_shape, concentration.shape())), generator);
  return gamma / sum(gamma, {-1}, true);
}

Beta::Beta(const Parameter& a, const Parameter& b)
    : Distribution("Beta", {a, b}),
      concentration1(as_variable(a)),
      concentration0(as_variable(b)),
      dirichlet_(pair_of(concentration1, concentration0), a.where()) {}
Variable Beta::log_prob_at(const Variable& value) const {
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
Variable Beta::mode() const { return select(dirichlet_.mode(), -1, 0); }
Variable Beta::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  return select(dirichlet_.rsample(sample_shape, generator), -1, 0);
}

}  // namespace tapegrad::distributions
