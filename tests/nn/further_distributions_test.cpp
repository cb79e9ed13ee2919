// Values of PyTorch 2.15 in float64 for the distributions of
// nn/distributions/continuous_distributions.h, nn/distributions/discrete_distributions.h and
// nn/distributions/transformed_distribution.h, and for cdf and icdf.
#include <gtest/gtest.h>

#include <cmath>

#include "core/autograd/gradcheck.h"
#include "nn/distributions/continuous_distributions.h"
#include "nn/distributions/discrete_distributions.h"
#include "nn/distributions/transformed_distribution.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

Variable t(std::vector<double> values) { return tensor(values, {.dtype = f64}); }

void expect(const Variable& found, const std::vector<double>& expected) {
  const std::vector<double> values = found.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(expected[i]))
      EXPECT_NEAR(values[i], expected[i], 1e-12 * std::max(1.0, std::abs(expected[i]))) << i;
    else
      EXPECT_EQ(std::isnan(values[i]), std::isnan(expected[i])) << i;
  }
}

const double kInf = INFINITY, kNan = NAN;

struct Numbers {
  std::vector<double> log_prob, entropy, mean, variance, cdf, icdf;
};
void check(const Distribution& d, const Numbers& of, const Variable& at = t({0.3, 2.1})) {
  expect(d.log_prob(at), of.log_prob);
  if (!of.entropy.empty()) expect(d.entropy(), of.entropy);
  if (!of.mean.empty()) expect(d.mean(), of.mean);
  if (!of.variance.empty()) expect(d.variance(), of.variance);
  if (!of.cdf.empty()) expect(d.cdf(at), of.cdf);
  if (!of.icdf.empty()) expect(d.icdf(t({0.2, 0.9})), of.icdf);
}

TEST(FurtherDistributions, Continuous) {
  const Variable a = t({0.5, 1.5}), b = t({0.7, 2.5});
  check(Cauchy(a, b), {{-0.866526557352163, -2.11702280783884},
                       {2.17434930303056, 3.44731497884345},
                       {kNan, kNan},
                       {kInf, kInf},
                       {0.411414467217095, 0.574976296004421},
                       {-0.463467344329821, 9.19420884293813}});
  check(HalfNormal(b), {{0.0390468566001275, -1.49488208451888},
                        {0.369116408705995, 1.64208208451888},
                        {0.558519192562006, 1.99471140200716},
                        {0.178056311539885, 2.27112642270262},
                        {0.331764858204751, 0.599091613479101},
                        {0.17734297219506, 4.11213406737868}});
  check(HalfCauchy(b), {{-0.263530473786515, -1.901790392153},
                        {1.48120212247061, 2.7541677982835},
                        {kInf, kInf},
                        {kInf, kInf},
                        {0.257762116818313, 0.444780658576552},
                        {0.227443787363034, 15.7843787866876}});
  check(Gumbel(a, b), {{-0.688322967794332, -1.94291859294071},
                       {1.2205407209628, 2.49350639677569},
                       {0.904050965431073, 2.94303916225383},
                       {0.806017692755631, 10.2808379178014},
                       {0.26428896832829, 0.455377806296637},
                       {0.166880503271023, 7.12591831828111}});
  check(Weibull(a, b), {{-0.209648266663419, -1.30356929627724},
                        {0.41614962127813, 0.835503775174929},
                        {0.632911753028642, 1.33089572625461},
                        {0.856708888413288, 0.324330050542752},
                        {0.503100849718431, 0.901638250488652},
                        {0.0586646123365167, 2.09400413305543}});
  check(StudentT(t({3, 5}), a, b), {{-0.697908405757153, -1.91927277106423},
                                    {1.41680262792456, 2.54379340428855},
                                    {0.5, 1.5},
                                    {1.47, 10.4166666666667},
                                    {},
                                    {}});
  check(Chi2(t({3, 5})), {{-1.67092493536764, -1.95464480477872},
                          {2.05411995593541, 2.423095090065},
                          {3, 5},
                          {6, 10},
                          {},
                          {}});
  const Pareto pareto(t({0.1, 0.5}), t({3, 2.5}));
  expect(pareto.log_prob(t({0.3, 2.1})), {-0.993251773010283, -3.41335792607853});
  expect(pareto.entropy(), {-2.06786404832882, -0.2094379124341});
  expect(pareto.variance(), {0.0075, 0.555555555555556});
  expect(pareto.cdf(t({0.3, 2.1})), {0.962962962962963, 0.972338433306448});
  expect(pareto.icdf(t({0.2, 0.9})), {0.107721734501594, 1.25594321575479});
  // cdf and icdf of the others
  expect(Normal(a, b).cdf(t({0.3, 2.1})), {0.387548481097992, 0.594834871697796});
  expect(Normal(a, b).icdf(t({0.2, 0.9})), {-0.0891348635010399, 4.7038789138615});
  expect(Uniform(t({0, 0}), t({3, 5})).cdf(t({0.3, 2.1})), {0.1, 0.42});
  expect(Exponential(a).cdf(t({0.3, 2.1})), {0.139292023574942, 0.95714787313296});
  expect(Exponential(a).icdf(t({0.2, 0.9})), {0.44628710262842, 1.5350567286627});
  expect(Laplace(a, b).cdf(t({0.3, 2.1})), {0.375738646537643, 0.606686069466723});
  expect(Laplace(a, b).icdf(t({0.2, 0.9})), {-0.141403512311909, 5.52359478108525});
  expect(LogNormal(a, b).cdf(t({0.3, 2.1})), {0.00746140683135615, 0.38085917538133});
  expect(LogNormal(a, b).icdf(t({0.2, 0.9})), {0.914722202616795, 110.374476264956});
}

/// The values are integrals with 4000 nodes. PyTorch's Bessel functions are accurate to 1e-7.
TEST(FurtherDistributions, VonMises) {
  const VonMises d(t({0, 1, -2, 0.5, 0.5}), t({0.5, 4, 50, 49.9, 400}));
  expect(d.log_prob(t({0.3, -1, 3, 0.4, 0.45})),
         {-1.4217585410320228, -5.927437208113374, -34.782343295119844, 0.7842491641607747,
          1.576585006689594});
  expect(d.variance(), {0.7575003874191956, 0.1364773889754506, 0.010051032621498868,
                        0.010071279592552163, 0.0012507832107933048});
  expect(d.entropy(), {1.7781769793044235, 0.8087594178266067, -0.5319958006439105,
                       -0.5309844651189334, -1.576167564385759});
  expect(d.mean(), {0, 1, -2, 0.5, 0.5});
  const std::vector<double> torch{-1.4217585158819206, -5.927437227407727, -34.782342998719145};
  const auto got = d.log_prob(t({0.3, -1, 3, 0.4, 0.45})).to_vector<double>();
  for (size_t i = 0; i < torch.size(); ++i) EXPECT_NEAR(got[i], torch[i], 1e-6);
  // The derivative in the concentration: cos(x - loc) - I1 / I0.
  const Variable k = t({0.5, 60}).requires_grad_();
  sum(VonMises(t({0, 0}), k).log_prob(t({0.3, 0.1}))).backward();
  const Variable slope =
      tapegrad::cos(t({0.3, 0.1})) - 1.0 + VonMises(t({0, 0}), k.detach()).variance();
  expect(k.grad(), slope.to_vector<double>());

  manual_seed(5);
  EXPECT_EQ(d.sample({7}).shape(), (Shape{7, 5}));
  EXPECT_THROW(d.rsample(), ArgumentError);
  for (const double concentration : {1e-6, 0.5, 4.0, 300.0}) {
    const VonMises one(t({0.5}), t({concentration}));
    const Variable x = one.sample({20000});
    EXPECT_TRUE(all(logical_and(x >= -3.1415926535897936, x < 3.1415926535897936)).item<bool>());
    // The mean of cos(x - loc) is I1 / I0; that of sin(x - loc) is 0.
    EXPECT_NEAR(tapegrad::mean(tapegrad::cos(x - 0.5)).item(), 1 - one.variance().item(), 0.02)
        << concentration;
    EXPECT_NEAR(tapegrad::mean(tapegrad::sin(x - 0.5)).item(), 0, 0.02) << concentration;
  }
  EXPECT_THROW(VonMises(t({0}), t({-1})), ArgumentError);
}

TEST(FurtherDistributions, Discrete) {
  const Variable b = t({0.7, 2.5}), p = t({0.2, 0.9}), counts = t({0, 3});
  check(Poisson(b), {{-0.7, -1.54288727360559}, {}, {0.7, 2.5}, {0.7, 2.5}, {}, {}}, counts);
  check(Geometric(p),
        {{-1.6094379124341, -7.01311579463996},
         {2.50201211769094, 0.361203303768276},
         {4, 0.111111111111111},
         {20, 0.123456790123457},
         {},
         {}},
        counts);
  check(Binomial(4, p),
        {{-0.892574205256839, -1.23237227884763},
         {1.1230801337199459, 0.8040182879587177},
         {0.8, 3.6},
         {0.64, 0.36},
         {},
         {}},
        counts);
  const Variable q = t({0.2, 0.3, 0.5});
  check(OneHotCategorical(q),
        {{-1.20397280432594}, {1.02965301406457}, {0.2, 0.3, 0.5}, {0.16, 0.21, 0.25}, {}, {}},
        t({0, 1, 0}));
  expect(RelaxedOneHotCategorical(0.5, q).log_prob(t({0.1, 0.2, 0.7})), {0.276374890609782});
  EXPECT_THROW(Binomial(-1, p), ArgumentError);
  EXPECT_THROW(Poisson(b).entropy(), ArgumentError);
  EXPECT_THROW(FisherSnedecor(b, b).entropy(), ArgumentError);
  EXPECT_THROW(RelaxedOneHotCategorical(0.5, q).mean(), ArgumentError);
  EXPECT_THROW(RelaxedOneHotCategorical(0.5, q).variance(), ArgumentError);
  EXPECT_THROW(RelaxedOneHotCategorical(0.5, q).entropy(), ArgumentError);
}

TEST(FurtherDistributions, Transformed) {
  const Variable a = t({0.5, 1.5}), b = t({0.7, 2.5}), v = t({0.3, 2.1});
  const Normal base(a, b);
  const auto with = [&](const Transforms& list) { return TransformedDistribution(base, list); };
  expect(with(ExpTransform()).log_prob(v), {-2.32106968073837, -2.62313932895348});
  const TransformedDistribution squashed = with({TanhTransform(), AffineTransform(1.0, -2.0)});
  expect(squashed.log_prob(v), {-1.14320732706599, -2.52712683152827});
  expect(squashed.cdf(v), {0.576216316311572, 0.801600671117356});
  expect(squashed.icdf(squashed.cdf(v)), {0.3, 2.1});
  const TransformedDistribution share = with(SigmoidTransform());
  expect(share.log_prob(t({0.3, 0.8})), {-0.853872498760392, -0.00368211911556826});
  expect(with({SoftplusTransform()}).log_prob(v), {-1.66428231382575, -1.72222535021589});
  const TransformedDistribution power(Exponential(t({1, 2})), {PowerTransform(2.0)});
  expect(power.log_prob(v), {-0.638883335902144, -3.26924402160258});
  expect(power.cdf(v), {0.421734722221873, 0.944881802227035});
  const MultivariateNormal vector(t({0, 1}), eye(2, {.dtype = f64}));
  expect(TransformedDistribution(vector, {ExpTransform()}).log_prob(v), {-2.13391503061368});
  // Gradients flow through a sample to the parameters of the base.
  const auto loss = [](const std::vector<Variable>& in) {
    manual_seed(1);
    const TransformedDistribution d(Normal(in[0], in[1]), {TanhTransform()});
    const Variable x = d.rsample({3});
    return sum(d.log_prob(x) + x);
  };
  Variable loc = a.clone(), scale = t({0.7, 0.4});
  loc.requires_grad_(), scale.requires_grad_();
  const GradcheckResult result = gradcheck(loss, {loc, scale});
  EXPECT_TRUE(result) << result.message;
  EXPECT_FALSE(squashed.sample({2}).requires_grad());
  EXPECT_THROW(squashed.mean(), ArgumentError);
  EXPECT_THROW(squashed.variance(), ArgumentError);
  EXPECT_THROW(squashed.entropy(), ArgumentError);
}

TEST(FurtherDistributions, IndependentAndMixtures) {
  const Variable a = t({0.5, 1.5}), b = t({0.7, 2.5}), weights = t({0.25, 0.75});
  const Independent joint(Normal(a, b), 1);
  expect(joint.log_prob(t({0.3, 2.1})), {-2.46710918087538});
  expect(joint.entropy(), {3.39749285434477});
  EXPECT_EQ(joint.batch_shape(), Shape{});
  EXPECT_EQ(joint.event_shape(), Shape{2});
  EXPECT_EQ(joint.rsample({5}).shape(), (Shape{5, 2}));
  EXPECT_THROW(Independent(Normal(a, b), 2), ArgumentError);
  const MixtureSameFamily mixture(Categorical(weights), Normal(a, b));
  expect(mixture.log_prob(t({0.1, 2.0})), {-1.49910094561519, -2.02756242974184});
  expect(mixture.mean(), {1.25});
  expect(mixture.variance(), {4.9975});
  expect(mixture.cdf(t({0.1, 2.0})), {0.286768434911439, 0.68042921067837});
  const Variable means = tensor({{0.0, 1.0}, {2.0, 3.0}}, {.dtype = f64});
  const MixtureSameFamily vectors(Categorical(weights),
                                  MultivariateNormal(means, eye(2, {.dtype = f64})));
  expect(vectors.log_prob(t({0.1, 2.0})), {-3.32644562478465});
  expect(vectors.mean(), {1.5, 2.5});
  expect(vectors.variance(), {1.75, 1.75});
  EXPECT_EQ(vectors.sample({7}).shape(), (Shape{7, 2}));
  EXPECT_THROW(mixture.rsample({1}), ArgumentError);
  EXPECT_THROW(mixture.entropy(), ArgumentError);
}

/// The moments of 20,000 samples.
TEST(FurtherDistributions, Samples) {
  manual_seed(3);
  const auto check_moments = [](const Distribution& d) {
    const Variable x = d.sample({20000});
    const double mean = d.mean().item(), deviation = d.stddev().item();
    EXPECT_NEAR(tapegrad::mean(x).item(), mean, 5 * deviation / std::sqrt(20000.0));
    EXPECT_NEAR(tapegrad::var(x).item(), deviation * deviation, 0.1 * deviation * deviation);
  };
  check_moments(HalfNormal(0.7));
  check_moments(Gumbel(0.5, 0.7));
  check_moments(Weibull(2.0, 1.5));
  check_moments(Pareto(1.0, 8.0));
  check_moments(StudentT(9.0, 1.0, 2.0));
  check_moments(Chi2(3.0));
  check_moments(Poisson(2.5));
  check_moments(Geometric(0.3));
  check_moments(Binomial(6, 0.3));
  check_moments(MixtureSameFamily(Categorical(t({0.25, 0.75})), Normal(t({0, 5}), t({1, 2}))));
  const Variable rows = OneHotCategorical(t({0.2, 0.3, 0.5})).sample({20000});
  EXPECT_NEAR(tapegrad::mean(rows.select(1, 2)).item(), 0.5, 0.02);
  const Variable relaxed = RelaxedOneHotCategorical(0.5, t({0.2, 0.3, 0.5})).rsample({100});
  EXPECT_NEAR(sum(relaxed).item(), 100, 1e-9);
}

TEST(FurtherDistributions, NegativeBinomial) {
  const Variable counts = t({2, 3.5});
  check(NegativeBinomial(counts, t({0.3, 0.8})),
        {{-0.7133498878774647, -3.632634359179969},
         {},
         {0.857142857142857, 14.000000000000004},
         {1.224489795918367, 70.00000000000003},
         {},
         {}},
        t({0, 3}));
  const NegativeBinomial by_logits(counts, {.logits = t({-1, 2})});
  expect(by_logits.log_prob(t({1, 4})), {-1.2466378819947233, -4.796623278758583});
  expect(by_logits.log_prob(t({-1, 0.5})), {-kInf, -kInf});
  EXPECT_TRUE(gradcheck(
      [](const std::vector<Variable>& x) {
        return NegativeBinomial(x[0], {.logits = x[1]}).log_prob(t({1, 4}));
      },
      {counts.detach().set_requires_grad(true), t({-1, 2}).set_requires_grad(true)}));
  EXPECT_THROW(by_logits.entropy(), ArgumentError);
  EXPECT_THROW(NegativeBinomial(0.0, 0.5), ArgumentError);
  EXPECT_THROW(NegativeBinomial(2.0, 1.0), ArgumentError);
  EXPECT_THROW(NegativeBinomial(2.0, Odds{}), ArgumentError);
  RandomGenerator generator(3);
  const NegativeBinomial four(4.0, {.probs = 0.5});
  const Variable drawn = four.sample({20'000}, generator);
  EXPECT_NEAR(drawn.mean().item(), 4, 0.1);
  EXPECT_NEAR(drawn.var().item(), 8, 0.4);
  EXPECT_TRUE(Bernoulli({.probs = 0.25}).mean().equal(scalar(0.25)));
}

TEST(FurtherDistributions, ParametersBroadcastAndAreChecked) {
  const Normal normal(t({1, 2}), 0.5);
  EXPECT_EQ(normal.variance().shape(), Shape({2}));
  EXPECT_EQ(Normal(0.0, t({1, 2})).mean().shape(), Shape({2}));
  EXPECT_THROW(Normal(ones({4}), ones({3})), ShapeError);
  EXPECT_THROW(Categorical({.logits = ones({2, 3}) * kNan}), ArgumentError);
  EXPECT_THROW(Categorical({.probs = zeros({3})}), ArgumentError);
  EXPECT_NO_THROW(Categorical({.logits = t({-kInf, 0})}));
}

}  // namespace
}  // namespace tapegrad::distributions
