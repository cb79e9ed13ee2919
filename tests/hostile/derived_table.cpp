// Rows for distributions made of others, computed weights, functions of functions, ops of the user,
// complex numbers and ranks.
#include "core/autograd/function.h"
#include "core/inspect/communication.h"
#include "core/inspect/profiler.h"
#include "data/sampler.h"
#include "nn/activation.h"
#include "nn/adaptive_softmax.h"
#include "nn/attention.h"
#include "nn/bilinear.h"
#include "nn/distributions/continuous_distributions.h"
#include "nn/distributions/discrete_distributions.h"
#include "nn/distributions/transformed_distribution.h"
#include "nn/function_transforms.h"
#include "nn/weight_norm.h"
#include "ops/activation_composed.h"
#include "ops/aliases.h"
#include "ops/complex.h"
#include "ops/create.h"
#include "ops/fft.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/hostile/kit.h"

namespace tapegrad::testing {
namespace {

void use(const distributions::Distribution& d, const Variable& value) {
  attempt([&] { d.log_prob(value); }, [&] { d.entropy(); }, [&] { d.mean(), d.stddev(); },
          [&] { d.cdf(value); }, [&] { d.icdf(value); }, [&] { d.sample(); },
          [&] { d.rsample({2}); }, [&] { d.batch_shape(), d.event_shape(); });
}
void use(const distributions::Transform& t, const Variable& value) {
  attempt([&] { t.log_abs_det_jacobian(value, t(value)); }, [&] { t.inv(value); },
          [&] { t.sign(); });
}

/// "Cauchy::Cauchy Cauchy::entropy ..."
std::string methods(const std::string& type, std::initializer_list<const char*> further = {}) {
  std::string names = type + "::" + type;
  for (const char* name : {"entropy", "mean", "variance"}) names += ' ' + type + "::" + name;
  for (const char* name : further) names += ' ' + type + "::" + name;
  return names + ' ';
}
std::string parts(const std::string& type, std::initializer_list<const char*> names) {
  std::string all;
  for (const char* name : names) all += type + "::" + name + ' ';
  return all;
}

void add_distribution_rows(Table& table) {
  using namespace distributions;
  table.add(methods("Cauchy") + methods("HalfNormal") + methods("HalfCauchy") + methods("Gumbel") +
                methods("Weibull") + methods("Pareto") + methods("StudentT") + methods("Chi2") +
                methods("VonMises"),
            [](const Variable& a, const Variable& b, const Variable& value) {
              if (!is_small(a) || !is_small(b) || !is_small(value)) return;
              attempt([&] { use(Cauchy(a, b), value); }, [&] { use(HalfNormal(a), value); },
                      [&] { use(HalfCauchy(a), value); }, [&] { use(Gumbel(a, b), value); },
                      [&] { use(Weibull(a, b), value); }, [&] { use(Pareto(a, b), value); },
                      [&] { use(StudentT(a, b), value); }, [&] { use(Chi2(a), value); },
                      [&] { use(VonMises(a, b), value); });
            });
  table.add(methods("Poisson") + methods("Geometric") + methods("Binomial") +
                methods("NegativeBinomial") + methods("OneHotCategorical", {"event_rank"}) +
                methods("RelaxedOneHotCategorical", {"event_rank"}),
            [](const Variable& p, const Variable& value, int64_t count, double temperature) {
              if (!is_small(p) || !is_small(value)) return;
              attempt([&] { use(Poisson(p), value); }, [&] { use(Geometric(p), value); },
                      [&] { use(Geometric(Odds{.logits = p}), value); },
                      [&] { use(Binomial(count, p), value); },
                      [&] { use(Binomial(3, Odds{.logits = p}), value); },
                      [&] { use(NegativeBinomial(p, Odds{.probs = 0.5}), value); },
                      [&] { use(NegativeBinomial(2.0, Odds{.logits = p}), value); },
                      [&] { use(OneHotCategorical(p), value); },
                      [&] { use(RelaxedOneHotCategorical(temperature, p), value); });
            });
  table.add(
      "Distribution::stddev Distribution::cdf Distribution::icdf Distribution::event_rank "
      "Distribution::batch_shape Distribution::event_shape Multinomial::event_rank "
      "Dirichlet::event_rank MultivariateNormal::event_rank Normal::stddev HalfNormal::stddev "
      "Uniform::stddev Exponential::stddev Laplace::stddev Gumbel::stddev",
      [](const Variable& a, const Variable& b, const Variable& value) {
        if (!is_small(a) || !is_small(b) || !is_small(value)) return;
        attempt([&] { use(Normal(a, b), value); }, [&] { use(Uniform(a, b), value); },
                [&] { use(Exponential(a), value); }, [&] { use(Laplace(a, b), value); },
                [&] { use(HalfNormal(a), value); }, [&] { use(Gumbel(a, b), value); },
                [&] { use(LogNormal(a, b), value); }, [&] { use(Gamma(a, b), value); },
                [&] { use(Dirichlet(a), value); }, [&] { use(Multinomial(3, a), value); });
      });
  table.add(methods("TransformedDistribution", {"base_dist", "event_rank"}) +
                methods("Independent", {"base_dist", "event_rank"}) +
                methods("MixtureSameFamily", {"event_rank"}),
            [](const Variable& a, const Variable& b, const Variable& value, int count) {
              if (!is_small(a) || !is_small(b) || !is_small(value)) return;
              attempt([&] { use(TransformedDistribution(Normal(a, b), {TanhTransform()}), value); },
                      [&] { use(TransformedDistribution(Dirichlet(a), {ExpTransform()}), value); },
                      [&] { use(Independent(Normal(a, b), count), value); },
                      [&] { use(MixtureSameFamily(Categorical(a), Normal(a, b)), value); },
                      [&] { use(MixtureSameFamily(Categorical(a), Dirichlet(b)), value); });
            });
  const auto rules = {"inv", "log_abs_det_jacobian"};
  table.add(
      parts("Transform", {"inv", "log_abs_det_jacobian", "sign"}) + parts("ExpTransform", rules) +
          parts("SigmoidTransform", rules) + parts("TanhTransform", rules) +
          parts("SoftplusTransform", rules) +
          parts("AffineTransform", {"AffineTransform", "inv", "log_abs_det_jacobian", "sign"}) +
          parts("PowerTransform", {"PowerTransform", "inv", "log_abs_det_jacobian", "sign"}) +
          parts("ComposeTransform", {"ComposeTransform", "inv", "log_abs_det_jacobian", "sign"}) +
          "Transforms::Transforms Transforms::list Transforms::Any::Any",
      [](const Variable& a, const Variable& b, const Variable& value) {
        if (!is_small(a) || !is_small(b) || !is_small(value)) return;
        use(ExpTransform(), value), use(SigmoidTransform(), value);
        use(TanhTransform(), value), use(SoftplusTransform(), value);
        attempt([&] { use(AffineTransform(a, b), value); }, [&] { use(PowerTransform(a), value); },
                [&] {
                  use(ComposeTransform({AffineTransform(a, b), ExpTransform()}), value);
                });
      });
}

void add_layer_rows(Table& table) {
  table.add("weight_norm spectral_norm remove_weight_norm remove_spectral_norm",
            [](const Variable& x, const std::string& name, int dim, int64_t steps, double eps) {
              nn::Linear layer(3, 2), other(3, 2);
              attempt([&] { nn::utils::weight_norm(layer, name, dim)(x); },
                      [&] { nn::utils::remove_weight_norm(layer); },
                      [&] { nn::utils::spectral_norm(other, "weight", steps, eps, dim)(x); },
                      [&] { nn::utils::remove_spectral_norm(other); },
                      [&] { nn::utils::weight_norm(nn::Linear(3, 2), "weight", dim)(x); });
            });
  table.add("register_parametrization remove_parametrizations is_parametrized",
            [](const Variable& x, const Variable& factor, const std::string& name, bool leave) {
              nn::Linear layer(3, 2);
              const auto module = [factor](const Variable& w) { return w * factor; };
              attempt(
                  [&] { nn::utils::parametrize::register_parametrization(layer, name, module); },
                  [&] {
                    nn::utils::parametrize::register_parametrization(layer, "weight", module);
                    layer(x);
                  },
                  [&] { nn::utils::parametrize::remove_parametrizations(layer, name, leave); });
              nn::utils::parametrize::is_parametrized(layer);
            });
  table.add(parts("Bilinear", {"Bilinear", "forward", "members", "options"}),
            [](const Variable& a, const Variable& b, int64_t in, bool bias) {
              attempt([&] { nn::Bilinear(in, 3, 2, bias).options(); },
                      [&] { nn::Bilinear(3, in, 2, bias); });
              nn::Bilinear(3, 3, 2, bias)(a, b);
            });
  table.add("rrelu " + parts("RReLU", {"RReLU", "forward", "members", "options"}),
            [](const Variable& x, double lower, double upper) {
              nn::RReLU layer(lower, upper);
              layer.options();
              attempt([&] { layer(x); }, [&] { layer.eval()(x); });
              rrelu(x, lower, upper, true);
            });
  table.add(
      parts("AdaptiveLogSoftmaxWithLoss",
            {"AdaptiveLogSoftmaxWithLoss", "forward", "log_prob", "predict", "members"}),
      [](const Variable& x, const Labels& target, int64_t classes, int64_t cutoff, double by) {
        if (!is_small(x)) return;
        attempt(
            [&] {
              nn::AdaptiveLogSoftmaxWithLoss(3, 9, {cutoff, 5}, {.div_value = by});
            },
            [&] {
              nn::AdaptiveLogSoftmaxWithLoss(3, classes % 1000, {2, cutoff}, 1.5);
            });
        const nn::AdaptiveLogSoftmaxWithLoss layer(3, 9, {2, 5}, 1.5);
        attempt([&] { layer.log_prob(x), layer.predict(x); });
        layer(x, target.x).loss.backward();
      });
  table.add("AttentionOutput::weights", [](const Sequence& x, bool average) {
    nn::MultiheadAttention(4, 2)(x.x, x.x, x.x).weights(average);
  });
  table.leave_out("a macro that its header undefines", "TAPEGRAD_OF_REALS");
  table.leave_out("made by MultiheadAttention", "AttentionOutput::AttentionOutput");
}

struct Double : autograd::Function<Double> {
  static Variable forward(autograd::Context& ctx, const Variable& x, double by) {
    ctx.save_for_backward({x});
    ctx.saved_data["by"] = by;
    return x * by;
  }
  static std::vector<Variable> backward(autograd::Context& ctx, std::vector<Variable> grads) {
    ctx.get_saved_variables(), ctx.saved_variables(), ctx.saved_tensors();
    if (!ctx.needs_input_grad(0)) return {};
    return {grads[0] * ctx.saved_data["by"].toDouble(), {}};
  }
};

void add_function_rows(Table& table) {
  table.add(parts("Context", {"save_for_backward", "saved_tensors", "get_saved_variables",
                              "saved_variables", "needs_input_grad"}) +
                "Function::apply " + parts("SavedItem", {"SavedItem", "toDouble"}),
            [](const Variable& x, double by, int64_t argument) {
              attempt([&] { autograd::Context().needs_input_grad(size_t(argument)); },
                      [&] { autograd::Context().save_for_backward({x}); });
              const Variable leaf = Variable(x.value().clone()).requires_grad_();
              sum(Double::apply(leaf, by)).backward();
            });
  table.add(parts("SavedItem", {"toInt", "toBool", "toTensor"}),
            [](double number, const Variable& x) {
              attempt([&] { autograd::SavedItem(number).toInt(); },
                      [&] { autograd::SavedItem(number).toBool(); });
              autograd::SavedItem(x).toTensor();
            });
  table.leave_out("called by autograd::Function",
                  "FunctionCall::FunctionCall FunctionCall::context FunctionCall::add "
                  "FunctionCall::record");
  table.add("grad_and_value value_and_grad jacrev jacfwd", [](const Variable& x,
                                                              const Variable& y) {
    if (!is_small(x) || !is_small(y)) return;
    const auto f = [&](const Variable& v) { return sum(v * y); };
    attempt([&] { func::grad(f)(x); }, [&] { func::hessian(f)(x); }, [&] { func::jvp(f, x, y); },
            [&] { func::vjp(f, x).second(y); }, [&] { func::jacfwd(f)(x); },
            [&] { value_and_grad(f)(x); }, [&] { func::grad_and_value(f)(x); },
            [&] {
              func::grad([](const auto& a, const auto& b) { return sum(a * b); }, {0, 1})(x, y);
            });
    func::jacrev(f)(x);
  });
  table.add("InDim::InDim", [](const Variable& x, int first, int second, int out) {
    if (!is_small(x)) return;
    const auto f = [](const Variable& a, const Variable& b) { return sum(a) * b; };
    attempt([&] { vmap(f)(x, x); },
            [&] {
              vmap(f, {.in_dims = {first, None}})(x, x);
            },
            [&] {
              vmap(f, {.in_dims = {first, second, 0}})(x, x);
            });
    vmap(f, {.in_dims = {first, second}, .out_dims = out})(x, x);
  });
}

void add_form_rows(Table& table) {
  table.add("combinations", [](const Variable& x, int64_t r, bool again) {
    if (is_small(x)) combinations(x, r, again);
  });
  table.add("Optimizer::param_groups GroupRate::GroupRate OptimizerGroup::OptimizerGroup",
            [](const std::string& name, double lr, double factor) {
              nn::Linear layer(2, 2);
              optim::SGD sgd(layer, 0.1);
              attempt([&] { sgd.param_groups()[0][name] = lr; },
                      [&] { sgd.param_groups()[0].lr *= factor; },
                      [&] { sgd.param_groups()[0].lr /= factor; },
                      [&] {
                        auto group = sgd.param_groups()[0];
                        auto rate = group.lr;
                        rate *= factor;
                        group.lr = rate;
                      });
              sgd.param_groups()[0].lr = lr;
            });
  table.add(
      "OptimizerGroup::get_lr OptimizerGroup::set_lr OptimizerGroup::options "
      "OptimizerGroup::has_options",
      [](double lr) {
        nn::Linear layer(2, 2);
        optim::SGD sgd(layer, 0.1);
        optim::OptimizerGroup group = sgd.param_groups()[0];
        group.has_options(), group.get_lr(), group.lr();
        attempt([&] { group.lr(lr); });
        group.options().set_lr(lr);
      });
  table.leave_out("numbers of options",
                  "Setting::Setting Betas::Betas Sections::Sections Sections::is_list "
                  "Sections::list Sections::number");
  table.leave_out("a deduction guide", "StackDataset");
  table.leave_out("copies and moves", "Dataset::Dataset Evaluation::Evaluation");
  table.leave_out("definitions of members of Model", "bytes call copy kind");
  table.add("Variable::data ParameterList::append", [](const Variable& x) {
    nn::ParameterList().append(x);
    x.data();
  });
  table.leave_out("parts of a result by std::get and by names", "get");
  table.leave_out("the compiler refuses it", "Tensor::size");
  table.leave_out("a table of names", "init::choice_names");
}

void add_complex_rows(Table& table) {
  table.add("complex polar", [](const Variable& x, const Variable& y) {
    attempt([&] { complex(x, y); });
    polar(x, y);
  });
  table.add("real imag view_as_real view_as_complex conj complex_abs angle", [](const Variable& x) {
    const auto parts_of = [](const Variable& z) {
      attempt([&] { view_as_real(z), view_as_complex(z); }, [&] { conj(z); }, [&] { imag(z); },
              [&] { complex_abs(z); }, [&] { angle(z); });
      real(z);
    };
    attempt([&] { parts_of(x); });
    parts_of(narrow(x, -1, 0, 2));
  });
  const auto use = [](const auto&... results) { (results.numel(), ...); };
  table.add(
      parts("ComplexPairs",
            {"ComplexPairs", "abs",     "angle",   "real",    "imag",       "conj",   "square",
             "sum",          "mean",    "index",   "select",  "slice",      "narrow", "unsqueeze",
             "transpose",    "permute", "reshape", "flatten", "contiguous", "clone",  "detach",
             "view_as_real", "add_",    "sub_",    "mul_",    "div_"}),
      [use](const Variable& x) {
        const ComplexPairs z = x;
        attempt([&] { z.abs(), abs(z); }, [&] { z.angle(); }, [&] { z.real(); }, [&] { z.imag(); },
                [&] { z.conj(); }, [&] { z + z, z - z, -z; }, [&] { z / z; },
                [&] { use(z * 2, 2 * z, z / 2, 1 / z, 1 - z, z + 1); },
                [&] { use(z * x, x * z, z / x, x / z, z + x, z - x, x - z); },
                [&] { use(z.square(), z.sum(), z.mean(), z.sum(-1), z.mean(0, true)); },
                [&] { use(z[0], z.index({0}), z.select(-1, 0), z.slice(-1), z.detach()); },
                [&] { use(z.narrow(0, 0, 1), z.unsqueeze(-1), z.transpose(0, -1)); },
                [&] { use(z.permute({0}), z.reshape({-1}), z.flatten(), z.contiguous()); },
                [&] { z.clone().mul_(z).add_(z).sub_(1).div_(2).view_as_real(); });
        use(z * z);
      });
  table.add("complex_mul complex_div", [](const Variable& x, const Variable& y) {
    attempt([&] { complex_mul(x, y); }, [&] { complex_div(x, y); });
    const Variable z = narrow(x, -1, 0, 2), w = narrow(y, -1, 0, 2);
    attempt([&] { complex_div(z, w); });
    complex_mul(z, w);
  });
  table.add("fftn ifftn rfftn irfftn", [](const Variable& x, int64_t n, int64_t dim) {
    if (!is_small(x) || n > 1000) return;
    const Variable z = narrow(x, -1, 0, 2);
    attempt([&] { fft::fftn(x); }, [&] { fft::fftn(z); }, [&] { fft::ifftn(z, {.s = {n}}); },
            [&] { fft::rfftn(x, {.dim = {dim}}); },
            [&] {
              fft::irfftn(z, {.s = {n, n}, .dim = {dim, 0}});
            });
    fft::rfftn(x);
  });
}

void add_rank_rows(Table& table) {
  table.add("note_communication Profiler::communication",
            [](double begin, double end, double waited) {
              note_communication("all_reduce", begin, end, waited);
              Profiler().communication();
            });
  table.add(parts("DistributedSampler", {"DistributedSampler", "size", "indices"}),
            [](int64_t examples, int rank, int size, bool drop_last, int64_t epoch) {
              if (examples > 100'000) return;
              const DistributedSampler sampler(examples, {rank, size}, {.drop_last = drop_last});
              sampler.size(), sampler.indices(uint64_t(epoch));
            });
}

}  // namespace

void add_derived_rows(Table& table) {
  add_distribution_rows(table);
  add_layer_rows(table);
  add_function_rows(table);
  add_form_rows(table);
  add_complex_rows(table);
  add_rank_rows(table);
}

}  // namespace tapegrad::testing
