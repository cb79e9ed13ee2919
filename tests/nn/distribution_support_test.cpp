// Distributions at and beyond the ends of their support: log_prob() is -inf with finite gradients
// of the parameters, cdf() is 0 or 1, icdf() is infinite or NaN. The cdf of Gamma and Chi2 is
// compared with PyTorch 2.15 (torch.special.gammainc, float64), whose error is up to 4e-10, and for
// large parameters with sums of 60 decimal digits.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <vector>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "nn/distributions/continuous_distributions.h"
#include "nn/distributions/discrete_distributions.h"
#include "nn/distributions/distributions.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

constexpr double kInf = INFINITY;

Variable t(std::vector<double> values) { return tensor(values, {.dtype = f64}); }

using Make = std::function<std::unique_ptr<Distribution>(const Variable&, const Variable&)>;
template <typename D>
Make of_two() {
  return [](const Variable& a, const Variable& b) { return std::make_unique<D>(a, b); };
}
template <typename D>
Make of_one() {
  return [](const Variable& a, const Variable&) { return std::make_unique<D>(a); };
}

/// Expects -inf at each value, and gradients of the parameters that are 0.
void expect_outside(const Make& make, const std::vector<double>& values) {
  for (const double value : values) {
    const Variable a = t({0.5}).requires_grad_(), b = t({0.75}).requires_grad_();
    const Variable y = make(a, b)->log_prob(t({value}));
    EXPECT_EQ(y.item(), -kInf) << value;
    if (y.requires_grad()) sum(y).backward();
    for (const Variable& p : {a, b}) {
      EXPECT_EQ(p.grad().defined() ? p.grad().item() : 0, 0) << value;
    }
  }
  EXPECT_TRUE(std::isnan(make(t({0.5}), t({0.75}))->log_prob(t({NAN})).item()));
}

TEST(DistributionSupport, LogProbOutside) {
  expect_outside(of_one<Exponential>(), {-kInf, -1, -1e-300});
  expect_outside(of_two<Gamma>(), {-kInf, -1, kInf});
  expect_outside(of_one<Chi2>(), {-kInf, -1, kInf});
  expect_outside(of_two<Beta>(), {-kInf, -1, 1.5, kInf});
  expect_outside(of_two<LogNormal>(), {-kInf, -1, 0});
  expect_outside(of_one<HalfNormal>(), {-kInf, -1});
  expect_outside(of_one<HalfCauchy>(), {-kInf, -1});
  expect_outside(of_two<Weibull>(), {-kInf, -1, kInf});
  expect_outside(of_two<Pareto>(), {-kInf, -1, 0, 0.25});
  expect_outside(of_one<Poisson>(), {-1, 1.5});
  expect_outside(of_one<Geometric>(), {-1, 1.5});
  expect_outside(of_one<Bernoulli>(), {-1, 0.5, 2});
  expect_outside(
      [](const Variable& p, const Variable&) { return std::make_unique<Binomial>(3, p); },
      {-1, 1.5, 4});
}

TEST(DistributionSupport, VectorsOutside) {
  const Categorical classes(t({0.25, 0.75}));
  EXPECT_EQ(classes.log_prob(t({0.5})).item(), -kInf);
  EXPECT_THROW(classes.log_prob(t({2})), IndexError);
  const Multinomial counts(3, t({0.25, 0.75}));
  const auto log_prob = [](const Distribution& d, std::vector<double> x) {
    return d.log_prob(t(std::move(x))).item();
  };
  EXPECT_NEAR(log_prob(counts, {1, 2}), std::log(3 * 0.25 * 0.75 * 0.75), 1e-14);
  for (const auto& x : {std::vector<double>{1, 1}, {4, -1}, {1.5, 1.5}})
    EXPECT_EQ(log_prob(counts, x), -kInf);
  const OneHotCategorical one(t({0.25, 0.75}));
  EXPECT_NEAR(log_prob(one, {0, 1}), std::log(0.75), 1e-14);
  for (const auto& x : {std::vector<double>{0, 0}, {1, 1}, {0.25, 0.75}, {2, -1}})
    EXPECT_EQ(log_prob(one, x), -kInf);
  const Dirichlet simplex(t({1, 2}));
  EXPECT_NEAR(log_prob(simplex, {0.25, 0.75}), std::log(1.5), 1e-14);
  for (const auto& x : {std::vector<double>{0.5, 0.25}, {1.5, -0.5}})
    EXPECT_EQ(log_prob(simplex, x), -kInf);
}

TEST(DistributionSupport, WholeNumbersAsValues) {
  const Variable k = tensor({0, 2}, {.dtype = i64});
  EXPECT_NEAR(Poisson(t({1.5})).log_prob(k).to_vector<double>()[1],
              2 * std::log(1.5) - 1.5 - std::log(2), 1e-14);
  EXPECT_NEAR(Bernoulli(t({0.25})).log_prob(tensor({true}, {.dtype = boolean})).item(),
              std::log(0.25), 1e-14);
  EXPECT_NEAR(Binomial(2, t({0.25})).log_prob(k).to_vector<double>()[1], 2 * std::log(0.25), 1e-13);
}

TEST(DistributionSupport, QuantilesAtTheEnds) {
  const Variable ends = t({0, 1}), outside = t({-0.5, 1.5});
  const auto expect = [&](const Distribution& d, double low, double high) {
    EXPECT_EQ(d.icdf(ends).to_vector<double>(), (std::vector<double>{low, high}));
    for (const double x : d.icdf(outside).to_vector<double>()) EXPECT_TRUE(std::isnan(x)) << x;
    EXPECT_EQ(d.cdf(t({-kInf, kInf})).to_vector<double>(), (std::vector<double>{0, 1}));
  };
  expect(Normal(t({1}), t({2})), -kInf, kInf);
  expect(Uniform(t({1}), t({2})), 1, 2);
  expect(Exponential(t({2})), 0, kInf);
  expect(Laplace(t({1}), t({2})), -kInf, kInf);
  expect(LogNormal(t({1}), t({2})), 0, kInf);
  expect(Cauchy(t({1}), t({2})), -kInf, kInf);
  expect(HalfNormal(t({2})), 0, kInf);
  expect(HalfCauchy(t({2})), 0, kInf);
  expect(Gumbel(t({1}), t({2})), -kInf, kInf);
  expect(Weibull(t({1}), t({2})), 0, kInf);
  expect(Pareto(t({1}), t({2})), 1, kInf);
}

// Closed form: -1 / tan(pi p) is -1 / (pi p) near 0.
TEST(DistributionSupport, QuantilesOfCauchyFarOut) {
  constexpr double kPi = 3.14159265358979323846;
  const Cauchy cauchy(tensor({0.0f}), tensor({1.0f}));
  EXPECT_NEAR(cauchy.icdf(tensor({1e-30f})).item() * 1e-30, -1 / kPi, 1e-6);
  EXPECT_NEAR(cauchy.icdf(tensor({1 - 0x1p-24f})).item() * 0x1p-24, 1 / kPi, 1e-6);
  const HalfCauchy half(tensor({1.0f}));
  EXPECT_NEAR(half.icdf(tensor({1 - 0x1p-24f})).item() * 0x1p-24, 2 / kPi, 1e-6);
  const auto checked = gradcheck(
      [](const auto& in) {
        return Cauchy(t({1}), t({2})).icdf(in[0]) + HalfCauchy(t({2})).icdf(in[0]);
      },
      {t({0.1, 0.4, 0.5, 0.6, 0.9}).requires_grad_()}, {.order = 2});
  EXPECT_TRUE(checked) << checked.message;
}

TEST(DistributionSupport, CdfBelowTheSupport) {
  const Variable loc = t({0.5}).requires_grad_(), scale = t({2}).requires_grad_();
  const Variable p = LogNormal(loc, scale).cdf(t({-1, 0}));
  EXPECT_EQ(p.to_vector<double>(), (std::vector<double>{0, 0}));
  sum(p).backward();
  EXPECT_EQ(loc.grad().item(), 0);
  EXPECT_EQ(scale.grad().item(), 0);
}

TEST(DistributionSupport, CdfOfGamma) {
  const Variable a = t({0.05, 0.5, 1, 2.5, 9.5, 10.5, 100, 1e4, 1e6});
  struct Row {
    double at;
    std::vector<double> values;
  };
  const Row rows[] = {
      {0.01,
       {0.7024255533747783, 0.07965567455405799, 0.0099501662508319523, 2.9209539998950114e-05,
        1.5729819641371663e-16, 4.0303371932844392e-18, 3.9812808189566342e-159, 0, 0}},
      {0.5,
       {0.85318873380436122, 0.52049987781304663, 0.39346934028736652, 0.22350492887667728,
        0.035778429267643977, 0.028338355123332704, 3.2000653245849681e-10, 0, 0}},
      {0.99,
       {0.88182085037204883, 0.68025762550772684, 0.6284233089779544, 0.57798727907131853,
        0.53091559833865287, 0.5281684602782839, 0.47330433039946099, 0.15865119219356466, 0}},
      {1.01,
       {0.8826620712301495, 0.68509716098821072, 0.63578102042847662, 0.59019132948236064,
        0.55529030386124867, 0.55381492115240349, 0.55289629343451125, 0.84134875044717962, 1}},
      {5,
       {0.9477088201733187, 0.97465268132253169, 0.99326205300091452, 0.99986066620881442,
        0.99999999999573774, 0.9999999999996273, 1, 1, 1}}};
  for (const Row& row : rows) {
    const auto found = Gamma(a, t({2})).cdf(a * row.at / 2.0).to_vector<double>();
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], row.values[i], 1e-12 * row.values[i] + 1e-20) << row.at << ' ' << i;
  }
  EXPECT_EQ(Gamma(t({2}), t({3})).cdf(t({-1, 0, kInf})).to_vector<double>(),
            (std::vector<double>{0, 0, 1}));
  EXPECT_TRUE(std::isnan(Gamma(t({2}), t({3})).cdf(t({NAN})).item()));
  const std::vector<double> chi2 = {0.52049987781304663, 0.42759329552912023, 0.8427579727616084};
  const auto found = Chi2(t({1, 3, 50})).cdf(t({0.5, 2, 60})).to_vector<double>();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], chi2[i], 1e-12);
}

TEST(DistributionSupport, GradientsOfTheCdfOfGamma) {
  const auto cdf = [](const auto& in) { return Gamma(in[0], in[1]).cdf(in[2]); };
  const std::vector<Variable> in = {t({0.3, 2, 15, 40}).requires_grad_(),
                                    t({2, 0.5, 1, 3}).requires_grad_(),
                                    t({0.1, 3, 20, 12}).requires_grad_()};
  const auto first = gradcheck(cdf, in);
  EXPECT_TRUE(first) << first.message;
  const Variable a = t({2, 3}), rate = t({2, 0.5}).requires_grad_();
  const Variable x = t({0.4, 5}).requires_grad_();
  const auto second = gradcheck([&](const auto& in) { return Gamma(a, in[0]).cdf(in[1]); },
                                {rate, x}, {.order = 2});
  EXPECT_TRUE(second) << second.message;
  // At the ends of the support all gradients are finite.
  const Variable ends = t({0, kInf, -1}).requires_grad_(), b = t({2, 2, 2}).requires_grad_();
  sum(Gamma(b, t({1})).cdf(ends)).backward();
  EXPECT_EQ(ends.grad().to_vector<double>(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{0, 0, 0}));
}

TEST(DistributionSupport, SecondDerivativesInTheConcentrationAreErrors) {
  const Variable a = t({2}).requires_grad_(), x = t({1.5});
  const auto second = [&](const Variable& y) {
    const Variable first = grad(sum(y), a, {.create_graph = true});
    return grad(sum(first), a);
  };
  EXPECT_THROW(second(Gamma(a, t({1})).cdf(x)), AutogradError);
  EXPECT_THROW(second(square(Gamma(a, t({1})).rsample())), AutogradError);
}

// Values of mpmath.
TEST(DistributionSupport, TailsOfTheNormalDistribution) {
  const Normal normal(t({1}), t({2}));
  EXPECT_NEAR(normal.cdf(t({-39})).item() / 2.7536241186062336951e-89, 1, 1e-12);
  EXPECT_NEAR(normal.cdf(t({-15})).item() / 6.2209605742717841235e-16, 1, 1e-13);
  EXPECT_NEAR(normal.icdf(t({1e-20})).item(), 1 - 2 * 9.2623400897984075796, 1e-13);
  EXPECT_EQ(normal.cdf(t({-kInf, 1, kInf})).to_vector<double>(), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(normal.icdf(t({0, 0.5, 1})).to_vector<double>(), (std::vector<double>{-kInf, 1, kInf}));
  EXPECT_NEAR(LogNormal(t({0}), t({1})).icdf(t({1e-20})).item(), std::exp(-9.2623400897984075796),
              1e-17);
}

// exp(-50) / 2 is below the rounding of 1/2, and so is the probability of a Cauchy value below
// -1e20.
TEST(DistributionSupport, TailsOfLaplaceAndCauchy) {
  const Laplace laplace(t({1}), t({2}));
  EXPECT_NEAR(laplace.cdf(t({-99})).item() / (0.5 * std::exp(-50)), 1, 1e-14);
  EXPECT_NEAR(laplace.icdf(t({1e-30})).item(), 1 + 2 * std::log(2e-30), 1e-12);
  EXPECT_EQ(laplace.icdf(t({0, 0.5, 1})).to_vector<double>(),
            (std::vector<double>{-kInf, 1, kInf}));
  const Variable at = t({1}).requires_grad_(), p = t({0.5}).requires_grad_();
  sum(laplace.cdf(at)).backward();
  EXPECT_EQ(at.grad().item(), 0.25);  // the density
  sum(laplace.icdf(p)).backward();
  EXPECT_EQ(p.grad().item(), 4);
  EXPECT_NEAR(Cauchy(t({0}), t({1})).cdf(t({-1e20})).item() * 1e20, 1 / 3.14159265358979323846,
              1e-15);
  EXPECT_EQ(Cauchy(t({0}), t({1})).cdf(t({-kInf, 0, kInf})).to_vector<double>(),
            (std::vector<double>{0, 0.5, 1}));
}

// Probabilities that round to 0 or 1, given by their logits. The values are PyTorch's (2.15).
TEST(DistributionSupport, CountsOfLargeLogits) {
  const Variable logits = tensor({20.0f, -110.0f, 100.0f}).requires_grad_();
  const Variable y = Binomial(5, {.logits = logits}).log_prob(tensor({2.0f, 1.0f, 3.0f}));
  const auto found = y.to_vector<double>();
  EXPECT_NEAR(found[0], -57.697414398193359, 1e-5);
  EXPECT_NEAR(found[1], std::log(5) - 110, 1e-5);
  EXPECT_NEAR(found[2], std::log(10) - 200, 1e-4);
  sum(y).backward();
  EXPECT_EQ(logits.grad().to_vector<double>(), (std::vector<double>{-3, 1, -2}));
  EXPECT_EQ(Geometric({.logits = tensor({30.0f})}).log_prob(tensor({4.0f})).item(), -120);
  const Variable rare = Geometric(tensor({1e-6f})).log_prob(tensor({1e6f}));
  EXPECT_NEAR(rare.item(), std::log(1e-6) - 1.0000005, 2e-6);
  EXPECT_NEAR(Geometric(t({1e-20})).entropy().item(), 1 + 20 * std::log(10), 1e-12);
  const Variable three = tensor({0.0f, -110.0f, -200.0f});
  const Variable counts = tensor({4.0f, 2.0f, 0.0f});
  EXPECT_NEAR(Multinomial(6, {.logits = three}).log_prob(counts).item(), std::log(15) - 220, 1e-4);
  EXPECT_EQ(Binomial(5, t({0, 1})).log_prob(t({0, 5})).to_vector<double>(),
            (std::vector<double>{0, 0}));

  EXPECT_EQ(Geometric({.logits = tensor({-200.0f})}).log_prob(tensor({3.0f})).item(), -200);
  const NegativeBinomial failures(2, {.logits = tensor({18.0f})});
  EXPECT_NEAR(failures.log_prob(tensor({3.0f})).item(), std::log(4) - 36, 1e-5);
  EXPECT_THROW(Bernoulli({.logits = tensor({NAN})}), ArgumentError);
  EXPECT_THROW(Geometric({.logits = tensor({NAN})}), ArgumentError);
}

// The variance underflows in float32.
TEST(DistributionSupport, StandardDeviationsOfSmallScales) {
  const Variable scale = tensor({1e-25f}).requires_grad_();
  const auto expect = [&](const Distribution& of, double factor) {
    const Variable y = of.stddev();
    EXPECT_NEAR(y.item() / (1e-25 * factor), 1, 1e-6);
    EXPECT_NEAR(grad(y, scale).item() / factor, 1, 1e-6);
  };
  expect(Normal(0, scale), 1);
  expect(Laplace(0, scale), std::sqrt(2));
  expect(Gumbel(0, scale), std::numbers::pi / std::sqrt(6));
  expect(HalfNormal(scale), std::sqrt(1 - 2 / std::numbers::pi));
  expect(Uniform(-scale, scale), 1 / std::sqrt(3));
  EXPECT_EQ(Exponential(tensor({0x1p+100f})).stddev().item(), 0x1p-100);
}

// Some of the probabilities are 0 in float32; the derivative is PyTorch's in float64.
TEST(DistributionSupport, EntropyOfLargeLogits) {
  const Variable logits = tensor({-30.0f}).requires_grad_();
  const Variable y = Binomial(5, {.logits = logits}).entropy();
  y.backward();
  EXPECT_NEAR(y.item() / 1.3750e-11, 1, 1e-3);
  EXPECT_NEAR(logits.grad().item() / 1.3284e-11, 1, 1e-3);
}

}  // namespace
}  // namespace tapegrad::distributions
