#include "nn/distributions/continuous_distributions.h"

#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "ops/arithmetic.h"
#include "ops/extremes.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

Variable constant(const Variable& a, double value) { return full_like(a.detach(), value); }

/// The modified Bessel functions I0 and I1 of k > 0, times e^-k.
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

Uniform::Uniform(const Parameter& low, const Parameter& high)
    : Distribution("Uniform", {low, high}), low(as_variable(low)), high(as_variable(high)) {
  const ErrorLine line(high.where());
  require(kind(), "low < high", this->low < this->high, {this->low, this->high});
}
Variable Uniform::log_prob_at(const Variable& value) const {
  const Variable is_inside = logical_and(le(low, value), gt(high, value));
  return log(is_inside.to(low.dtype())) - log(high - low);
}
Variable Uniform::entropy() const { return log(high - low); }
Variable Uniform::mean() const { return (high + low) / 2.0; }
Variable Uniform::stddev() const { return (high - low) / std::sqrt(12.0); }
Variable Uniform::variance() const { return (high - low) * (high - low) / 12.0; }
Variable Uniform::mode() const { return constant(high + low, NAN); }
Variable Uniform::cdf_at(const Variable& value) const {
  return clamp((value - low) / (high - low), {.min = 0.0, .max = 1.0});
}
Variable Uniform::icdf_at(const Variable& probability) const {
  return low + checked_probability(probability) * (high - low);
}
Variable Uniform::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  const Variable u = rand(joined(sample_shape, batch_of(low, high)), like(low), generator);
  return low + u * (high - low);
}

Exponential::Exponential(const Parameter& parameter)
    : Distribution("Exponential", {parameter}), rate(as_variable(parameter)) {
  const ErrorLine line(parameter.where());
  require(kind(), "rate > 0", rate > 0, {rate});
}
Variable Exponential::log_prob_at(const Variable& value) const {
  return log_density(value, value < 0, 1.0,
                     [&](const Variable& x) { return log(rate) - rate * x; });
}
Variable Exponential::entropy() const { return 1.0 - log(rate); }
Variable Exponential::mean() const { return 1.0 / rate; }
Variable Exponential::stddev() const { return 1.0 / rate; }
Variable Exponential::variance() const { return 1.0 / square(rate); }
Variable Exponential::mode() const { return constant(rate, 0); }
Variable Exponential::cdf_at(const Variable& value) const {
  return -expm1(-rate * clamp_min(value, 0.0));
}
Variable Exponential::icdf_at(const Variable& probability) const {
  return -log1p(-checked_probability(probability)) / rate;
}
Variable Exponential::draw_differentiably(const Shape& sample_shape,
                                          RandomGenerator& generator) const {
  return -log((1.0 - rand(joined(sample_shape, rate.shape()), like(rate), generator))) / rate;
}

Laplace::Laplace(const Parameter& location, const Parameter& width)
    : Distribution("Laplace", {location, width}),
      loc(as_variable(location)),
      scale(as_variable(width)) {
  const ErrorLine line(width.where());
  require_location_scale(kind(), loc, scale);
}
Variable Laplace::log_prob_at(const Variable& value) const {
  return -abs(value - loc) / scale - log(2.0 * scale);
}
Variable Laplace::entropy() const { return 1.0 + log(2.0 * scale) + zeros_like(loc); }
Variable Laplace::mean() const { return expand(loc, batch_of(loc, scale)); }
Variable Laplace::stddev() const { return std::sqrt(2.0) * scale + zeros_like(loc); }
Variable Laplace::variance() const { return 2.0 * square(scale) + zeros_like(loc); }
Variable Laplace::mode() const { return mean(); }
Variable Laplace::cdf_at(const Variable& value) const {
  const Variable z = (value - loc) / scale;
  return where(z < 0, 0.5 * exp(clamp_max(z, 0.0)), 1.0 - 0.5 * exp(-clamp_min(z, 0.0)));
}
Variable Laplace::icdf_at(const Variable& probability) const {
  const Variable p = checked_probability(probability);
  return loc + scale * where(p < 0.5, log(2.0 * p), -log(2.0 - 2.0 * p));
}
Variable Laplace::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(loc, scale));
  const Variable magnitude = -log(1.0 - rand(shape, like(scale), generator));  // never log(0)
  const Variable side = sign(rand(shape, like(scale), generator) - 0.5);
  return loc + scale * magnitude * side;
}

Cauchy::Cauchy(const Parameter& location, const Parameter& width)
    : Distribution("Cauchy", {location, width}),
      loc(as_variable(location)),
      scale(as_variable(width)) {
  const ErrorLine line(width.where());
  require_location_scale(kind(), loc, scale);
}
Variable Cauchy::log_prob_at(const Variable& value) const {
  return -std::log(kPi) - log(scale) - log1p(square((value - loc) / scale));
}
Variable Cauchy::entropy() const { return std::log(4 * kPi) + log(scale) + zeros_like(loc); }
Variable Cauchy::mean() const { return constant(loc + scale, NAN); }
Variable Cauchy::variance() const { return constant(loc + scale, INFINITY); }
Variable Cauchy::mode() const { return expand(loc, batch_of(loc, scale)); }
Variable Cauchy::cdf_at(const Variable& value) const {
  return atan2(1.0, (loc - value) / scale) / kPi;  // accurate for small probabilities
}
Variable Cauchy::icdf_at(const Variable& probability) const {
  // tan() of a rounded pi / 2 may have the wrong sign.
  const Variable p = checked_probability(probability), tail = minimum(p, 1.0 - p);
  const Variable far = sign(p - 0.5) / tan(kPi * tail);
  return where(tail < 0.25, far, tan(kPi * (p - 0.5))) * scale + loc;
}
Variable Cauchy::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  return icdf_at(open_uniform(joined(sample_shape, batch_of(loc, scale)), scale, generator));
}

HalfCauchy::HalfCauchy(const Parameter& width)
    : Distribution("HalfCauchy", {width}), scale(as_variable(width)) {
  const ErrorLine line(width.where());
  require(kind(), "scale > 0", scale > 0, {scale});
}
Variable HalfCauchy::log_prob_at(const Variable& value) const {
  return log_density(value, value < 0, 1.0, [&](const Variable& x) {
    return std::log(2 / kPi) - log(scale) - log1p(square(x / scale));
  });
}
Variable HalfCauchy::entropy() const { return std::log(2 * kPi) + log(scale); }
Variable HalfCauchy::mean() const { return constant(scale, INFINITY); }
Variable HalfCauchy::variance() const { return constant(scale, INFINITY); }
Variable HalfCauchy::mode() const { return constant(scale, 0); }
Variable HalfCauchy::cdf_at(const Variable& value) const {
  return atan(clamp_min(value, 0.0) / scale) * (2 / kPi);
}
Variable HalfCauchy::icdf_at(const Variable& probability) const {
  const Variable p = checked_probability(probability);
  const Variable far = 1.0 / tan((1.0 - p) * (kPi / 2));  // see Cauchy::icdf
  return where(p > 0.5, far, tan(p * (kPi / 2))) * scale;
}
Variable HalfCauchy::draw_differentiably(const Shape& sample_shape,
                                         RandomGenerator& generator) const {
  return icdf_at(open_uniform(joined(sample_shape, scale.shape()), scale, generator));
}

Gumbel::Gumbel(const Parameter& location, const Parameter& width)
    : Distribution("Gumbel", {location, width}),
      loc(as_variable(location)),
      scale(as_variable(width)) {
  const ErrorLine line(width.where());
  require_location_scale(kind(), loc, scale);
}
Variable Gumbel::log_prob_at(const Variable& value) const {
  const Variable z = (loc - value) / scale;
  return z - exp(z) - log(scale);
}
Variable Gumbel::entropy() const { return log(scale) + (1 + kEuler) + zeros_like(loc); }
Variable Gumbel::mean() const { return loc + scale * kEuler; }
Variable Gumbel::stddev() const { return scale * (kPi / std::sqrt(6.0)) + zeros_like(loc); }
Variable Gumbel::variance() const { return square(scale) * (kPi * kPi / 6) + zeros_like(loc); }
Variable Gumbel::mode() const { return expand(loc, batch_of(loc, scale)); }
Variable Gumbel::cdf_at(const Variable& value) const { return exp(-exp((loc - value) / scale)); }
Variable Gumbel::icdf_at(const Variable& probability) const {
  return loc - scale * log(-log(probability));
}
Variable Gumbel::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  return icdf_at(open_uniform(joined(sample_shape, batch_of(loc, scale)), scale, generator));
}

Weibull::Weibull(const Parameter& width, const Parameter& shape)
    : Distribution("Weibull", {width, shape}),
      scale(as_variable(width)),
      concentration(as_variable(shape)) {
  const ErrorLine line(shape.where());
  require(kind(), "scale > 0", scale > 0, {scale});
  require(kind(), "concentration > 0", concentration > 0, {concentration});
}
Variable Weibull::log_prob_at(const Variable& value) const {
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
Variable Weibull::mode() const {
  const Variable rest = clamp_min(1.0 - 1.0 / concentration, 0.0);
  return scale * pow(rest, 1.0 / concentration);
}
Variable Weibull::cdf_at(const Variable& value) const {
  return -expm1(-pow(clamp_min(value, 0.0) / scale, concentration));
}
Variable Weibull::icdf_at(const Variable& probability) const {
  return scale * pow(-log1p(-probability), 1.0 / concentration);
}
Variable Weibull::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  return icdf_at(
      open_uniform(joined(sample_shape, batch_of(scale, concentration)), scale, generator));
}

Pareto::Pareto(const Parameter& least, const Parameter& exponent)
    : Distribution("Pareto", {least, exponent}),
      scale(as_variable(least)),
      alpha(as_variable(exponent)) {
  const ErrorLine line(exponent.where());
  require(kind(), "scale > 0", scale > 0, {scale});
  require(kind(), "alpha > 0", alpha > 0, {alpha});
}
Variable Pareto::log_prob_at(const Variable& value) const {
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
Variable Pareto::mode() const { return expand(scale, batch_of(scale, alpha)); }
Variable Pareto::cdf_at(const Variable& value) const {
  return 1.0 - pow(scale / maximum(value, scale), alpha);
}
Variable Pareto::icdf_at(const Variable& probability) const {
  return scale * exp(-log1p(-checked_probability(probability)) / alpha);
}
Variable Pareto::draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const {
  return icdf_at(open_uniform(joined(sample_shape, batch_of(scale, alpha)), scale, generator));
}

GeneralizedPareto::GeneralizedPareto(const Parameter& location, const Parameter& width,
                                     const Parameter& shape)
    : Distribution("GeneralizedPareto", {location, width, shape}),
      loc(as_variable(location)),
      scale(as_variable(width)),
      concentration(as_variable(shape)) {
  const ErrorLine line(shape.where());
  require_location_scale(kind(), loc, scale);
  require(kind(), "concentration == concentration", concentration == concentration,
          {concentration});
}
Shape GeneralizedPareto::value_shape() const { return batch_of(loc + scale, concentration); }
Variable GeneralizedPareto::hazard(const Variable& value) const {
  const Variable z = (value - loc) / scale, is_tiny = abs(concentration) < 1e-8;
  const Variable c = where(is_tiny, 1.0, concentration);
  return where(is_tiny, z - 0.5 * concentration * square(z), log1p(c * z) / c);
}
Variable GeneralizedPareto::log_prob_at(const Variable& value) const {
  const Variable z = (value - loc) / scale;
  const Variable outside = logical_or(z < 0, concentration * z < -1.0);
  return log_density(value, outside, loc, [&](const Variable& x) {
    return -(concentration + 1.0) * hazard(x) - log(scale);
  });
}
Variable GeneralizedPareto::cdf_at(const Variable& value) const {
  const Variable above = concentration * (value - loc) / scale <= -1.0;
  const Variable inside = where(above, loc, maximum(value, loc));
  return where(above, 1.0, -expm1(-hazard(inside)));
}
Variable GeneralizedPareto::icdf_at(const Variable& probability) const {
  const Variable hazard = -log1p(-checked_probability(probability));
  const Variable is_tiny = abs(concentration) < 1e-8;
  const Variable c = where(is_tiny, 1.0, concentration);
  const Variable near = hazard + 0.5 * concentration * square(hazard);
  return loc + scale * where(is_tiny, near, expm1(c * hazard) / c);
}
Variable GeneralizedPareto::draw_differentiably(const Shape& sample_shape,
                                                RandomGenerator& generator) const {
  return icdf_at(open_uniform(joined(sample_shape, value_shape()), scale, generator));
}
Variable GeneralizedPareto::mean() const {
  return where(concentration < 1.0, loc + scale / (1.0 - concentration), NAN);
}
Variable GeneralizedPareto::variance() const {
  const Variable finite = square(scale / (1.0 - concentration)) / (1.0 - 2.0 * concentration);
  return where(concentration < 0.5, finite, NAN) + zeros_like(loc);
}
Variable GeneralizedPareto::mode() const { return expand(loc, value_shape()); }
Variable GeneralizedPareto::entropy() const {
  return log(scale) + concentration + 1.0 + zeros_like(loc);
}

VonMises::VonMises(const Parameter& location, const Parameter& sharpness)
    : Distribution("VonMises", {location, sharpness}),
      loc(as_variable(location)),
      concentration(as_variable(sharpness)) {
  const ErrorLine line(sharpness.where());
  require(kind(), "concentration > 0", concentration > 0, {concentration});
  require(kind(), "loc == loc", loc == loc, {loc});
}
Variable VonMises::log_prob_at(const Variable& value) const {
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
Variable VonMises::mode() const { return mean(); }
/// Draws by rejection from a wrapped Cauchy distribution (Best and Fisher 1979), in float64.
Variable VonMises::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  const Shape shape = joined(sample_shape, batch_of(loc, concentration));
  const Variable k = expand(concentration.to(f64), shape);
  const Variable tau = 1.0 + sqrt(1.0 + 4.0 * k * k), rho = (tau - sqrt(2.0 * tau)) / (2.0 * k);
  const Variable r = where(k < 1e-5, 1.0 / k + k, (1.0 + rho * rho) / (2.0 * rho));
  const auto draw_round = [&]() -> Candidates {
    const Variable z = cos(kPi * rand(shape, like(k), generator));
    const Variable u = open_uniform(shape, k, generator);
    const Variable f = (1.0 + r * z) / (r + z), c = k * (r - f);
    const Variable side = sign(rand(shape, like(k), generator) - 0.5);
    return {side * acos(clamp(f, {.min = -1.0, .max = 1.0})),
            logical_or(c * (2.0 - c) > u, log(c / u) + 1.0 - c >= 0.0)};
  };
  const Variable angle = draw_by_rejection(shape, /*refused=*/0.35, draw_round);
  return (remainder(angle + loc.to(f64) + kPi, 2 * kPi) - kPi).to(loc.dtype());
}

}  // namespace tapegrad::distributions
