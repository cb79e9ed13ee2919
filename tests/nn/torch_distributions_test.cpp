// Values and gradients of PyTorch 2.15 (float64) for the distributions of intervals, matrices and
// ratios, for modes and for transforms of vectors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <typeinfo>
#include <vector>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "nn/distributions/distributions.h"
#include "ops/arithmetic.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/nn/distribution_values.h"

namespace tapegrad::distributions {
namespace {

const double kInf = INFINITY, kNan = NAN;

struct Numbers {
  Doubles log_prob, entropy, mean, variance, mode, cdf, icdf;
  Doubles gradient;  // of the sum of log_prob in the parameters
};
template <typename Make>
void check(const Make& make, std::vector<Variable> parameters, const Variable& value,
           const Numbers& of) {
  for (Variable& p : parameters) p.requires_grad_();
  const auto d = make(parameters);
  SCOPED_TRACE(typeid(d).name());
  expect(d.log_prob(value), of.log_prob);
  const auto expect_or_throw = [](const auto& f, const Doubles& values) {
    if (values.empty())
      EXPECT_THROW(f(), ArgumentError);
    else
      expect(f(), values);
  };
  expect_or_throw([&] { return d.entropy(); }, of.entropy);
  expect_or_throw([&] { return d.mean(); }, of.mean);
  expect_or_throw([&] { return d.variance(); }, of.variance);
  expect_or_throw([&] { return d.mode(); }, of.mode);
  expect_or_throw([&] { return d.cdf(value); }, of.cdf);
  expect_or_throw([&] { return d.icdf(t({0.2, 0.9})); }, of.icdf);
  sum(d.log_prob(value)).backward();
  Doubles gradient;
  for (const Variable& p : parameters)
    for (const double x : p.grad().to_vector<double>()) gradient.push_back(x);
  expect(t(gradient), of.gradient);
  EXPECT_EQ(d.sample({3}).shape().rank(), 1 + d.batch_shape().rank() + d.event_shape().rank());
}

TEST(TorchDistributions, MomentsThatDoNotExistHaveNoGradient) {
  Variable a = t({0.5, 1.5}).detach().requires_grad_(), b = t({0.7, 2.5}).detach().requires_grad_();
  const InverseGamma d(a, b);
  EXPECT_EQ(d.mean().to_vector<double>()[0], kInf);
  EXPECT_EQ(d.variance().to_vector<double>(), (Doubles{kInf, kInf}));
  sum(d.mean() + d.variance()).backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (Doubles{0, -10}));
  EXPECT_EQ(b.grad().to_vector<double>(), (Doubles{0, 2}));
}

// PyTorch's gradient of scale_tril includes the zeros above the diagonal, and its mode of
// Kumaraswamy is NaN; the mode here is the closed form.
TEST(TorchDistributions, ValuesAndGradients) {
  check([](const auto& p) { return InverseGamma(p[0], p[1]); }, {t({0.5, 3.5}), t({0.7, 2.5})},
        t({0.3, 0.8}),
        {{-1.2780765417384954, -0.11481005987358767},
         {3.660955038018102, 0.6530594513176347},
         {kInf, 1.0},
         {kInf, 0.6666666666666666},
         {0.4666666666666666, 0.5555555555555556},
         {0.03075356125927453, 0.5108803759374072},
         {},
         {2.8108078864086266, 0.03627764254312171, -2.619047619047619, 0.1499999999999999}});
  check([](const auto& p) { return FisherSnedecor(p[0], p[1]); }, {t({1.5, 3.5}), t({1.5, 5.5})},
        t({0.3, 0.8}),
        {{-0.6198973361175886, -0.7471920066265889},
         {},
         {kNan, 1.5714285714285714},
         {kNan, 6.585034013605442},
         {kNan, 0.3142857142857143},
         {},
         {},
         {0.09723766171657974, 0.09364624783660078, 0.16076252541800928, 0.037062564711189586}});
  check([](const auto& p) { return GeneralizedPareto(p[0], p[1], p[2]); },
        {t({0.1, 0.2}), t({0.7, 2.5}), t({-0.3, 0.4})}, t({0.3, 0.8}),
        {{0.14757990699612913, -1.2371258917145385},
         {0.3433250560612675, 2.316290731874155},
         {0.6384615384615384, 4.366666666666667},
         {0.18121301775147922, 86.80555555555559},
         {0.1, 0.2},
         {0.2582234269393132, 0.20480504765496998},
         {0.25108695508055023, 9.649290196934878},
         {1.09375, 0.510948905109489, -1.1160714285714286, -0.2773722627737226, -0.2665239854409682,
          -0.1935034293778347}});
  check([](const auto& p) { return GeneralizedPareto(p[0], p[1], 0.0); },
        {t({0.1, 0.2}), t({0.7, 2.5})}, t({0.3, 0.8}),
        {{0.07096065822444675, -1.156290731874155},
         {0.6433250560612676, 1.916290731874155},
         {0.7999999999999999, 2.7},
         {0.48999999999999994, 6.25},
         {0.1, 0.2},
         {0.24852270692471404, 0.21337213893344664},
         {0.2562004859199468, 5.956462732485115},
         {1.4285714285714286, 0.4, -1.0204081632653061, -0.304}});
  check([](const auto& p) { return ContinuousBernoulli(p[0]); }, {t({0.2, 0.9})}, t({0.3, 0.8}),
        {{0.19842802409409477, 0.465533128365784},
         {-0.07641445280335896, -0.17963111600005544},
         {0.3880141871111483, 0.6698803866865813},
         {0.0758978008069574, 0.0665088624225558},
         {},
         {0.45366139281807033, 0.5999432668494109},
         {0.11723262681851147, 0.9576327226510142},
         {-0.5500886694446768, 1.4457734812602094}});
  check([](const auto& p) { return ContinuousBernoulli({.logits = p[0]}); }, {t({-3.0, 2.0})},
        t({0.3, 0.8}),
        {{0.24968146961081095, 0.4385606384288041},
         {-0.3068685590845792, -0.15159592392813526},
         {0.28093763684207734, 0.6565176427496656},
         {0.055970105609051336, 0.06898458475842242},
         {},
         {0.6245235362563352, 0.6187193167793192},
         {0.0702578694698141, 0.9547823996540754},
         {0.019062363157922618, 0.14348235725033456}});
  check([](const auto& p) { return Kumaraswamy(p[0], p[1]); }, {t({1.5, 3.5}), t({1.7, 2.5})},
        t({0.3, 0.8}),
        {{0.20845300487952395, 0.6926083474389245},
         {-0.066329041990424, -0.3687877678361118},
         {0.4846343738724137, 0.6479699496583871},
         {0.05904111651252983, 0.03078338367676703},
         {0.4703547534924877, 0.7237872769471013},
         {0.26299425965559964, 0.7836758837404324},
         {0.24734101437050823, 0.8649788271546942},
         {-0.37159377450644865, 0.3453506619134119, 0.408729648220729, -0.21239098309671614}});
  check([](const auto& p) { return RelaxedBernoulli(p[0], p[1]); }, {t({0.5, 1.2}), t({0.2, 0.9})},
        t({0.3, 0.8}),
        {{-0.7420365379585454, 0.558236616640396},
         {},
         {},
         {},
         {},
         {},
         {},
         {2.378998284636788, 1.194709738318775, 2.795639396395316, -2.8964219298154346}});
  check([](const auto& p) { return RelaxedBernoulli(p[0], {.logits = p[1]}); },
        {t({0.5, 1.2}), t({-0.2, 0.9})}, t({0.3, 0.8}),
        {{-0.5312725296850225, 0.48626414669827644},
         {},
         {},
         {},
         {},
         {},
         {},
         {1.9056443392597748, 0.32837649508310907, -0.11136067391590698, 0.3642493632032845}});
  check([](const auto& p) { return LogisticNormal(p[0], p[1]); }, {t({0.5, 1.5}), t({0.7, 2.5})},
        t({0.2, 0.3, 0.5}),
        {{-0.667061791831876},
         {},
         {},
         {},
         {},
         {},
         {},
         {-2.4349942460407057, -0.32173209980255857, 2.721866456204511, -0.14122113989159124}});
  check([](const auto& p) { return LowRankMultivariateNormal(p[0], p[1], p[2]); },
        {t({0.1, 0.2, 0.3}), t({1.0, 0.5, 0.2, -0.3, 0.4, 0.1}, {3, 2}), t({0.5, 0.6, 0.7})},
        t({0.3, 0.8, -1.0}),
        {{-4.258574025511603},
         {4.236039886034901},
         {0.1, 0.2, 0.3},
         {1.75, 0.73, 0.87},
         {0.1, 0.2, 0.3},
         {},
         {},
         {0.5605337225059941, 0.9093088710518088, -1.8364432398623998, -0.5147461660389919,
          -0.40105305858804663, -0.21909744966862443, 0.2703291991996709, -0.1926126595423412,
          0.34020526168742377, -0.17262056016578597, -0.2745803563960737, 1.0217148210495102}});
  check([](const auto& p) { return Wishart(p[0], {.scale_tril = p[1]}); },
        {t({3.5}), t({1.4142135623730951, 0.0, 0.21213203435596423, 0.9772410142846032}, {2, 2})},
        t({3.0, 0.7, 0.7, 2.0}, {2, 2}),
        {{-5.2440097242586825},
         {6.934783660207397},
         {7.000000000000002, 1.05, 1.05, 3.5},
         {28.000000000000014, 7.315000000000001, 7.315000000000001, 7.0},
         {1.0000000000000002, 0.15, 0.15, 0.5},
         {},
         {},
         {-0.1734259500921007, -1.4419795354563365, 0, 0.18510648722160933, -1.5911876387298978}});
  check([](const auto& p) { return LKJCholesky(3, p[0]); }, {t({0.7, 2.5})},
        t({1.0, 0.0, 0.0, 0.3, 0.9539392014169457, 0.0, 0.1, -0.45076247979042494,
           0.8870249076622294},
          {3, 3}),
        {{-2.0311361862457558, -0.841245682880674},
         {},
         {},
         {},
         {},
         {},
         {},
         {1.592084088015619, 0.24629719352528434}});
  check([](const auto& p) { return OneHotCategoricalStraightThrough(p[0]); }, {t({0.2, 0.3, 0.5})},
        t({0, 1, 0}),
        {{-1.2039728043259361},
         {1.0296530140645737},
         {0.2, 0.3, 0.5},
         {0.16000000000000003, 0.21, 0.25},
         {0.0, 0.0, 1.0},
         {},
         {},
         {-1.0, 2.3333333333333335, -1.0}});
}

TEST(TorchDistributions, Modes) {
  const Variable a = t({0.5, 1.5}), b = t({0.7, 2.5});
  expect(Bernoulli(t({0.2, 0.5, 0.7})).mode(), {0.0, kNan, 1.0});
  expect(Beta(t({0.5, 2, 0.5}), t({0.7, 3, 2})).mode(), {1.0, 0.3333333333333333, 0.0});
  expect(Dirichlet(t({0.5, 2, 3})).mode(), {0.0, 0.3333333333333333, 0.6666666666666666});
  expect(Dirichlet(t({0.5, 0.2, 0.3})).mode(), {1.0, 0.0, 0.0});
  expect(Binomial(4, t({0.2, 0.9, 1})).mode(), {1.0, 4.0, 4.0});
  expect(NegativeBinomial(t({2, 5.5}), t({0.3, 0.8})).mode(), {0.0, 18.0});
  expect(Categorical(t({0.2, 0.3, 0.5})).mode(), {2.0});
  expect(Poisson(t({0.7, 2.5})).mode(), {0.0, 2.0});
  expect(Geometric(t({0.2, 0.9})).mode(), {0.0, 0.0});
  expect(Gamma(t({0.5, 3}), t({0.7, 2.5})).mode(), {0.0, 0.8});
  expect(Chi2(t({1, 5})).mode(), {0.0, 3.0});
  expect(StudentT(t({3, 5}), a, b).mode(), {0.5, 1.5});
  expect(Normal(a, b).mode(), {0.5, 1.5});
  expect(LogNormal(a, b).mode(), {1.0100501670841682, 0.008651695203120634});
  expect(Laplace(a, b).mode(), {0.5, 1.5});
  expect(Gumbel(a, b).mode(), {0.5, 1.5});
  expect(Cauchy(a, b).mode(), {0.5, 1.5});
  expect(VonMises(a, b).mode(), {0.5, 1.5});
  expect(Uniform(a, b + 1).mode(), {kNan, kNan});
  expect(HalfNormal(b).mode(), {0.0, 0.0});
  expect(HalfCauchy(b).mode(), {0.0, 0.0});
  expect(Exponential(b).mode(), {0.0, 0.0});
  expect(Weibull(a, t({1.5, 2.5})).mode(), {0.24037492838456806, 1.222789664408884});
  expect(Pareto(a, b).mode(), {0.5, 1.5});
  expect(MultivariateNormal(a, eye(2, {.dtype = f64})).mode(), {0.5, 1.5});
  expect(Independent(Normal(a, b), 1).mode(), {0.5, 1.5});
}

void check_transform(const Transform& transform, const Variable& x, const Doubles& y,
                     const Doubles& log_det) {
  expect(transform(x), y);
  if (log_det.empty())
    EXPECT_THROW(transform.log_abs_det_jacobian(x, transform(x)), ArgumentError);
  else
    expect(transform.log_abs_det_jacobian(x, transform(x)), log_det);
  expect(transform(transform.inv(transform(x))), y);
}

TEST(TorchDistributions, Transforms) {
  check_transform(AbsTransform(), t({0.3, -0.8, 1.2}), {0.3, 0.8, 1.2}, {});
  check_transform(SoftmaxTransform(), t({0.3, -0.8, 1.2}),
                  {0.2636801066060322, 0.08777148283557507, 0.6485484105583929}, {});
  check_transform(
      StickBreakingTransform(), t({0.3, -0.8, 1.2}),
      {0.3103224420123704, 0.12652122570933091, 0.43279959834028026, 0.1303567339380184},
      {-6.112449538265896});
  check_transform(CorrCholeskyTransform(), t({0.3, -0.8, 1.2}),
                  {1.0, 0.0, 0.0, 0.2913126124515909, 0.9566279119002483, 0.0, -0.664036770267849,
                   0.6233234815012366, 0.41294431239747265},
                  {-2.1483201640250695});
  check_transform(LowerCholeskyTransform(), t({0.3, 5.0, 0.7, -0.2}, {2, 2}),
                  {1.3498588075760032, 0.0, 0.7, 0.8187307530779818}, {});
  check_transform(PositiveDefiniteTransform(), t({0.3, 5.0, 0.7, -0.2}, {2, 2}),
                  {1.822118800390509, 0.9449011653032021, 0.9449011653032021, 1.160320046035639},
                  {});
  check_transform(CumulativeDistributionTransform(Normal(0.1, t({0.7}))), t({0.3, -0.8, 1.2}),
                  {0.6124515189020077, 0.09927139684333103, 0.9419584331306725},
                  {-0.6030799157965525, -1.3887942015108383, -1.7969574668169606});
  check_transform(IndependentTransform(ExpTransform(), 1), t({0.3, 5.0, 0.7, -0.2}, {2, 2}),
                  {1.3498588075760032, 148.4131591025766, 2.0137527074704766, 0.8187307530779818},
                  {5.3, 0.49999999999999994});
  check_transform(ReshapeTransform({3}, {3, 1}), t({0.3, -0.8, 1.2}), {0.3, -0.8, 1.2}, {0.0});
  check_transform(CatTransform({ExpTransform(), TanhTransform()}, -1, {1, 2}), t({0.3, -0.8, 1.2}),
                  {1.3498588075760032, -0.664036770267849, 0.8336546070121552},
                  {0.3, -0.581507120656787, -1.1873779431880087});
  check_transform(CatTransform({IndependentTransform(ExpTransform(), 1),
                                IndependentTransform(TanhTransform(), 1)},
                               -1, {1, 1}),
                  t({0.3, 5.0, 0.7, -0.2}, {2, 2}),
                  {1.3498588075760032, 0.9999092042625951, 2.0137527074704766, -0.197375320224904},
                  {-8.313796436678542, 0.6602638563199854});
  check_transform(StackTransform({ExpTransform(), TanhTransform(), SigmoidTransform()}, -1),
                  t({0.3, -0.8, 1.2}), {1.3498588075760032, -0.664036770267849, 0.7685247834990175},
                  {0.3, -0.581507120656787, -1.7265649346760623});
  check_transform(
      ComposeTransform({ExpTransform(), IndependentTransform(AffineTransform(1.0, 2.0), 1)}),
      t({0.3, -0.8, 1.2}), {3.6997176151520064, 1.8986579282344431, 7.6402338454730945},
      {2.7794415416798355});
  check_transform(ComposeTransform({TanhTransform(), StickBreakingTransform(), ExpTransform()}),
                  t({0.3, -0.8, 1.2}),
                  {1.361335518280115, 1.1520648279808914, 1.4672714865867307, 1.1812502410773653},
                  {-6.739754397770781});
  const Normal base(t({0.1, 0.2}), 1.0);
  const TransformedDistribution shares(base, {StickBreakingTransform(), ExpTransform()});
  expect(shares.log_prob(exp(t({0.2, 0.3, 0.5}))), {0.10150307219438659});
  EXPECT_EQ(shares.event_shape(), Shape{3});
  EXPECT_EQ(shares.batch_shape(), Shape{});
}

/// Compares the cdf of 20,000 samples with uniform numbers (Kolmogorov and Smirnov; the limit fails
/// one of 10,000 seeds).
void expect_samples_of(const Distribution& d) {
  RandomGenerator generator(1);
  constexpr int kCount = 20'000;
  auto p = d.cdf(d.sample({kCount}, generator)).to_vector<double>();
  std::sort(p.begin(), p.end());
  double distance = 0;
  for (int i = 0; i < kCount; ++i)
    distance = std::max(
        {distance, p[size_t(i)] - double(i) / kCount, double(i + 1) / kCount - p[size_t(i)]});
  EXPECT_LT(distance * std::sqrt(kCount), 2.2) << typeid(d).name();
}
/// Compares the mean of 20,000 samples with `expected`, within five standard errors.
void expect_mean(const Variable& samples, const Variable& expected) {
  const Variable error = sqrt(var(samples, 0) / 20'000.0) + 1e-12;
  const Variable z = (mean(samples, 0) - expected) / error;
  for (const double x : z.to_vector<double>()) EXPECT_LT(std::abs(x), 5);
}

TEST(TorchDistributions, Samples) {
  const auto f = [](double x) { return tensor(x, {.dtype = f64}); };
  expect_samples_of(InverseGamma(f(1.5), f(0.7)));
  for (const double shape : {-0.4, 0.0, 0.4})
    expect_samples_of(GeneralizedPareto(f(0.1), f(0.7), shape));
  for (const double logits : {-700.0, -3.0, 0.0, 1e-3, 700.0})
    expect_samples_of(ContinuousBernoulli({.logits = f(logits)}));
  expect_samples_of(Kumaraswamy(f(1.5), f(2.5)));
  RandomGenerator generator(2);
  const FisherSnedecor ratio(f(3), f(12));
  expect_mean(ratio.sample({20'000}, generator), ratio.mean());
  // P(y > 1/2) is probs at every temperature.
  const RelaxedBernoulli relaxed(f(0.3), t({0.2, 0.7}));
  expect_mean((relaxed.sample({20'000}, generator) > 0.5).to(f64), relaxed.probs);
  const LogisticNormal simplex(t({0.1, -0.2}), 0.5);
  const Variable shares = simplex.sample({100}, generator);
  EXPECT_NEAR(sum(shares).item(), 100, 1e-10);
  const LowRankMultivariateNormal normal(t({0.1, 0.2}), t({1, -0.5}, {2, 1}), t({0.5, 0.6}));
  const Variable x = normal.sample({20'000}, generator);
  expect_mean(x, normal.mean());
  expect_mean(square(x - normal.mean()), normal.variance());
  const Wishart wishart(f(3.5), t({2, 0.3, 0.3, 1}, {2, 2}));
  const Variable w = wishart.sample({20'000}, generator);
  expect_mean(w, wishart.mean());
  expect_mean(square(w - wishart.mean()), wishart.variance());
  // The squares of the correlations, whose elements are 2 Beta(a, a) - 1 with a = eta + dim / 2
  // - 1.
  const LKJCholesky correlations(4, f(1.5));
  const Variable l = correlations.sample({20'000}, generator), c = matmul(l, l.mT());
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < i; ++j)
      expect_mean(square(c.select(1, i).select(1, j)), f(1 / (2 * (1.5 + 4 / 2.0 - 1) + 1)));
  expect_mean(OneHotCategoricalStraightThrough(t({0.2, 0.8})).sample({20'000}, generator),
              t({0.2, 0.8}));
}

TEST(TorchDistributions, GradientsOfSamples) {
  const auto check = [](const auto& make, std::vector<Variable> in) {
    for (Variable& x : in) x.requires_grad_();
    const auto loss = [&](const std::vector<Variable>& x) {
      RandomGenerator generator(3);
      return sum(square(make(x).rsample({3}, generator)));
    };
    const GradcheckResult result = gradcheck(loss, in);
    EXPECT_TRUE(bool(result)) << result.message;
  };
  const Variable a = t({0.3, 0.6}), b = t({0.7, 1.5});
  check([](const auto& x) { return GeneralizedPareto(x[0], x[1], x[2]); }, {a, b, t({0.3, -0.2})});
  check([](const auto& x) { return ContinuousBernoulli({.logits = x[0]}); }, {t({-2, 0, 3})});
  check([](const auto& x) { return Kumaraswamy(x[0], x[1]); }, {a, b});
  check([](const auto& x) { return RelaxedBernoulli(x[0], {.logits = x[1]}); }, {a, b});
  check([](const auto& x) { return LogisticNormal(x[0], x[1]); }, {a, b});
  check([](const auto& x) { return LowRankMultivariateNormal(x[0], x[1], x[2]); },
        {a, t({1, 0.5}, {2, 1}), b});
  check([](const auto& x) { return InverseGamma(1.5, x[0]); }, {b});
  check([](const auto& x) { return Wishart(3.5, {.scale_tril = x[0]}); },
        {t({1, 0, 0.3, 2}, {2, 2})});
  const Variable probs = t({0.2, 0.8}).requires_grad_(), weights = t({1, 3});
  sum(OneHotCategoricalStraightThrough(probs).rsample() * weights).backward();
  // The gradient of weights . probs / sum(probs).
  expect(probs.grad(), {1 - 2.6, 3 - 2.6});
}

TEST(TorchDistributions, Errors) {
  EXPECT_THROW(InverseGamma(0.0, t({1})), ArgumentError);
  EXPECT_THROW(Kumaraswamy(t({1}), -1.0), ArgumentError);
  EXPECT_THROW(ContinuousBernoulli(t({1.5})), ArgumentError);
  EXPECT_THROW(RelaxedBernoulli(0.0, t({0.5})), ArgumentError);
  EXPECT_THROW(LogisticNormal(0.0, 1.0), ShapeError);
  EXPECT_THROW(Wishart(1.0, eye(2)), ArgumentError);
  EXPECT_THROW(Wishart(2.0, MultivariateNormal::Options{}), ArgumentError);
  EXPECT_THROW(LKJCholesky(1), ArgumentError);
  EXPECT_THROW(LKJCholesky(3).mean(), ArgumentError);
  EXPECT_THROW(LowRankMultivariateNormal(zeros({2}), ones({3, 1}), ones({2})), ShapeError);
  EXPECT_THROW(LowRankMultivariateNormal(zeros({2}), ones({2, 1}), zeros({2})), ArgumentError);
  EXPECT_THROW(CorrCholeskyTransform()(ones({2})), ShapeError);
  EXPECT_THROW(ReshapeTransform({2}, {3}), ShapeError);
  EXPECT_THROW(CatTransform({ExpTransform()}, 0, {1, 2}), ArgumentError);
  EXPECT_THROW(CatTransform({ExpTransform()}, 0, {2})(ones({3})), ShapeError);
  EXPECT_THROW(StackTransform({ExpTransform()}, 0)(ones({3})), ShapeError);
  EXPECT_THROW(IndependentTransform(ExpTransform(), -1), ArgumentError);
  EXPECT_EQ(InverseGamma(2.0, t({1})).log_prob(-1.0).item(), -kInf);
  EXPECT_EQ(GeneralizedPareto(0.0, t({1}), -0.5).log_prob(2.5).item(), -kInf);
  EXPECT_EQ(GeneralizedPareto(0.0, t({1}), -0.5).cdf(t({-1, 2.5})).to_vector<double>(),
            (Doubles{0, 1}));
  EXPECT_EQ(Wishart(3.0, t({1, 0, 0, 1}, {2, 2})).log_prob(t({1, 2, 2, 1}, {2, 2})).item(), -kInf);
}

}  // namespace
}  // namespace tapegrad::distributions
