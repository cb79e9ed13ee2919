// Distributions: values and gradients of PyTorch 2.15.0 in float64, closed forms, and moments of
// samples. The numbers are what torch.distributions prints for the same parameters, except for the
// gradients of the entropy and divergence of Dirichlet and Beta: PyTorch's trigamma is off by 3e-10
// there (4.934802202073678 at 0.5, where pi^2 / 2 is 4.934802200544679), so those are mpmath's,
// with 40 digits.
#include "nn/distributions/distributions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

using Doubles = std::vector<double>;
using Leaves = std::vector<Variable>;

/// Returns a leaf in float64.
Variable leaf(const Doubles& values, const Shape& shape = {}) {
  Variable x(
      Tensor::from<double>(values, shape.rank() > 0 ? shape : Shape{int64_t(values.size())}));
  return x.requires_grad_();
}

void expect_near(const Variable& got, const Doubles& expected) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(values[i])) << i;
    else
      EXPECT_NEAR(values[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << i;
}

/// The gradients of the sum of y with respect to all leaves, one after the other.
void expect_gradient(const Variable& y, const Leaves& leaves, const Doubles& expected) {
  const Variable total = sum(y);
  const std::vector<Variable> gradients =
      grad(std::span(&total, 1), leaves, {}, {.retain_graph = true, .allow_unused = true});
  Doubles values;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Doubles part = gradients[i].defined() ? gradients[i].to_vector<double>()
                                                : Doubles(size_t(leaves[i].numel()), 0.0);
    values.insert(values.end(), part.begin(), part.end());
  }
  expect_near(Variable(Tensor::from<double>(values, {int64_t(values.size())})), expected);
}

struct Expected {
  Doubles log_prob, entropy, log_prob_gradient, entropy_gradient, mean, variance;
};

void expect_as_torch(const Distribution& distribution, const Leaves& leaves, const Variable& value,
                     const Expected& expected) {
  const Variable log_prob = distribution.log_prob(value), entropy = distribution.entropy();
  expect_near(log_prob, expected.log_prob);
  expect_near(entropy, expected.entropy);
  expect_gradient(log_prob, leaves, expected.log_prob_gradient);
  expect_gradient(entropy, leaves, expected.entropy_gradient);
  expect_near(distribution.mean(), expected.mean);
  expect_near(distribution.variance(), expected.variance);
}

TEST(Distributions, Normal) {
  const Variable a = leaf({0.5, -1.0});
  const Variable b = leaf({0.7, 2.5});
  expect_as_torch(Normal(a, b), {a, b}, leaf({0.1, 3.0}),
                  {.log_prob = {-0.7255288953883893, -3.115229265078828},
                   .entropy = {1.0622635892659402, 2.3352292650788278},
                   .log_prob_gradient = {-0.8163265306122451, 0.64, -0.9620991253644313, 0.624},
                   .entropy_gradient = {0.0, 0.0, 1.4285714285714286, 0.4},
                   .mean = {0.5, -1.0},
                   .variance = {0.48999999999999994, 6.25}});
}

TEST(Distributions, Uniform) {
  const Variable a = leaf({0.5, -1.0});
  const Variable b = leaf({0.7, 2.5});
  expect_as_torch(Uniform(a, b), {a, b}, leaf({0.6, 2.0}),
                  {.log_prob = {1.6094379124341005, -1.252762968495368},
                   .entropy = {-1.6094379124341005, 1.252762968495368},
                   .log_prob_gradient = {5.000000000000001, 0.2857142857142857, -5.000000000000001,
                                         -0.2857142857142857},
                   .entropy_gradient = {-5.000000000000001, -0.2857142857142857, 5.000000000000001,
                                        0.2857142857142857},
                   .mean = {0.6, 0.75},
                   .variance = {0.003333333333333332, 1.0208333333333333}});
}

TEST(Distributions, BernoulliOfProbs) {
  const Variable p = leaf({0.3, 0.9});
  expect_as_torch(Bernoulli(p), {p}, leaf({1.0, 0.0}),
                  {.log_prob = {-1.2039728043259361, -2.302585092994046},
                   .entropy = {0.6108643020548935, 0.3250829733914482},
                   .log_prob_gradient = {3.333333333333334, -10.000000000000002},
                   .entropy_gradient = {0.8472978603872036, -2.197224577336221},
                   .mean = {0.3, 0.9},
                   .variance = {0.21, 0.08999999999999998}});
}

// The exact numbers; PyTorch has NaN for all of them except the first.
TEST(Distributions, BernoulliOfInfiniteLogits) {
  const Variable up = leaf({INFINITY}), down = leaf({-INFINITY});
  const Variable no = tensor({0.0}), yes = tensor({1.0});
  EXPECT_EQ(Bernoulli({.logits = up}).log_prob(no).item(), -INFINITY);
  EXPECT_EQ(Bernoulli({.logits = up}).log_prob(yes).item(), 0);
  EXPECT_EQ(Bernoulli({.logits = down}).log_prob(no).item(), 0);
  EXPECT_EQ(Bernoulli({.logits = down}).log_prob(yes).item(), -INFINITY);
  EXPECT_EQ(Bernoulli({.logits = up}).entropy().item(), 0);
  EXPECT_EQ(Bernoulli({.logits = down}).entropy().item(), 0);
}
TEST(Distributions, BernoulliOfLogits) {
  const Variable l = leaf({-1.5, 2.0});
  expect_as_torch(Bernoulli({.logits = l}), {l}, leaf({1.0, 0.0}),
                  {.log_prob = {-1.7014132779827524, -2.1269280110429727},
                   .entropy = {0.47505156369228696, 0.36533385508720784},
                   .log_prob_gradient = {0.8175744761936437, -0.8807970779778823},
                   .entropy_gradient = {0.22371967810549928, -0.20998717080701323},
                   .mean = {0.18242552380635635, 0.8807970779778823},
                   .variance = {0.14914645207033286, 0.10499358540350662}});
}

TEST(Distributions, CategoricalOfProbs) {
  const Variable p = leaf({0.2, 0.5, 0.3, 1.0, 3.0, 4.0}, {2, 3});
  expect_as_torch(
      Categorical(p), {p}, tensor({2, 0}, {.dtype = i64}),
      {.log_prob = {-1.2039728043259361, -2.0794415416798357},
       .entropy = {1.0296530140645737, 0.9743147528693494},
       .log_prob_gradient = {-1.0, -1.0, 2.3333333333333335, 0.875, -0.125, -0.125},
       .entropy_gradient = {0.5797848983695267, -0.33650583350462826, 0.17431979026136257,
                            0.1381408486013108, 0.0008143125177970945, -0.03514594653867552},
       .mean = {NAN, NAN},
       .variance = {NAN, NAN}});
}

TEST(Distributions, CategoricalOfLogits) {
  const Variable l = leaf({0.2, -0.5, 1.3, 1.0, 3.0, -4.0}, {2, 3});
  expect_as_torch(
      Categorical({.logits = l}), {l}, tensor({2, 0}, {.dtype = i64}),
      {.log_prob = {-0.40424434455923786, -2.1277308716348595},
       .entropy = {0.8472489457102825, 0.3715631545368037},
       .log_prob_gradient = {-0.22218512581156483, -0.11033386819906844, 0.33251899401063323,
                             0.8808927428984757, -0.880090204512919, -0.0008025383855565164},
       .entropy_gradient = {0.14597460535087442, 0.149722551483343, -0.2956971568342174,
                            0.20917231979379514, -0.21459440372602423, 0.0054220839322289315},
       .mean = {NAN, NAN},
       .variance = {NAN, NAN}});
}

TEST(Distributions, Multinomial) {
  const Variable l = leaf({0.2, -0.5, 1.3});
  expect_as_torch(
      Multinomial(5, {.logits = l}), {l}, leaf({2.0, 0.0, 3.0}),
      {.log_prob = {-1.9186366298021436},
       .entropy = {2.2278601338478277},
       .log_prob_gradient = {0.8890743709421758, -0.5516693409953423, -0.33740502994683386},
       .entropy_gradient = {0.224975847608049, 0.3587606188557803, -0.5837364664638289},
       .mean = {1.1109256290578242, 0.5516693409953423, 3.337405029946834},
       .variance = {0.8640944783983198, 0.49080152863649523, 1.1097505631639484}});
}

TEST(Distributions, Dirichlet) {
  const Variable c = leaf({0.5, 2.0, 3.5});
  expect_as_torch(
      Dirichlet(c), {c}, leaf({0.2, 0.3, 0.5}),
      {.log_prob = {0.8820313980015224},
       .entropy = {-2.0582311419371573},
       .log_prob_gradient = {2.0601897820191226, 0.0793605290073971, -0.09018615277338815},
       .entropy_gradient = {3.011369967483686, -0.10096519963688046, -0.2819255230392412},
       .mean = {0.08333333333333333, 0.3333333333333333, 0.5833333333333334},
       .variance = {0.010912698412698412, 0.031746031746031744, 0.034722222222222224}});
}

TEST(Distributions, Beta) {
  const Variable a = leaf({0.5, 2.0});
  const Variable b = leaf({1.5, 7.0});
  expect_as_torch(Beta(a, b), {a, b}, leaf({0.3, 0.9}),
                  {.log_prob = {-0.027933775095853042, -9.895519382886953},
                   .entropy = {-0.5484172947105447, -0.7003516907351486},
                   .log_prob_gradient = {1.1823215567939538, 1.6124966271993164,
                                         0.029619417181158403, -2.034727950136903},
                   .entropy_gradient = {2.4674011002723395, 0.17765003600999354,
                                        -0.46740110027233966, -0.0986869648978053},
                   .mean = {0.25, 0.2222222222222222},
                   .variance = {0.0625, 0.01728395061728395}});
}

TEST(Distributions, KlDivergence) {
  {
    const Variable a = leaf({0.5, -1.0});
    const Variable b = leaf({0.7, 2.5});
    const Variable c = leaf({0.0, 1.0});
    const Variable d = leaf({1.2, 0.4});
    const Variable kl = kl_divergence(Normal(a, b), Normal(c, d));
    expect_near(kl, {0.2959409451771314, 29.698668536251688});
    expect_gradient(kl, {a, b, c, d},
                    {0.34722222222222227, -12.5, -0.9424603174603171, 15.225, -0.34722222222222227,
                     12.5, 0.40509259259259245, -157.65625});
  }
  {
    const Variable a = leaf({0.5});
    const Variable b = leaf({0.7});
    const Variable c = leaf({0.1});
    const Variable d = leaf({2.0});
    const Variable kl = kl_divergence(Uniform(a, b), Uniform(c, d));
    expect_near(kl, {2.2512917986064953});
    expect_gradient(
        kl, {a, b, c, d},
        {5.000000000000001, -5.000000000000001, -0.5263157894736842, 0.5263157894736842});
  }
  {
    const Variable a = leaf({-1.5, 2.0});
    const Variable b = leaf({0.3, -0.2});
    const Variable kl = kl_divergence(Bernoulli({.logits = a}), Bernoulli({.logits = b}));
    expect_near(kl, {0.3245760236343333, 0.4089644298899604});
    expect_gradient(
        kl, {a, b},
        {-0.2684636137265991, 0.23098588788771443, 0.3920169930053026, -0.43063107529036027});
  }
  {
    const Variable a = leaf({0.2, -0.5, 1.3});
    const Variable b = leaf({1.0, 3.0, -4.0});
    const Variable kl = kl_divergence(Categorical({.logits = a}), Categorical({.logits = b}));
    expect_near(kl, {4.397219219473274});
    expect_gradient(kl, {a, b},
                    {-0.8384672730395877, -0.7142719696390031, 1.5527392426785909,
                     -0.10307786871004057, 0.7697563363138505, -0.6666784676038102});
  }
  {
    const Variable a = leaf({0.5, 2.0, 3.5});
    const Variable b = leaf({1.5, 1.0, 0.5});
    const Variable kl = kl_divergence(Dirichlet(a), Dirichlet(b));
    expect_near(kl, {3.349999999999999});
    expect_gradient(kl, {a, b},
                    {-5.478771067756025, 0.10096519963688046, 0.4471044010893586, 2.783333333333333,
                     -0.21666666666666667, -2.283333333333333});
  }
  {
    const Variable a = leaf({0.5, 2.0});
    const Variable b = leaf({1.5, 7.0});
    const Variable c = leaf({1.5, 3.0});
    const Variable d = leaf({0.5, 2.0});
    const Variable kl = kl_divergence(Beta(a, b), Beta(c, d));
    expect_near(kl, {1.9999999999999991, 1.9190164695185796});
    expect_gradient(kl, {a, b, c, d},
                    {-4.934802200544679, -1.1149821256243522, 0.9348022005446793,
                     0.29767783102056206, 2.0, 1.1345238095238095, -2.0, -0.8154761904761905});
  }
  EXPECT_EQ(kl_divergence(Normal(1.0, 2.0), Normal(1.0, 2.0)).item(), 0);
  EXPECT_EQ(kl_divergence(Uniform(0.0, 2.0), Uniform(0.0, 1.0)).item(), INFINITY);
  const Bernoulli never(tensor({0.0}, {.dtype = f64})), half(tensor({0.5}, {.dtype = f64}));
  EXPECT_NEAR(kl_divergence(never, half).item(), std::log(2.0), 1e-12);
  EXPECT_EQ(kl_divergence(half, never).item(), INFINITY);
}

/// Means and variances of many samples lie within five standard errors of their values.
void expect_moments(const Distribution& distribution, const Shape& shape) {
  constexpr int64_t kCount = 40'000;
  RandomGenerator generator(7);
  const Variable samples = distribution.sample({kCount}, generator);
  Shape expected{kCount};
  for (const int64_t size : shape) expected.push_back(size);
  EXPECT_EQ(samples.shape(), expected);
  EXPECT_FALSE(samples.requires_grad());
  const Variable centred = samples - mean(samples, {0});
  const Doubles got = mean(samples, {0}).to_vector<double>();
  const Doubles spread = mean(centred * centred, {0}).to_vector<double>();
  const Doubles means = distribution.mean().to_vector<double>();
  const Doubles variances = distribution.variance().to_vector<double>();
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], means[i], 5 * std::sqrt(variances[i] / kCount)) << i;
    EXPECT_NEAR(spread[i], variances[i], 0.06 * variances[i]) << i;
  }
}

TEST(Distributions, SamplesHaveTheMoments) {
  expect_moments(Normal(leaf({0.5, -1.0}), leaf({0.7, 2.5})), {2});
  expect_moments(Uniform(leaf({0.5, -1.0}), leaf({0.7, 2.5})), {2});
  expect_moments(Bernoulli(leaf({0.3, 0.9})), {2});
  expect_moments(Beta(leaf({0.5, 2.0}), leaf({1.5, 7.0})), {2});
  expect_moments(Dirichlet(leaf({0.5, 2.0, 3.5})), {3});
  expect_moments(Multinomial(5, {.logits = leaf({0.2, -0.5, 1.3})}), {3});
  const Categorical categorical(leaf({0.2, 0.5, 0.3}));
  const Variable ids = categorical.sample({40'000});
  EXPECT_EQ(ids.dtype(), i64);
  for (int64_t id = 0; id < 3; ++id)
    EXPECT_NEAR(mean(eq(ids, id).to(f64)).item(), categorical.probs.to_vector<double>()[id], 0.013);
}

TEST(Distributions, GradientsFlowThroughSamples) {
  const Variable loc = leaf({0.5}), scale = leaf({2.0});
  const Variable z = Normal(loc, scale).rsample({3});
  // z = loc + scale noise
  const Doubles noise = ((z.detach() - 0.5) / 2.0).to_vector<double>();
  expect_gradient(z, {loc, scale}, {3.0, noise[0] + noise[1] + noise[2]});
  const Variable low = leaf({1.0}), high = leaf({3.0});
  const Variable u = Uniform(low, high).rsample();
  const double share = (u.item() - 1) / 2;
  expect_gradient(u, {low, high}, {1 - share, share});
  EXPECT_THROW(Categorical(leaf({0.5, 0.5})).rsample(), ArgumentError);
}

/// The mean of the gradients of samples is the gradient of the mean: of x and of x^2 for a Beta.
TEST(Distributions, GradientsOfBetaSamplesHaveTheRightMean) {
  constexpr int64_t kCount = 20'000;
  for (const auto& [a, b] : {std::pair(0.4, 1.5), {2.0, 0.7}, {30.0, 9.0}}) {
    const Variable c1 = leaf({a}), c0 = leaf({b});
    RandomGenerator generator(11);
    const Variable x = Beta(c1, c0).rsample({kCount}, generator);
    const Leaves leaves = {c1, c0};
    const auto gradients_of = [&](const Variable& y) {
      const std::vector<Variable> g = grad(std::span(&y, 1), leaves, {}, {.retain_graph = true});
      return std::pair(g[0].item(), g[1].item());
    };
    const double n = a + b, scale = 0.03 * (a < 10 ? 1 : 0.03);
    const auto [da, db] = gradients_of(mean(x));
    EXPECT_NEAR(da, b / (n * n), scale);
    EXPECT_NEAR(db, -a / (n * n), scale);
    // The mean of x^2 is a (a + 1) / (n (n + 1)).
    const auto [da2, db2] = gradients_of(mean(x * x));
    const double second = a * (a + 1) / (n * (n + 1)), by_n = -second * (1 / n + 1 / (n + 1));
    EXPECT_NEAR(da2, (2 * a + 1) / (n * (n + 1)) + by_n, scale);
    EXPECT_NEAR(db2, by_n, scale);
  }
}

TEST(Distributions, ParametersAreChecked) {
  EXPECT_THROW(Normal(0.0, -1.0), ArgumentError);
  EXPECT_THROW(Uniform(1.0, 1.0), ArgumentError);
  EXPECT_THROW(Bernoulli(1.5), ArgumentError);
  EXPECT_THROW(Beta(0.0, 1.0), ArgumentError);
  EXPECT_THROW(Categorical(Odds{}), ArgumentError);
  EXPECT_THROW(Multinomial(-1, leaf({1.0})), ArgumentError);
}

}  // namespace
}  // namespace tapegrad::distributions
