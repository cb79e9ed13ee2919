// MultivariateNormal, Exponential, Laplace, LogNormal and Gamma, compared with values that
// PyTorch 2.15 printed (CPU, float64).
#include "nn/distributions/continuous_distributions.h"
#include "nn/distributions/distributions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

using Doubles = std::vector<double>;

Variable of(const Doubles& values) { return tensor(values, f64); }

void expect_near(const Variable& got, const Doubles& expected, double tolerance = 1e-12) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
}

struct Expected {
  Doubles log_prob, entropy, mean, variance;
};
void expect_as_torch(const Distribution& d, const Variable& value, const Expected& expected) {
  expect_near(d.log_prob(value), expected.log_prob);
  expect_near(d.entropy(), expected.entropy);
  expect_near(d.mean(), expected.mean);
  expect_near(d.variance(), expected.variance);
}

/// Moments of 40,000 samples within five standard errors, roughly.
void expect_moments(const Distribution& d) {
  RandomGenerator generator(1);
  const Variable x = d.sample({40'000}, generator);
  const Variable error = (mean(x, 0) - d.mean()) / sqrt(d.variance() / 40'000.0);
  for (const double z : error.to_vector<double>()) EXPECT_LT(std::abs(z), 5);
  for (const double ratio : (var(x, 0) / d.variance()).to_vector<double>())
    EXPECT_NEAR(ratio, 1, 0.2);
}

/// Gradients of log_prob, of the entropy and of a sample, to second order.
template <typename Make>
void expect_gradients(const Make& make, std::vector<Variable> parameters, const Variable& value) {
  for (Variable& p : parameters) p.requires_grad_();
  const auto density = [&](const std::vector<Variable>& in) {
    const auto d = make(in);
    return sum(d.log_prob(value)) + sum(d.entropy() * 1.5);
  };
  const GradcheckResult of_density = gradcheck(density, parameters, {.order = 2});
  EXPECT_TRUE(bool(of_density)) << of_density.message;
  const auto sample = [&](const std::vector<Variable>& in) {
    RandomGenerator generator(3);
    return sum(square(make(in).rsample({3}, generator)));
  };
  const GradcheckResult of_sample = gradcheck(sample, parameters);
  EXPECT_TRUE(bool(of_sample)) << of_sample.message;
}

Variable covariance() {
  return tensor({2.0, 0.3, 0.1, 0.3, 1.0, -0.2, 0.1, -0.2, 0.5}, {3, 3}, {.dtype = f64});
}

TEST(MoreDistributions, MultivariateNormal) {
  const Variable loc = of({0.5, -1.0, 2.0});
  const Variable x = tensor({0.0, 0.0, 1.0, 1.0, -2.0, 2.5}, {2, 3}, {.dtype = f64});
  const MultivariateNormal d(loc, covariance());
  expect_as_torch(d, x,
                  {{-3.9463681441853189, -3.4056295744315093},
                   {4.1773177338687892},
                   {0.5, -1.0, 2.0},
                   {2.0, 1.0, 0.5}});
  const Variable zero = zeros({3}, f64);
  expect_near(kl_divergence(d, MultivariateNormal(zero, 1.5 * eye(3, 3, {.dtype = f64}))),
              {2.1043621945741431});
  expect_moments(d);
  const Variable factor = linalg::cholesky(covariance());
  expect_near(MultivariateNormal::with_scale_tril(loc, factor).log_prob(x),
              d.log_prob(x).to_vector<double>());
  expect_gradients(
      [](const std::vector<Variable>& in) {
        return MultivariateNormal(in[0], matmul(in[1], in[1].t()));
      },
      {loc, factor.detach()}, x);
  EXPECT_EQ(d.rsample({5, 2}).shape(), (Shape{5, 2, 3}));
  EXPECT_THROW(MultivariateNormal(loc, -covariance()), LinAlgError);
  EXPECT_THROW(MultivariateNormal(zeros({2}, f64), covariance()), ShapeError);
  EXPECT_THROW(MultivariateNormal::with_scale_tril(loc, -factor), ArgumentError);
}

TEST(MoreDistributions, Exponential) {
  const Exponential d(of({0.5, 2.0}));
  expect_as_torch(d, of({0.3, 1.7}),
                  {{-0.84314718055994531, -2.7068528194400545},
                   {1.6931471805599454, 0.30685281944005471},
                   {2, 0.5},
                   {4, 0.25}});
  expect_near(kl_divergence(d, Exponential(1.0)), {0.3068528194400546, 0.1931471805599454});
  expect_moments(d);
  expect_gradients([](const auto& in) { return Exponential(in[0]); }, {of({0.5, 2.0})},
                   of({0.3, 1.7}));
  EXPECT_EQ(d.log_prob(of({-1.0, 0.0})).to_vector<double>()[0], -INFINITY);
  EXPECT_THROW(Exponential(0.0), ArgumentError);
  EXPECT_THROW(Exponential(NAN), ArgumentError);
}

TEST(MoreDistributions, Laplace) {
  const Variable loc = of({0.5, -1.0}), scale = of({0.5, 2.0}), x = of({0.3, 1.7});
  const Laplace d(loc, scale);
  expect_as_torch(d, x,
                  {{-0.4, -2.7362943611198904}, {1, 2.3862943611198908}, {0.5, -1}, {0.5, 8}});
  expect_near(kl_divergence(d, Laplace(0.0, 1.0)), {0.37708690114566656, 0.51991413886532145});
  expect_moments(d);
  expect_gradients([](const auto& in) { return Laplace(in[0], in[1]); }, {loc, scale}, x);
  EXPECT_THROW(Laplace(0.0, -1.0), ArgumentError);
}

TEST(MoreDistributions, LogNormal) {
  const Variable loc = of({0.5, -1.0}), scale = of({0.5, 2.0}), x = of({0.3, 1.7});
  const LogNormal d(loc, scale);
  expect_as_torch(d, x,
                  {{-4.8288651840835808, -2.435566820195493},
                   {1.2257913526447273, 1.1120857137646181},
                   {1.8682459574322223, 2.7182818284590451},
                   {0.99134611287622354, 396.03973739380444}});
  expect_near(kl_divergence(d, LogNormal(0.0, 1.0)), {0.44314718055994529, 1.3068528194400546});
  expect_moments(LogNormal(of({0.5, -1.0}), of({0.5, 0.7})));
  expect_gradients([](const auto& in) { return LogNormal(in[0], in[1]); }, {loc, scale}, x);
}

TEST(MoreDistributions, Gamma) {
  const Variable shape = of({0.7, 3.0}), rate = of({0.5, 2.0}), x = of({0.3, 1.7});
  const Gamma d(shape, rate);
  expect_as_torch(d, x,
                  {{-0.53487843162584725, -0.95244913675576848},
                   {1.2880073609822313, 1.154431329803066},
                   {1.4, 1.5},
                   {2.8, 0.75}});
  expect_near(kl_divergence(d, Gamma(of({1.0, 2.0}), 1.0)),
              {0.11199263901776857, 0.1159315156584122});
  expect_moments(d);
  EXPECT_THROW(Gamma(-1.0, 1.0), ArgumentError);
}

// Values outside of the support have probability 0, and NaN stays NaN.
TEST(MoreDistributions, CdfOutsideOfTheSupport) {
  const Variable x = of({-INFINITY, -1.0, NAN});
  const auto expect_zeros = [&](const Distribution& d) {
    const auto y = d.cdf(x).to_vector<double>();
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[1], 0);
    EXPECT_TRUE(std::isnan(y[2]));
  };
  expect_zeros(Exponential(of({0.5})));
  expect_zeros(LogNormal(of({0.5}), of({1.0})));
  expect_zeros(HalfNormal(of({0.5})));
  expect_zeros(HalfCauchy(of({0.5})));
  expect_zeros(Weibull(of({0.5}), of({2.0})));
  expect_zeros(Pareto(of({0.5}), of({2.0})));
  EXPECT_EQ(Pareto(of({0.5}), of({2.0})).cdf(of({0.3})).item<double>(), 0);
  EXPECT_TRUE(std::isnan(Exponential(of({0.5})).log_prob(x).to_vector<double>()[2]));
}

}  // namespace
}  // namespace tapegrad::distributions
