// Values and gradients of PyTorch 2.15 (float64) for kl_divergence().
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

const double kInf = INFINITY;

TEST(KlDivergence, EqualsTorch) {
  const Beta beta(t({0.5, 1.5}), t({0.7, 2.5}));
  const Beta beta2(t({1.5, 2.5}), t({1.7, 3.5}));
  const ContinuousBernoulli continuous_bernoulli(t({0.2, 0.9}));
  const ContinuousBernoulli continuous_bernoulli2(t({0.3, 0.6}));
  const Exponential exponential(t({0.5, 1.5}));
  const Exponential exponential2(t({0.7, 2.5}));
  const Gamma gamma(t({0.5, 1.5}), t({0.7, 2.5}));
  const Gamma gamma2(t({1.5, 2.5}), t({1.7, 3.5}));
  const Gumbel gumbel(t({0.5, 1.5}), t({0.7, 2.5}));
  const Gumbel gumbel2(t({1.5, 2.5}), t({1.7, 3.5}));
  const Laplace laplace(t({0.5, 1.5}), t({0.7, 2.5}));
  const Laplace laplace2(t({1.5, 2.5}), t({1.7, 3.5}));
  const Normal normal(t({0.5, 1.5}), t({0.7, 2.5}));
  const Normal normal2(t({1.5, 2.5}), t({1.7, 3.5}));
  const Pareto pareto(t({0.5, 1.5}), t({0.7, 2.5}));
  const Pareto pareto2(t({0.25, 0.5}), t({1.7, 3.5}));
  const Uniform uniform(t({0.5, -1.5}), t({0.7, 2.5}));
  const Uniform uniform2(t({-0.5, 0.1}), t({1.7, 3.5}));
  const Bernoulli bernoulli(t({0.2, 0.6}));
  const Bernoulli bernoulli2(t({0.3, 0.5}));
  const Binomial binomial(4, t({0.2, 0.6}));
  const Binomial binomial2(4, t({0.3, 0.5}));
  const Geometric geometric(t({0.2, 0.6}));
  const Geometric geometric2(t({0.3, 0.5}));
  const HalfNormal half_normal(t({0.2, 0.6}));
  const HalfNormal half_normal2(t({0.3, 0.5}));
  const Poisson poisson(t({0.2, 0.6}));
  const Poisson poisson2(t({0.3, 0.5}));
  const Chi2 chi2(t({1.2, 3.6}));
  const Chi2 chi22(t({2.3, 0.5}));
  const Cauchy cauchy(t({0.5, 1.5}), t({0.7, 2.5}));
  const Cauchy cauchy2(t({1.5, 2.5}), t({1.7, 3.5}));
  const OneHotCategorical one_hot_categorical(t({0.2, 0.3, 0.5}));
  const OneHotCategorical one_hot_categorical2(t({0.3, 0.5, 0.2}));
  const Wishart wishart(3.5, t({2.0, 0.3, 0.3, 1.0}, {2, 2}));
  const Wishart wishart2(2.5, t({1.0, -0.3, -0.3, 1.5}, {2, 2}));
  const MultivariateNormal multivariate_normal(t({0.5, 1.5}), t({2.0, 0.3, 0.3, 1.0}, {2, 2}));
  const MultivariateNormal multivariate_normal2(t({0.7, 1.1}), t({1.0, -0.3, -0.3, 1.5}, {2, 2}));
  const LowRankMultivariateNormal low_rank_multivariate_normal(t({0.1, 0.2}), t({1, 0.5}, {2, 1}),
                                                               t({0.5, 0.6}));
  const LowRankMultivariateNormal low_rank_multivariate_normal2(
      t({0.3, 0.1}), t({0.2, 0.7}, {2, 1}), t({0.7, 0.4}));
  expect(kl_divergence(beta, beta2), {0.5848527448780783, 0.09861228866811});
  expect(kl_divergence(beta, continuous_bernoulli2), {0.15705185060626714, 0.24612730710130626});
  expect(kl_divergence(beta, exponential2), {0.8462654929920579, 0.209812715609778});
  expect(kl_divergence(beta, gamma2), {0.8267676662061084, 0.4833204383982683});
  expect(kl_divergence(beta, normal2), {1.869651723589645, 2.546529438979892});
  expect(kl_divergence(beta, uniform2), {0.986381242750929, kInf});
  expect(kl_divergence(beta, chi22), {1.3852407841072671, 0.9226919964820788});
  expect(kl_divergence(continuous_bernoulli, continuous_bernoulli2),
         {0.01126523640078858, 0.11759126775057649});
  expect(kl_divergence(continuous_bernoulli, exponential2),
         {0.7046993277198952, 0.9380413508423537});
  expect(kl_divergence(continuous_bernoulli, normal2), {1.753041833761039, 2.4907549304126273});
  expect(kl_divergence(continuous_bernoulli, uniform2), {0.8648718131676292, kInf});
  expect(kl_divergence(exponential, exponential2), {0.06352776337878696, 0.15584104290067602});
  expect(kl_divergence(exponential, gamma2), {0.7321624473823478, 0.36559505019054295});
  expect(kl_divergence(exponential, gumbel2), {0.24191884027696964, 1.8503092918175679});
  expect(kl_divergence(exponential, normal2), {0.49171372135395663, 1.732495407994146});
  expect(kl_divergence(exponential, chi22), {0.01727614106418307, 0.4630971815222886});
  expect(kl_divergence(gamma, exponential2), {0.40939007008601147, 0.1390272246245332});
  expect(kl_divergence(gamma, gamma2), {0.6536937672458377, 0.12779454257655593});
  expect(kl_divergence(gamma, gumbel2), {1.4025215410333383, 2.0018865764375366});
  expect(kl_divergence(gamma, normal2), {1.2856305439851976, 1.884162315341586});
  expect(kl_divergence(gamma, chi22), {0.87869629457543, 0.6567767079150681});
  expect(kl_divergence(gumbel, gumbel2), {0.5562802122612851, 0.0986813446012067});
  expect(kl_divergence(gumbel, normal2), {0.4299210364111823, 0.10583272194851578});
  expect(kl_divergence(laplace, laplace2), {0.5742183276533988, 0.10098655521809796});
  expect(kl_divergence(laplace, normal2), {0.4556551012788481, 0.1132839974292057});
  expect(kl_divergence(normal, gumbel2), {0.8402585504011904, 0.34922767373509345});
  expect(kl_divergence(normal, laplace2), {0.7780939346083792, 0.22559350818713264});
  expect(kl_divergence(normal, normal2), {0.6450886621289305, 0.13239060396815167});
  expect(kl_divergence(pareto, exponential2), {kInf, 4.444534891891836});
  expect(kl_divergence(pareto, gamma2), {kInf, 3.8054034108382435});
  expect(kl_divergence(pareto, normal2), {kInf, 1.4866087581190923});
  expect(kl_divergence(pareto, pareto2), {1.7196184405224328, 3.908670773717171});
  expect(kl_divergence(pareto, chi22), {kInf, 2.426233774685178});
  expect(kl_divergence(uniform, beta2), {1.4140264478674018, kInf});
  expect(kl_divergence(uniform, continuous_bernoulli2), {1.7239038217246965, kInf});
  expect(kl_divergence(uniform, exponential2), {2.386112856372833, kInf});
  expect(kl_divergence(uniform, gamma2), {1.9704604743984497, kInf});
  expect(kl_divergence(uniform, gumbel2), {3.309566999012056, 1.1637904540705009});
  expect(kl_divergence(uniform, normal2), {3.199719806274185, 1.003094215410082});
  expect(kl_divergence(uniform, pareto2), {2.0436753238343535, kInf});
  expect(kl_divergence(uniform, uniform2), {2.3978952727983707, kInf});
  expect(kl_divergence(uniform, chi22), {2.714575114264845, kInf});
  expect(kl_divergence(bernoulli, bernoulli2), {0.02573209247798522, 0.02013551355068885});
  expect(kl_divergence(bernoulli, poisson2), {0.04039213732699931, 0.24287664132671083});
  expect(kl_divergence(binomial, binomial2), {0.10292836991194076, 0.08054205420275551});
  expect(kl_divergence(geometric, geometric2), {0.128660462389926, 0.0335591892511482});
  expect(kl_divergence(half_normal, half_normal2), {0.12768733033038654, 0.03767844320604535});
  expect(kl_divergence(poisson, poisson2), {0.018906978378367134, 0.009392934076372761});
  expect(kl_divergence(chi2, exponential2), {0.12154159086682859, 5.889639107115361});
  expect(kl_divergence(chi2, gamma2), {0.471878049366218, 6.0914973674433055});
  expect(kl_divergence(chi2, gumbel2), {0.7945012478212353, 0.27846085854170544});
  expect(kl_divergence(chi2, normal2), {0.8052292789458042, 0.3208966468120057});
  expect(kl_divergence(chi2, chi22), {0.37980050090097295, 1.800843119217935});
  expect(kl_divergence(cauchy, cauchy2), {0.3507752218115441, 0.055569851154810834});
  expect(kl_divergence(one_hot_categorical, one_hot_categorical2), {0.2238046571856474});
  expect(kl_divergence(wishart, wishart2), {1.6062428728628493});
  expect(kl_divergence(multivariate_normal, multivariate_normal2), {0.39150564251328707});
  expect(kl_divergence(multivariate_normal, low_rank_multivariate_normal2), {1.4600347037576311});
  expect(kl_divergence(low_rank_multivariate_normal, multivariate_normal2), {0.958739326041697});
  expect(kl_divergence(low_rank_multivariate_normal, low_rank_multivariate_normal2),
         {0.2289864973649538});
  const auto expect_infinite = [](const auto& p, const auto&... q) {
    (expect(kl_divergence(p, q), {kInf, kInf}), ...);
  };
  expect_infinite(beta, pareto2);
  expect_infinite(continuous_bernoulli, pareto2);
  expect_infinite(exponential, beta2, continuous_bernoulli2, pareto2, uniform2);
  expect_infinite(gamma, beta2, continuous_bernoulli2, pareto2, uniform2);
  expect_infinite(gumbel, beta2, continuous_bernoulli2, exponential2, gamma2, pareto2, uniform2,
                  chi22);
  expect_infinite(laplace, beta2, continuous_bernoulli2, exponential2, gamma2, pareto2, uniform2,
                  chi22);
  expect_infinite(normal, beta2, continuous_bernoulli2, exponential2, gamma2, pareto2, uniform2,
                  chi22);
  expect_infinite(pareto, beta2, continuous_bernoulli2, uniform2);
  expect_infinite(poisson, bernoulli2, binomial2);
  expect_infinite(chi2, beta2, continuous_bernoulli2, pareto2, uniform2);
}

}  // namespace
}  // namespace tapegrad::distributions
