#include "optim/adam_variants.h"

#include <cmath>
#include <tuple>

#include "core/tape/internal/call_line.h"
#include "ops/update.h"
#include "optim/internal/checks.h"

namespace tapegrad::optim {
namespace detail {

AdamVariant::AdamVariant(std::string_view kind, Params params, double lr, double weight_decay,
                         AdamRates rates, std::string_view second)
    : Optimizer(kind, std::move(params), lr, weight_decay, {"betas", "eps"}),
      kind_(kind),
      second_(second),
      rates_(rates) {
  set_maximize(rates.maximize);
  check_groups();
}

AdamRates AdamVariant::rates_of(const Group& group) const {
  AdamRates rates = rates_;
  if (group.own.betas) std::tie(rates.beta1, rates.beta2) = *group.own.betas;
  replace(rates.eps, group.own.eps);
  return rates;
}

void AdamVariant::set_momentum(Group& group, double momentum) const {
  group.own.betas = {momentum, rates_of(group).beta2};
}
void AdamVariant::check_group(const Group& group) const {
  const AdamRates rates = rates_of(group);
  check_range(kind_, "betas[0]", rates.beta1, 0, 1);
  check_range(kind_, "betas[1]", rates.beta2, 0, 1);
  check_range(kind_, "eps", rates.eps, 0, kNoLimit);
}

std::vector<Optimizer::StateInfo> AdamVariant::state_info(const Group&) const {
  return {{"exp_avg"}, {std::string(second_)}};
}

}  // namespace detail

NAdam::NAdam(Params params, NAdamOptions o)
    : AdamVariant("NAdam", std::move(params), o.lr, o.weight_decay,
                  {o.betas.first, o.betas.second, o.eps, o.decoupled_weight_decay, o.maximize},
                  "exp_avg_sq"),
      momentum_decay_(o.momentum_decay) {
  const ErrorLine line(made_at());
  check_range("NAdam", "momentum_decay", momentum_decay_, 0, kNoLimit);
}

void NAdam::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  const detail::AdamRates rates = rates_of(group);
  kernels::nadam_step(params,
                      {.lr = group.lr,
                       .beta1 = rates.beta1,
                       .beta2 = rates.beta2,
                       .eps = rates.eps,
                       .weight_decay = group.weight_decay,
                       .decoupled = rates.decoupled,
                       .decay = std::pow(0.96, momentum_decay_)},
                      guard);
}

RAdam::RAdam(Params params, RAdamOptions o)
    : AdamVariant("RAdam", std::move(params), o.lr, o.weight_decay,
                  {o.betas.first, o.betas.second, o.eps, o.decoupled_weight_decay, o.maximize},
                  "exp_avg_sq") {}

void RAdam::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  const detail::AdamRates rates = rates_of(group);
  kernels::radam_step(params,
                      {.lr = group.lr,
                       .beta1 = rates.beta1,
                       .beta2 = rates.beta2,
                       .eps = rates.eps,
                       .weight_decay = group.weight_decay,
                       .decoupled = rates.decoupled},
                      guard);
}

Adamax::Adamax(Params params, AdamaxOptions o)
    : AdamVariant("Adamax", std::move(params), o.lr, o.weight_decay,
                  {o.betas.first, o.betas.second, o.eps, false, o.maximize}, "exp_inf") {}

void Adamax::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  const detail::AdamRates rates = rates_of(group);
  kernels::adamax_step(params,
                       {.lr = group.lr,
                        .beta1 = rates.beta1,
                        .beta2 = rates.beta2,
                        .eps = rates.eps,
                        .weight_decay = group.weight_decay},
                       guard);
}

}  // namespace tapegrad::optim
