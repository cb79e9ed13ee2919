#include "nn/continuous_distributions.h"

#include <cmath>
#include <numbers>

#include "core/tape/internal/call_line.h"
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

Variable open_uniform(const Shape& shape, const Variable& of, RandomGenerator& generator) {
  const double least = of.dtype() == f64 ? 0x1p-53 : 0x1p-24;
  return clamp(rand(shape, like(of), generator), {.min = least, .max = 1 - least});
}

namespace {

constexpr double kEuler = std::numbers::egamma, kPi = std::numbers::pi;

Variable constant(const Variable& a, double value) { return full_like(a.detach(), value); }

}  // namespace

Cauchy::Cauchy(const Parameter& location, const Parameter& width)
    : Distribution("Cauchy"), loc(location), scale(width) {
  const ErrorLine line(width.where());
  require(kind(), "scale > 0", scale > 0);
}
Variable Cauchy::log_prob(const Variable& value) const {
  return -std::log(kPi) - log(scale) - log1p(square((value - loc) / scale));
}
Variable Cauchy::entropy() const { return std::log(4 * kPi) + log(scale) + zeros_like(loc); }
Variable Cauchy::mean() const { return constant(loc + scale, NAN); }
Variable Cauchy::variance() const { return constant(loc + scale, INFINITY); }
Variable Cauchy::cdf(const Variable& value) const {
  return atan2(1.0, (loc - value) / scale) / kPi;  // accurate for small probabilities
}
Variable Cauchy::icdf(const Variable& probability) const {
  // tan() of a rounded pi / 2 may have the wrong sign.
  const Variable p = checked_probability(probability), tail = minimum(p, 1.0 - p);
  const Variable far = sign(p - 0.5) / tan(kPi * tail);
  return where(tail < 0.25, far, tan(kPi * (p - 0.5))) * scale + loc;
}
Variable Cauchy::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return icdf(open_uniform(joined(sample_shape, batch_of(loc, scale)), scale, generator));
}

HalfNormal::HalfNormal(const Parameter& width) : Distribution("HalfNormal"), scale(width) {
  const ErrorLine line(width.where());
  require(kind(), "scale > 0", scale > 0);
}
Variable HalfNormal::log_prob(const Variable& value) const {
  return log_density(value, value < 0, 1.0, [&](const Variable& x) {
    return Normal(0.0 * scale.detach(), scale).log_prob(x) + std::log(2.0);
  });
}
Variable HalfNormal::entropy() const {
  return Normal(0.0 * scale.detach(), scale).entropy() - std::log(2.0);
}
Variable HalfNormal::mean() const { return scale * std::sqrt(2 / kPi); }
Variable HalfNormal::variance() const { return square(scale) * (1 - 2 / kPi); }
Variable HalfNormal::cdf(const Variable& value) const {
  return erf(clamp_min(value, 0.0) / (scale * std::numbers::sqrt2));
}
Variable HalfNormal::icdf(const Variable& probability) const {
  return scale * std::numbers::sqrt2 * erfinv(checked_probability(probability));
}
Variable HalfNormal::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return abs(scale * randn(joined(sample_shape, scale.shape()), like(scale), generator));
}

HalfCauchy::HalfCauchy(const Parameter& width) : Distribution("HalfCauchy"), scale(width) {
  const ErrorLine line(width.where());
  require(kind(), "scale > 0", scale > 0);
}
Variable HalfCauchy::log_prob(const Variable& value) const {
  return log_density(value, value < 0, 1.0, [&](const Variable& x) {
    return std::log(2 / kPi) - log(scale) - log1p(square(x / scale));
  });
}
Variable HalfCauchy::entropy() const { return std::log(2 * kPi) + log(scale); }
Variable HalfCauchy::mean() const { return constant(scale, INFINITY); }
Variable HalfCauchy::variance() const { return constant(scale, INFINITY); }
Variable HalfCauchy::cdf(const Variable& value) const {
  return atan(clamp_min(value, 0.0) / scale) * (2 / kPi);
}
Variable HalfCauchy::icdf(const Variable& probability) const {
  const Variable p = checked_probability(probability);
  const Variable far = 1.0 / tan((1.0 - p) * (kPi / 2));  // see Cauchy::icdf
  return where(p > 0.5, far, tan(p * (kPi / 2))) * scale;
}
Variable HalfCauchy::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return icdf(open_uniform(joined(sample_shape, scale.shape()), scale, generator));
}

Gumbel::Gumbel(const Parameter& location, const Parameter& width)
    : Distribution("Gumbel"), loc(location), scale(width) {
  const ErrorLine line(width.where());
  require(kind(), "scale > 0", scale > 0);
}
Variable Gumbel::log_prob(const Variable& value) const {
  const Variable z = (loc - value) / scale;
  return z - exp(z) - log(scale);
}
Variable Gumbel::entropy() const { return log(scale) + (1 + kEuler) + zeros_like(loc); }
Variable Gumbel::mean() const { return loc + scale * kEuler; }
Variable Gumbel::variance() const { return square(scale) * (kPi * kPi / 6) + zeros_like(loc); }
Variable Gumbel::cdf(const Variable& value) const { return exp(-exp((loc - value) / scale)); }
Variable Gumbel::icdf(const Variable& probability) const {
  return loc - scale * log(-log(probability));
}
Variable Gumbel::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return icdf(open_uniform(joined(sample_shape, batch_of(loc, scale)), scale, generator));
}

Weibull::Weibull(const Parameter& width, const Parameter& shape)
    : Distribution("Weibull"), scale(width), concentration(shape) {
  const ErrorLine line(shape.where());
  require(kind(), "scale > 0", scale > 0);
  require(kind(), "concentration > 0", concentration > 0);
}
Variable Weibull::log_prob(const Variable& value) const {
  const Variable outside = logical_or(value < 0, value == INFINITY);
  return log_density(value, outside, 1.0, [&](const Variable& x) {
    const Variable z = x / scale;
    return log(concentration / scale) + xlogy(concentration - 1.0, z) - pow(z, concentration);
  });
}
Variable Weibull::entropy() const {
  return kEuler * (1.0 - 1.0 / concentration) + log(scale / concentration) + 1.0;
}
Variable Weibull::mean() const { return scale * exp(lgamma(1.0 + 1.0 / concentration)); }
Variable Weibull::variance() const {
  const Variable second = exp(lgamma(1.0 + 2.0 / concentration));
  return square(scale) * (second - exp(2.0 * lgamma(1.0 + 1.0 / concentration)));
}
Variable Weibull::cdf(const Variable& value) const {
  return -expm1(-pow(clamp_min(value, 0.0) / scale, concentration));
}
Variable Weibull::icdf(const Variable& probability) const {
  return scale * pow(-log1p(-probability), 1.0 / concentration);
}
Variable Weibull::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return icdf(open_uniform(joined(sample_shape, batch_of(scale, concentration)), scale, generator));
}

Pareto::Pareto(const Parameter& least, const Parameter& exponent)
    : Distribution("Pareto"), scale(least), alpha(exponent) {
  const ErrorLine line(exponent.where());
  require(kind(), "scale > 0", scale > 0);
  require(kind(), "alpha > 0", alpha > 0);
}
Variable Pareto::log_prob(const Variable& value) const {
  return log_density(value, value < scale, scale, [&](const Variable& x) {
    return log(alpha / scale) - (alpha + 1.0) * log(x / scale);
  });
}
Variable Pareto::entropy() const { return log(scale / alpha) + 1.0 + 1.0 / alpha; }
Variable Pareto::mean() const {
  const Variable a = clamp(alpha, {.min = 1.0});
  return a * scale / (a - 1.0);
}
Variable Pareto::variance() const {
  const Variable a = clamp(alpha, {.min = 2.0});
  return square(scale) * a / (square(a - 1.0) * (a - 2.0));
}
Variable Pareto::cdf(const Variable& value) const {
  return 1.0 - pow(scale / maximum(value, scale), alpha);
}
Variable Pareto::icdf(const Variable& probability) const {
  return scale * exp(-log1p(-checked_probability(probability)) / alpha);
}
Variable Pareto::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return icdf(open_uniform(joined(sample_shape, batch_of(scale, alpha)), scale, generator));
}

StudentT::StudentT(const Parameter& degrees, const Parameter& location, const Parameter& width)
    : Distribution("StudentT"), df(degrees), loc(location), scale(width) {
  const ErrorLine line(width.where());
  require(kind(), "df > 0", df > 0);
  require(kind(), "scale > 0", scale > 0);
}
Variable StudentT::log_prob(const Variable& value) const {
  const Variable y = (value - loc) / scale;
  const Variable z = log(scale) + 0.5 * log(df) + 0.5 * std::log(kPi) + lgamma(0.5 * df) -
                     lgamma(0.5 * (df + 1.0));
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
  return where(df > 2.0, finite, where(df > 1.0, constant(finite, INFINITY), NAN));
}
Variable StudentT::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, (df + loc + scale).shape());
  const Variable z = randn(shape, like(scale), generator);
  const Variable chi2 = 2.0 * rsample_gamma(expand(0.5 * df, shape), generator);
  return loc + scale * z * rsqrt(chi2 / df);
}

Chi2::Chi2(const Parameter& degrees) : Distribution("Chi2"), df(degrees) {
  const ErrorLine line(degrees.where());
  require(kind(), "df > 0", df > 0);
}
Variable Chi2::log_prob(const Variable& value) const {
  return Gamma(0.5 * df, constant(df, 0.5)).log_prob(value);
}
Variable Chi2::entropy() const { return Gamma(0.5 * df, constant(df, 0.5)).entropy(); }
Variable Chi2::mean() const { return df; }
Variable Chi2::variance() const { return 2.0 * df; }
Variable Chi2::cdf(const Variable& value) const {
  return Gamma(0.5 * df, constant(df, 0.5)).cdf(value);
}
Variable Chi2::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return Gamma(0.5 * df, constant(df, 0.5)).rsample(sample_shape, generator);
}

namespace {

/// I0(k) e^-k and I1(k) e^-k, the modified Bessel functions of k > 0.
struct Bessel {
  Variable i0, i1;

  explicit Bessel(const Variable& k) {
    constexpr double kLarge = 50;
    // The mean of exp(k (cos(a) - 1)) cos(n a) over the circle, by the midpoint rule, whose error
    // for periodic functions falls exponentially: it is below 1e-54 of the result for k = 50.
    constexpr int kNodes = 64;
    std::vector<double> cosines;
    for (int i = 0; i < kNodes; ++i) cosines.push_back(std::cos(kPi * (i + 0.5) / kNodes));
    const Variable cosine = tensor(cosines, like(k));
    const Variable small = unsqueeze(clamp(k, {.max = kLarge}), -1);
    const Variable weights = exp(small * (cosine - 1.0));
    // The asymptotic series in 1 / k, whose error is below 2e-16 of the result.
    const Variable large = clamp(k, {.min = kLarge}), step = 1.0 / (8.0 * large);
    Variable term0 = ones_like(large), term1 = term0, sum0 = term0, sum1 = term1;
    for (int j = 1; j <= 10; ++j) {
      const double odd = double(2 * j - 1) * double(2 * j - 1);
      term0 = term0 * step * (odd / j), term1 = term1 * step * ((odd - 4) / j);
      sum0 = sum0 + term0, sum1 = sum1 + term1;
    }
    const Variable scale = rsqrt(2.0 * kPi * large);
    i0 = where(k < kLarge, tapegrad::mean(weights, -1), scale * sum0);
    i1 = where(k < kLarge, tapegrad::mean(weights * cosine, -1), scale * sum1);
  }
};

}  // namespace

VonMises::VonMises(const Parameter& location, const Parameter& sharpness)
    : Distribution("VonMises"), loc(location), concentration(sharpness) {
  const ErrorLine line(sharpness.where());
  require(kind(), "concentration > 0", concentration > 0);
}
Variable VonMises::log_prob(const Variable& value) const {
  return concentration * (cos(value - loc) - 1.0) - std::log(2 * kPi) -
         log(Bessel(concentration).i0);
}
Variable VonMises::entropy() const {
  const Bessel bessel(concentration);
  return std::log(2 * kPi) + log(bessel.i0) + concentration * (1.0 - bessel.i1 / bessel.i0) +
         zeros_like(loc);
}
Variable VonMises::mean() const { return loc + zeros_like(concentration); }
Variable VonMises::variance() const {
  const Bessel bessel(concentration);
  return 1.0 - bessel.i1 / bessel.i0 + zeros_like(loc);
}
/// Rejection from a wrapped Cauchy distribution (Best and Fisher 1979), in float64.
Variable VonMises::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(loc, concentration));
  const Variable k = expand(concentration.to(f64), shape);
  const Variable tau = 1.0 + sqrt(1.0 + 4.0 * k * k), rho = (tau - sqrt(2.0 * tau)) / (2.0 * k);
  const Variable r = where(k < 1e-5, 1.0 / k + k, (1.0 + rho * rho) / (2.0 * rho));
  Variable angle = zeros(shape, like(k));
  Variable is_done = zeros(shape, {.dtype = boolean, .device = k.device()});
  for (int round = 0; !all(is_done).item<bool>(); ++round) {
    if (round == 100) fail<ArgumentError>("sample: a concentration is not finite, or too large");
    const Variable z = cos(kPi * rand(shape, like(k), generator));
    const Variable u = open_uniform(shape, k, generator);
    const Variable f = (1.0 + r * z) / (r + z), c = k * (r - f);
    const Variable is_taken = logical_or(c * (2.0 - c) > u, log(c / u) + 1.0 - c >= 0.0);
    const Variable side = sign(rand(shape, like(k), generator) - 0.5);
    const Variable drawn = side * acos(clamp(f, {.min = -1.0, .max = 1.0}));
    angle = where(logical_and(is_taken, logical_not(is_done)), drawn, angle);
    is_done = logical_or(is_done, is_taken);
  }
  return (remainder(angle + loc.to(f64) + kPi, 2 * kPi) - kPi).to(loc.dtype());
}

}  // namespace tapegrad::distributions
