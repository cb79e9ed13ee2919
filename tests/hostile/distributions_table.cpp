// Rows for the distributions of intervals, matrices and ratios, and for transforms of vectors.
#include "nn/distributions/distributions.h"
#include "ops/create.h"
#include "tests/hostile/kit.h"

namespace tapegrad::testing {
namespace {

using namespace distributions;

void use(const Distribution& d, const Variable& value) {
  attempt([&] { d.log_prob(value); }, [&] { d.entropy(); }, [&] { d.mean(); },
          [&] { d.variance(); }, [&] { d.mode(); }, [&] { d.cdf(value); }, [&] { d.icdf(value); },
          [&] { d.sample(); }, [&] { d.rsample({2}); }, [&] { d.batch_shape(), d.event_shape(); });
}
void use(const Transform& t, const Variable& value) {
  attempt([&] { t.log_abs_det_jacobian(value, t(value)); }, [&] { t(value); },
          [&] { t.inv(value); }, [&] { t.sign(), t.domain_rank(), t.codomain_rank(); });
}

/// "A::first A::second B::first ..."
std::string names_of(std::initializer_list<const char*> types,
                     std::initializer_list<const char*> members) {
  std::string all;
  for (const char* type : types) {
    for (const char* name : members) all += std::string(type) + "::" + (*name ? name : type) + ' ';
  }
  return all;
}
bool are_small(std::initializer_list<Variable> all) {
  for (const Variable& x : all)
    if (!is_small(x)) return false;
  return true;
}

void add_distribution_rows(Table& table) {
  table.add(
      names_of({"InverseGamma", "GeneralizedPareto", "ContinuousBernoulli", "Kumaraswamy"},
               {"", "entropy", "mean", "variance"}) +
          names_of({"FisherSnedecor"}, {"", "mean", "variance"}) +
          names_of({"InverseGamma", "GeneralizedPareto", "Kumaraswamy", "FisherSnedecor"},
                   {"mode"}) +
          "ContinuousBernoulli::log_factor RelaxedBernoulli::RelaxedBernoulli "
          "LogisticNormal::LogisticNormal",
      [](const Variable& a, const Variable& b, const Variable& value) {
        if (!are_small({a, b, value})) return;
        attempt([&] { use(InverseGamma(a, b), value); }, [&] { use(FisherSnedecor(a, b), value); },
                [&] { use(GeneralizedPareto(a, b, value), value); },
                [&] { use(ContinuousBernoulli(a), value); },
                [&] { use(ContinuousBernoulli(Odds{.logits = b}), value); },
                [&] { ContinuousBernoulli(a).log_factor(); },
                [&] { use(Kumaraswamy(a, b), value); }, [&] { use(RelaxedBernoulli(a, b), value); },
                [&] { use(RelaxedBernoulli(a, Odds{.logits = b}), value); },
                [&] { use(LogisticNormal(a, b), value); });
      });
  table.add(names_of({"LowRankMultivariateNormal", "Wishart"},
                     {"", "entropy", "mean", "variance", "mode", "event_rank"}) +
                "LowRankMultivariateNormal::covariance_matrix LKJCholesky::LKJCholesky "
                "LKJCholesky::event_rank Chi2::as_gamma",
            [](const Variable& a, const Variable& b, const Variable& value, int64_t dim) {
              if (!are_small({a, b, value})) return;
              attempt([&] { use(LowRankMultivariateNormal(a, b, value), value); },
                      [&] { LowRankMultivariateNormal(a, b, value).covariance_matrix(); },
                      [&] { use(Wishart(a, b), value); },
                      [&] { use(Wishart(a, {.scale_tril = b}), value); },
                      [&] { Chi2(a).as_gamma(); },
                      [&] {
                        if (dim < 64) use(LKJCholesky(dim, a), value);
                      });
            });
  table.add("OneHotCategoricalStraightThrough::OneHotCategoricalStraightThrough",
            [](const Variable& p, const Variable& value) {
              if (!are_small({p, value})) return;
              const OneHotCategoricalStraightThrough d(p);
              use(d, value);
              kl_divergence(d, OneHotCategorical(value));
            });
  table.add(names_of({"Distribution", "Uniform",
                      "Exponential",  "Laplace",
                      "Cauchy",       "HalfCauchy",
                      "Gumbel",       "Weibull",
                      "Pareto",       "VonMises",
                      "Normal",       "LogNormal",
                      "HalfNormal",   "MultivariateNormal",
                      "Gamma",        "Chi2",
                      "StudentT",     "Dirichlet",
                      "Beta",         "Bernoulli",
                      "Binomial",     "NegativeBinomial",
                      "Geometric",    "Poisson",
                      "Categorical",  "OneHotCategorical",
                      "Independent"},
                     {"mode"}),
            [](const Variable& a, const Variable& b, int64_t count) {
              if (!are_small({a, b})) return;
              attempt([&] { Uniform(a, b).mode(), Laplace(a, b).mode(), Normal(a, b).mode(); },
                      [&] { Exponential(a).mode(), HalfCauchy(a).mode(), HalfNormal(a).mode(); },
                      [&] { Cauchy(a, b).mode(), Gumbel(a, b).mode(), VonMises(a, b).mode(); },
                      [&] { Weibull(a, b).mode(), Pareto(a, b).mode(), LogNormal(a, b).mode(); },
                      [&] { MultivariateNormal(a, b).mode(), Independent(Normal(a, b), 1).mode(); },
                      [&] { Gamma(a, b).mode(), Chi2(a).mode(), StudentT(a, b).mode(); },
                      [&] { Dirichlet(a).mode(), Beta(a, b).mode(), Poisson(a).mode(); },
                      [&] { Bernoulli(a).mode(), Geometric(a).mode(), Binomial(count, a).mode(); },
                      [&] { NegativeBinomial(a, b).mode(); },
                      [&] { Categorical(a).mode(), OneHotCategorical(b).mode(); });
            });
}

void add_divergence_rows(Table& table) {
  table.add("kl_divergence", [](const Variable& a, const Variable& b, const Variable& c) {
    if (!are_small({a, b, c})) return;
    const auto from = [&](const auto& p) {
      attempt([&] { kl_divergence(p, Normal(b, c)); }, [&] { kl_divergence(p, Uniform(b, c)); },
              [&] { kl_divergence(p, Gamma(b, c)); }, [&] { kl_divergence(p, Pareto(b, c)); });
    };
    attempt([&] { from(Normal(a, b)); }, [&] { from(Uniform(a, b)); }, [&] { from(Gamma(a, b)); },
            [&] { from(Exponential(a)); }, [&] { from(Beta(a, b)); },
            [&] { kl_divergence(Gumbel(a, b), Gumbel(b, c)); },
            [&] { kl_divergence(Uniform(a, b), Gumbel(b, c)); },
            [&] { kl_divergence(Binomial(3, a), Binomial(4, b)); },
            [&] { kl_divergence(Wishart(a, b), Wishart(c, b)); },
            [&] { kl_divergence(LogisticNormal(a, b), LogisticNormal(b, c)); });
    kl_divergence(LowRankMultivariateNormal(a, b, c), LowRankMultivariateNormal(a, b, c));
  });
}

void add_transform_rows(Table& table) {
  table.add(names_of({"StickBreakingTransform", "CorrCholeskyTransform",
                      "CumulativeDistributionTransform", "IndependentTransform", "ReshapeTransform",
                      "CatTransform", "StackTransform"},
                     {"inv", "log_abs_det_jacobian", "domain_rank"}) +
                names_of({"IndependentTransform", "ReshapeTransform", "CatTransform",
                          "StackTransform", "CumulativeDistributionTransform"},
                         {""}) +
                names_of({"AbsTransform", "SoftmaxTransform", "LowerCholeskyTransform",
                          "PositiveDefiniteTransform"},
                         {"inv", "domain_rank"}) +
                names_of({"Transform", "ComposeTransform", "CorrCholeskyTransform",
                          "IndependentTransform", "ReshapeTransform"},
                         {"codomain_rank"}) +
                names_of({"Transform", "ComposeTransform"}, {"domain_rank"}) +
                "IndependentTransform::sign",
            [](const Variable& a, const Variable& value, int dim, const Shape& shape) {
              if (!are_small({a, value})) return;
              attempt([&] { use(AbsTransform(), value), use(SoftmaxTransform(), value); },
                      [&] { use(StickBreakingTransform(), value); },
                      [&] { use(CorrCholeskyTransform(), value); },
                      [&] { use(LowerCholeskyTransform(), value); },
                      [&] { use(PositiveDefiniteTransform(), value); },
                      [&] { use(CumulativeDistributionTransform(Normal(a, 1.0)), value); },
                      [&] { use(IndependentTransform(ExpTransform(), dim), value); },
                      [&] { use(ReshapeTransform(value.shape(), shape), value); },
                      [&] {
                        use(CatTransform({ExpTransform(), TanhTransform()}, dim, shape), value);
                      },
                      [&] {
                        use(StackTransform({ExpTransform(), TanhTransform()}, dim), value);
                      });
              use(ComposeTransform({StickBreakingTransform(), ExpTransform()}), value);
            });
}

}  // namespace

void add_distributions_rows(Table& table) {
  add_distribution_rows(table);
  add_divergence_rows(table);
  add_transform_rows(table);
}

}  // namespace tapegrad::testing
