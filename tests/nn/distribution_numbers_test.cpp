// Distributions with numbers as parameters and as values. The expected values are PyTorch's (2.15,
// float64). 0.1, 0.3 and 0.7 are not exact in float32, so a number that was rounded to float32
// before it met a float64 parameter misses the tolerance.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "nn/distributions/distributions.h"
#include "ops/arithmetic.h"
#include "ops/create.h"
#include "ops/unary.h"
#include "tests/error_message.h"

namespace tapegrad::distributions {
namespace {

Variable t(double value) { return full({}, value, {.dtype = f64}); }
Variable t(const std::vector<double>& values) { return tensor(values, {.dtype = f64}); }

void expect_at(const Distribution& d, double value, double log_prob, std::optional<double> cdf = {},
               std::optional<double> icdf_of_0_3 = {}, double tolerance = 1e-13) {
  const auto expect = [&](const Variable& found, double expected) {
    EXPECT_EQ(found.dtype(), f64);
    EXPECT_NEAR(found.item(), expected, tolerance * std::max(1.0, std::abs(expected)));
  };
  expect(d.log_prob(value), log_prob);
  if (cdf) expect(d.cdf(value), *cdf);
  if (icdf_of_0_3) expect(d.icdf(0.3), *icdf_of_0_3);
}

TEST(DistributionNumbers, RealNumbers) {
  expect_at(Normal(0.1, t(0.7)), 0.3, -0.6030799157965525, 0.6124515189020077,
            -0.26708035889562864);
  expect_at(Normal(t(0.1), 0.7), 0.3, -0.6030799157965525, 0.6124515189020077,
            -0.26708035889562864);
  expect_at(LogNormal(0.1, t(0.7)), 0.3, -1.0933367792478068, 0.031243917797695087,
            0.765611545295059);
  expect_at(HalfNormal(t(0.7)), 0.3, 0.03904685660012752, 0.33176485820475055, 0.26972432648529737);
  expect_at(Uniform(t(0.1), 0.7), 0.3, 0.5108256237659907, 0.3333333333333333, 0.28);
  expect_at(Exponential(t(0.7)), 0.3, -0.5666749439387324, 0.18941575402981292, 0.509535634198189);
  expect_at(Laplace(0.1, t(0.7)), 0.3, -0.6221865223354985, 0.624261353462357,
            -0.25757793663619344);
  expect_at(Cauchy(0.1, t(0.7)), 0.3, -0.866526557352163, 0.5885855327829047, -0.40857976960375264);
  expect_at(HalfCauchy(t(0.7)), 0.3, -0.2635304737865152, 0.2577621168183133, 0.3566678146461002);
  expect_at(Gumbel(t(0.1), 0.7), 0.3, -0.6805166348508394, 0.4716692440950877,
            -0.029938731203656005);
  expect_at(Weibull(0.7, t(1.3)), 0.3, 0.032473450684047, 0.2827826882719716, 0.31673229598161073);
  expect_at(Pareto(0.1, t(1.3)), 0.3, 0.038141093524884484, 0.7602589688917119, 0.1315695392560444);
  expect_at(Gamma(2, t(1.3)), 0.3, -1.069244275390954, 0.05889094444755105);
  expect_at(Chi2(t(1.3)), 0.3, -0.5047073737697897, 0.3054464865374794);
  expect_at(StudentT(t(1.3), 0.1, 0.7), 0.3, -0.8117673877517912);
  expect_at(StudentT(3, 0.1, t(0.7)), 0.3, -0.6979084057571534);
  expect_at(Beta(2, t(3.3)), 0.3, 0.6282123157869307);
  // PyTorch's Bessel functions are accurate to 1e-7.
  expect_at(VonMises(0.1, t(1.3)), 0.3, -0.9485614997096419, {}, {}, 1e-7);
}

TEST(DistributionNumbers, WholeNumbersAndClasses) {
  expect_at(Bernoulli(t(0.3)), 1, -1.2039728043259361);
  expect_at(Bernoulli(t(0.3)), true, -1.2039728043259361);
  expect_at(Binomial(4, t(0.3)), 3, -2.5822989957966493);
  expect_at(NegativeBinomial(2.5, t(0.3)), 3, -2.622234144906897);
  expect_at(NegativeBinomial(t(2.5), 0.3), 3, -2.622234144906897);
  expect_at(NegativeBinomial(t(2.5), {.probs = 0.3}), 3, -2.622234144906897);
  expect_at(Geometric(t(0.3)), 3, -2.2739976361421332);
  expect_at(Poisson(t(1.3)), int64_t(3), -2.304666675825582);
  expect_at(Categorical(t({0.2, 0.3, 0.5})), 2, -0.6931471805599453);
}

TEST(DistributionNumbers, DistributionsOfDistributions) {
  expect_at(
      TransformedDistribution(Normal(0.1, t(0.7)), {ExpTransform(), AffineTransform(0.1, 0.7)}),
      0.3, -0.8201396043138809, 0.02664776881841119, 0.6359280817065412);
  expect_at(TransformedDistribution(Exponential(t(0.7)), {PowerTransform(1.3)}), 0.3,
            -0.6184570332645724, 0.242140830471264, 0.41622381940661346);
  expect_at(Independent(Normal(t({0.1, 1.1}), 0.7), 1), 0.3, -1.818404729552289);
  expect_at(MixtureSameFamily(Categorical(t({0.2, 0.8})), Normal(t({0.1, 1.1}), 0.7)), 0.3,
            -1.0592501082649117, 0.22372946735924776);
}

TEST(DistributionNumbers, ATemperature) {
  const Variable probs = t({0.2, 0.3, 0.5}), value = t({0.1, 0.2, 0.7});
  EXPECT_NEAR(RelaxedOneHotCategorical(0.5, probs).log_prob(value).item(), 0.27637489060978204,
              1e-14);
  const Variable temperature = t(0.5).requires_grad_();
  const Variable y = RelaxedOneHotCategorical(temperature, {.probs = probs}).log_prob(value);
  EXPECT_NEAR(y.item(), 0.27637489060978204, 1e-14);
  y.backward();
  EXPECT_NEAR(temperature.grad().item(), 3.9300773514935483, 1e-13);
}

// Closed forms. Without a Variable, numbers are of the default dtype.
TEST(DistributionNumbers, NumbersOnly) {
  EXPECT_EQ(Beta(2, 3).log_prob(0.3).dtype(), f32);
  EXPECT_NEAR(Beta(2, 3).log_prob(0.3).item(), std::log(12 * 0.3 * 0.7 * 0.7), 1e-6);
  EXPECT_NEAR(Normal(0, 1).cdf(0).item(), 0.5, 1e-7);
  EXPECT_NEAR(Exponential(2).icdf(0.5f).item(), std::log(2) / 2, 1e-7);
  EXPECT_EQ(Uniform(0, 4).log_prob(5).item(), -INFINITY);
  EXPECT_NEAR(Poisson(2).log_prob(2).item(), std::log(2) - 2, 1e-6);
  EXPECT_NEAR(StudentT(1).log_prob(0).item(), -std::log(3.14159265358979), 1e-6);
}

TEST(DistributionNumbers, BesideFloat16AndWholeNumbers) {
  // 3001 is not a float16; 3000 and 3002 are.
  const Variable logits = remainder(arange(4000), 2).to(f16);
  const Categorical classes({.logits = logits});
  EXPECT_EQ(classes.log_prob(3001).item(), classes.logits.select(0, 3001).item());
  const Variable half = full({2}, 0.5, {.dtype = f16});
  EXPECT_EQ(Normal(0.0, half).log_prob(0.25).dtype(), f16);
  const Variable whole = tensor({1, 2}, {.dtype = i64});
  EXPECT_NEAR(Normal(whole, 0.5).loc.to_vector<double>()[1], 2, 0);
  EXPECT_EQ(Normal(whole, 0.5).scale.dtype(), f32);
}

TEST(DistributionNumbers, ErrorsNameTheValues) {
  const auto expect = [](const std::function<void()>& make, const std::string& text) {
    testing::expect_error<ArgumentError>(text, make);
  };
  expect([] { Normal(0, -1.5); }, "Normal: scale > 0 is required, not -1.5");
  expect([] { Normal(zeros({3}), t({1, -2, -3})); }, "Normal: scale > 0 is required, not -2");
  expect([] { Uniform(t({0, 2}), 1.5); }, "Uniform: low < high is required, not 2 and 1.5");
  expect([] { Bernoulli(1.25); }, "Bernoulli: 0 <= probs <= 1 is required, not 1.25");
  expect([] { Gamma(1, 0); }, "Gamma: rate > 0 is required, not 0");
  expect([] { Categorical(t({1, -1})); }, "Categorical: probs >= 0 is required, not -1");
  expect(
      [] {
        MultivariateNormal(ones({1}), {.scale_tril = full({1, 1}, -2.0)});
      },
      "MultivariateNormal: a positive diagonal of scale_tril is required, not -2");
}

}  // namespace
}  // namespace tapegrad::distributions
