// Rows for windowed Fourier transforms, further distributions, and Rprop and ASGD.
#include "nn/distributions/distributions.h"
#include "ops/aliases.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/stft.h"
#include "optim/lbfgs.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "tests/hostile/kit.h"

namespace tapegrad::testing {
namespace {

void use(const distributions::Distribution& d, const Variable& value) {
  attempt([&] { d.log_prob(value); }, [&] { d.entropy(), d.mean(), d.variance(); },
          [&] { d.sample(), d.rsample({2}); });
}

void add_transform_rows(Table& table) {
  table.add("stft", [](const Variable& x, int64_t n, int64_t hop, int64_t length) {
    if (!is_small(x)) return;
    const Variable y = stft(x, n, {.hop_length = hop, .win_length = length, .center = false});
    if (y.requires_grad()) sum(y).backward();
  });
  table.add("istft", [](const Sequence& s, int64_t n, int64_t hop, int64_t length) {
    if (is_small(s.x)) istft(s, n, {.hop_length = hop, .length = length});
  });
}

void add_distribution_rows(Table& table) {
  using namespace distributions;
  table.add(
      "MultivariateNormal::MultivariateNormal MultivariateNormal::with_scale_tril "
      "MultivariateNormal::entropy MultivariateNormal::mean MultivariateNormal::variance",
      [](const Variable& loc, const Variable& matrix, const Variable& value) {
        if (!is_small(loc) || !is_small(matrix) || !is_small(value)) return;
        attempt([&] { use(MultivariateNormal(loc, matmul(matrix, matrix.mT())), value); },
                [&] { use(MultivariateNormal::with_scale_tril(loc, matrix), value); });
        const MultivariateNormal d(loc, matrix);
        kl_divergence(d, d);
      });
  table.add(
      "Exponential::Exponential Exponential::entropy Exponential::mean Exponential::variance "
      "Laplace::Laplace Laplace::entropy Laplace::mean Laplace::variance LogNormal::LogNormal "
      "LogNormal::entropy LogNormal::mean LogNormal::variance Gamma::Gamma Gamma::entropy "
      "Gamma::mean Gamma::variance",
      [](const Variable& a, const Variable& b, const Variable& value) {
        if (!is_small(a) || !is_small(b) || !is_small(value)) return;
        attempt(
            [&] { use(Exponential(a), value), kl_divergence(Exponential(a), Exponential(b)); },
            [&] { use(Laplace(a, b), value), kl_divergence(Laplace(a, b), Laplace(b, b)); },
            [&] { use(LogNormal(a, b), value), kl_divergence(LogNormal(a, b), LogNormal(b, b)); },
            [&] { use(Gamma(a, b), value), kl_divergence(Gamma(a, b), Gamma(b, b)); });
      });
}

void add_number_rows(Table& table) {
  table.add("promote_types result_type scalar_tensor finfo iinfo",
            [](const Variable& x, DType dtype, double number) {
              attempt([&] { promote_types(dtype, f16), result_type(x, number); },
                      [&] { result_type(number, x), result_type(x, x); },
                      [&] { scalar_tensor(number, {.dtype = dtype}); }, [&] { finfo(dtype); },
                      [&] { iinfo(dtype); });
            });
  table.add("can_cast", [](DType from, DType to) { can_cast(from, to); });
  table.add("set_num_threads get_num_threads", [](int64_t count) {
    const int64_t before = get_num_threads();
    set_num_threads(count > 64 && count <= 1024 ? 64 : count);
    set_num_threads(before);
  });
  table.add("get_rng_state set_rng_state initial_seed", [](int64_t seed) {
    const RandomState before = get_rng_state();
    set_rng_state({uint64_t(seed), uint64_t(seed)}), initial_seed();
    set_rng_state(before);
  });
  table.leave_out("no arguments", "is_grad_enabled GradMode::is_enabled get_default_dtype");
  table.add("set_float32_matmul_precision use_deterministic_algorithms cuda::empty_cache",
            [](const std::string& precision, bool on) {
              const MatmulPrecision before = matmul_precision();
              use_deterministic_algorithms(on), cuda::empty_cache();
              set_float32_matmul_precision(precision);
              set_matmul_precision(before);
            });
  table.leave_out("an option of loaders and random_split",
                  "GeneratorSeed::GeneratorSeed GeneratorSeed::value_or");
  table.leave_out("the compiler refuses it", "set_grad_enabled set_detect_anomaly");
}

void add_optimizer_rows(Table& table) {
  table.add(
      "LBFGS::LBFGS OptimizerHere::OptimizerHere OptimizerHere::get "
      "OptimizerHere::where",
      [](Variables params, double lr, int64_t size) {
        for (const Variable& p : params)
          if (!is_small(p)) return;
        optim::SGD first(params, lr), second(params, lr);
        optim::StepLR schedule(first, size), lost(second, size);
        second = std::move(first);
        attempt([&] { schedule.step(); }, [&] { lost.step(); }, [&] { first.step(); },
                [&] { optim::OptimizerHere(first).get(); });
        const optim::OptimizerHere here(second);
        here.get().step(), here.where();
        optim::LBFGS lbfgs(params), moved(std::move(lbfgs));
        moved = optim::LBFGS(params);
      });
  table.add("Rprop::Rprop ASGD::ASGD", [](Variables params, double lr, double factor) {
    for (const Variable& p : params)
      if (!is_small(p)) return;
    const auto step = [&](optim::Optimizer& opt) {
      sum(params.at(0) * params.at(0)).backward();
      opt.step(), opt.load_state_dict(opt.state_dict()), opt.zero_grad();
    };
    attempt([&] {
      optim::Rprop rprop(params, {.lr = lr, .etas = {factor, 1.5}, .step_sizes = {factor, lr}});
      step(rprop);
    });
    optim::ASGD asgd(params, {.lr = lr, .lambd = factor, .t0 = factor, .weight_decay = factor});
    step(asgd);
  });
}

}  // namespace

void add_names_rows(Table& table) {
  table.leave_out("a type of arguments",
                  "OptionalSize::OptionalSize OutputSize::OutputSize "
                  "ScaleFactors::ScaleFactors");
  add_transform_rows(table);
  add_number_rows(table);
  add_distribution_rows(table);
  add_optimizer_rows(table);
}

}  // namespace tapegrad::testing
