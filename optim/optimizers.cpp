#include "optim/optimizers.h"

#include <cmath>
#include <limits>

#include "core/tape/internal/call_line.h"
#include "ops/update.h"
#include "optim/internal/checks.h"

namespace tapegrad::optim {
namespace {

/// Initial value of a state that is used only with an option.
std::optional<double> zero_if(bool used) {
  return used ? std::optional<double>(0.0) : std::nullopt;
}

/// Returns the options of SGD(params, 0.1, {.momentum = 0.9}).
template <typename Options>
Options with_rate(Options options, double lr) {
  options.lr = lr;
  return options;
}

/// Makes the state that the parameters of a group lack because an option was 0 in earlier steps.
template <typename Group, typename StateInfos>
void complete_state(Group& group, const StateInfos& infos) {
  for (auto& slot : group.slots)
    for (size_t i = 0; i < slot.state.size(); ++i) {
      const Tensor& param = slot.param.value();
      if (infos[i].initial && !slot.state[i])
        slot.state[i] =
            Tensor::full(param.shape(), *infos[i].initial, param.dtype(), param.device());
    }
}

}  // namespace

SGD::SGD(Params params, SGDOptions options)
    : Optimizer("SGD", std::move(params), options.lr, options.weight_decay,
                {"momentum", "dampening", "nesterov"}),
      options_(options) {
  set_maximize(options.maximize);
  check_groups();
}
SGD::SGD(Params params, double lr, SGDOptions options)
    : SGD(std::move(params), with_rate(options, lr)) {}
SGDOptions SGD::options_of(const Group& group) const {
  SGDOptions options = options_;
  replace(options.momentum, group.own.momentum);
  replace(options.dampening, group.own.dampening);
  replace(options.nesterov, group.own.nesterov);
  return options;
}
void SGD::set_momentum(Group& group, double momentum) const {
  group.own.momentum = momentum;
  complete_state(group, state_info(group));
}
void SGD::check_group(const Group& group) const {
  const SGDOptions options = options_of(group);
  check_range("SGD", "momentum", options.momentum, 0, kNoLimit);
  check_range("SGD", "dampening", options.dampening, 0, kNoLimit);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    fail<ArgumentError>("SGD: nesterov needs a momentum and no dampening, not momentum ",
                        options.momentum, " and dampening ", options.dampening);
}
std::vector<Optimizer::StateInfo> SGD::state_info(const Group& group) const {
  return {{"momentum_buffer", zero_if(options_of(group).momentum != 0)}};
}
void SGD::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  const SGDOptions options = options_of(group);
  kernels::sgd_step(params,
                    {.lr = group.lr,
                     .momentum = options.momentum,
                     .dampening = options.dampening,
                     .weight_decay = group.weight_decay,
                     .nesterov = options.nesterov},
                    guard);
}

bool SGD::updates_rows(const Group& group) const {
  return options_of(group).momentum == 0 && group.weight_decay == 0;
}

Adam::Adam(Params params, AdamOptions options)
    : Adam("Adam", std::move(params), options, /*decoupled=*/false) {}
Adam::Adam(std::string_view kind, Params params, AdamOptions options, bool decoupled)
    : Optimizer(kind, std::move(params), options.lr, options.weight_decay,
                {"betas", "eps", "amsgrad"}),
      kind_(kind),
      options_(options),
      decoupled_(decoupled) {
  set_maximize(options.maximize);
  check_groups();
}
Adam::Adam(Params params, double lr, AdamOptions options)
    : Adam(std::move(params), with_rate(options, lr)) {}
AdamOptions Adam::options_of(const Group& group) const {
  AdamOptions options = options_;
  replace(options.betas, group.own.betas);
  replace(options.eps, group.own.eps);
  replace(options.amsgrad, group.own.amsgrad);
  return options;
}
void Adam::set_momentum(Group& group, double momentum) const {
  group.own.betas = {momentum, options_of(group).betas.second};
}
void Adam::check_group(const Group& group) const {
  const AdamOptions options = options_of(group);
  check_range(kind_, "betas.first", options.betas.first, 0, 1);
  check_range(kind_, "betas.second", options.betas.second, 0, 1);
  check_range(kind_, "eps", options.eps, 0, kNoLimit);
}
AdamW::AdamW(Params params, double lr, AdamWOptions options)
    : AdamW(std::move(params), with_rate(options, lr)) {}
AdamW::AdamW(Params params, AdamWOptions o)
    : Adam("AdamW", std::move(params),
           {o.lr, o.betas, o.eps, o.weight_decay, o.amsgrad, o.maximize},
           /*decoupled=*/true) {}
std::vector<Optimizer::StateInfo> Adam::state_info(const Group& group) const {
  return {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", zero_if(options_of(group).amsgrad)}};
}
void Adam::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  const AdamOptions options = options_of(group);
  kernels::adam_step(params,
                     {.lr = group.lr,
                      .beta1 = options.betas.first,
                      .beta2 = options.betas.second,
                      .eps = options.eps,
                      .weight_decay = group.weight_decay,
                      .decoupled = decoupled_,
                      .eps_of_sum = eps_of_sum_},
                     guard);
}

SparseAdam::SparseAdam(Params params, SparseAdamOptions o)
    : Adam("SparseAdam", std::move(params),
           {.lr = o.lr, .betas = o.betas, .eps = o.eps, .maximize = o.maximize},
           /*decoupled=*/false) {
  eps_of_sum_ = true;
}
bool SparseAdam::updates_rows(const Group& group) const { return group.weight_decay == 0; }

Adagrad::Adagrad(Params params, AdagradOptions options)
    : Optimizer("Adagrad", std::move(params), options.lr, options.weight_decay,
                {"eps", "lr_decay"}),
      options_(options) {
  set_maximize(options.maximize);
  check_groups();
}
AdagradOptions Adagrad::options_of(const Group& group) const {
  AdagradOptions options = options_;
  replace(options.eps, group.own.eps);
  replace(options.lr_decay, group.own.lr_decay);
  return options;
}
void Adagrad::check_group(const Group& group) const {
  const AdagradOptions options = options_of(group);
  check_range("Adagrad", "lr_decay", options.lr_decay, 0, kNoLimit);
  check_range("Adagrad", "initial_accumulator_value", options.initial_accumulator_value, 0,
              kNoLimit);
  check_range("Adagrad", "eps", options.eps, 0, kNoLimit);
}
std::vector<Optimizer::StateInfo> Adagrad::state_info(const Group&) const {
  return {{"sum", options_.initial_accumulator_value}};
}
void Adagrad::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  const AdagradOptions options = options_of(group);
  kernels::adagrad_step(params,
                        {.lr = group.lr,
                         .lr_decay = options.lr_decay,
                         .eps = options.eps,
                         .weight_decay = group.weight_decay},
                        guard);
}
bool Adagrad::updates_rows(const Group& group) const { return group.weight_decay == 0; }

RMSprop::RMSprop(Params params, RMSpropOptions options)
    : Optimizer("RMSprop", std::move(params), options.lr, options.weight_decay,
                {"alpha", "eps", "momentum", "centered"}),
      options_(options) {
  set_maximize(options.maximize);
  check_groups();
}
RMSprop::RMSprop(Params params, double lr, RMSpropOptions options)
    : RMSprop(std::move(params), with_rate(options, lr)) {}
RMSpropOptions RMSprop::options_of(const Group& group) const {
  RMSpropOptions options = options_;
  replace(options.alpha, group.own.alpha);
  replace(options.eps, group.own.eps);
  replace(options.momentum, group.own.momentum);
  replace(options.centered, group.own.centered);
  return options;
}
void RMSprop::set_momentum(Group& group, double momentum) const {
  group.own.momentum = momentum;
  complete_state(group, state_info(group));
}
void RMSprop::check_group(const Group& group) const {
  const RMSpropOptions options = options_of(group);
  require_share("RMSprop", "alpha", options.alpha);
  check_range("RMSprop", "momentum", options.momentum, 0, kNoLimit);
  check_range("RMSprop", "eps", options.eps, 0, kNoLimit);
}
std::vector<Optimizer::StateInfo> RMSprop::state_info(const Group& group) const {
  const RMSpropOptions options = options_of(group);
  return {{"square_avg"},
          {"grad_avg", zero_if(options.centered)},
          {"momentum_buffer", zero_if(options.momentum != 0)}};
}
void RMSprop::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  const RMSpropOptions options = options_of(group);
  kernels::rmsprop_step(params,
                        {.lr = group.lr,
                         .alpha = options.alpha,
                         .eps = options.eps,
                         .weight_decay = group.weight_decay,
                         .momentum = options.momentum},
                        guard);
}

Adadelta::Adadelta(Params params, AdadeltaOptions options)
    : Optimizer("Adadelta", std::move(params), options.lr, options.weight_decay, {"rho", "eps"}),
      options_(options) {
  set_maximize(options.maximize);
  check_groups();
}
AdadeltaOptions Adadelta::options_of(const Group& group) const {
  AdadeltaOptions options = options_;
  replace(options.rho, group.own.rho);
  replace(options.eps, group.own.eps);
  return options;
}
void Adadelta::check_group(const Group& group) const {
  const AdadeltaOptions options = options_of(group);
  require_share("Adadelta", "rho", options.rho);
  check_range("Adadelta", "eps", options.eps, 0, kNoLimit);
}
std::vector<Optimizer::StateInfo> Adadelta::state_info(const Group&) const {
  return {{"square_avg"}, {"acc_delta"}};
}
void Adadelta::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  const AdadeltaOptions options = options_of(group);
  kernels::adadelta_step(
      params,
      {.lr = group.lr, .rho = options.rho, .eps = options.eps, .weight_decay = group.weight_decay},
      guard);
}

Rprop::Rprop(Params params, RpropOptions o)
    : Optimizer("Rprop", std::move(params), o.lr, 0.0), options_(o) {
  set_maximize(o.maximize);
  const ErrorLine line(made_at());
  check_range("Rprop", "etas[0]", o.etas.first, std::numeric_limits<double>::denorm_min(), 1);
  check_range("Rprop", "etas[1]", o.etas.second, std::nextafter(1.0, 2.0), kNoLimit);
  check_range("Rprop", "step_sizes[0]", o.step_sizes.first, 0, kNoLimit);
  check_range("Rprop", "step_sizes[1]", o.step_sizes.second, o.step_sizes.first, kNoLimit);
}

std::vector<Optimizer::StateInfo> Rprop::state_info(const Group& group) const {
  return {{"prev"}, {"step_size", group.lr}};
}
void Rprop::update(const Group&, const ParamUpdates& params, const StepGuard& guard) {
  kernels::rprop_step(params,
                      {.shrink = options_.etas.first,
                       .grow = options_.etas.second,
                       .least = options_.step_sizes.first,
                       .most = options_.step_sizes.second},
                      guard);
}

ASGD::ASGD(Params params, ASGDOptions o)
    : Optimizer("ASGD", std::move(params), o.lr, o.weight_decay), options_(o) {
  set_maximize(o.maximize);
  const ErrorLine line(made_at());
  check_range("ASGD", "lambd", o.lambd, 0, kNoLimit);
  check_range("ASGD", "alpha", o.alpha, 0, kNoLimit);
  check_range("ASGD", "t0", o.t0, 0, kNoLimit);
}

std::vector<Optimizer::StateInfo> ASGD::state_info(const Group&) const { return {{"ax"}}; }
void ASGD::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  kernels::asgd_step(params,
                     {.lr = group.lr,
                      .lambd = options_.lambd,
                      .alpha = options_.alpha,
                      .t0 = options_.t0,
                      .weight_decay = group.weight_decay},
                     guard);
}

AdadeltaOptions AdadeltaOptions::keras() { return {.lr = 0.001, .rho = 0.95, .eps = 1e-7}; }
Adadelta Adadelta::keras(Params params) {
  return Adadelta(std::move(params), AdadeltaOptions::keras());
}
}  // namespace tapegrad::optim
