#include "optim/adam_variants.h"

#include <cmath>
#include <limits>
#include <tuple>

#include "ops/binary.h"
#include "ops/unary.h"

namespace tapegrad::optim {
namespace detail {

AdamVariant::AdamVariant(std::string_view kind, Params params, double lr, double weight_decay,
                         AdamRates rates, std::vector<std::string> state)
    : CustomOptimizer(kind, std::move(params), lr, weight_decay, std::move(state),
                      {"betas", "eps"}),
      kind_(kind),
      rates_(rates) {
  check_groups();
}

AdamRates AdamVariant::rates_of(const ParamGroup& own) const {
  AdamRates rates = rates_;
  if (own.betas) std::tie(rates.beta1, rates.beta2) = *own.betas;
  replace(rates.eps, own.eps);
  return rates;
}

void AdamVariant::check_group(const Group& group) const {
  const AdamRates rates = rates_of(group.own);
  check_range(kind_, "betas[0]", rates.beta1, 0, 1);
  check_range(kind_, "betas[1]", rates.beta2, 0, 1);
  check_range(kind_, "eps", rates.eps, 0, std::numeric_limits<double>::infinity());
}

Variable AdamVariant::begin(Parameter& p, const AdamRates& rates) const {
  Variable grad = p.grad.to(p.state[0].dtype());
  if (p.weight_decay != 0) {
    if (rates.decoupled)
      p.value = p.value * (1 - p.lr * p.weight_decay);
    else
      grad = grad + p.weight_decay * p.value;
  }
  p.state[0] = p.state[0] + (1 - rates.beta1) * (grad - p.state[0]);
  return grad;
}

void AdamVariant::add_square(Parameter& p, const Variable& grad, const AdamRates& rates) {
  p.state[1] = rates.beta2 * p.state[1] + (1 - rates.beta2) * (grad * grad);
}

}  // namespace detail

NAdam::NAdam(Params params, NAdamOptions o)
    : AdamVariant("NAdam", std::move(params), o.lr, o.weight_decay,
                  {o.betas.first, o.betas.second, o.eps, o.decoupled_weight_decay},
                  {"exp_avg", "exp_avg_sq"}),
      momentum_decay_(o.momentum_decay) {
  check_range("NAdam", "momentum_decay", momentum_decay_, 0,
              std::numeric_limits<double>::infinity());
}

double NAdam::momentum(double beta1, int64_t t) const {
  return beta1 * (1 - 0.5 * std::pow(0.96, double(t) * momentum_decay_));
}

double NAdam::product(double beta1, int64_t t) {
  auto& [known_beta1, value, known_t] = last_product_;
  if (known_beta1 != beta1 || known_t > t) last_product_ = {beta1, 1, 0};
  while (known_t < t) value *= momentum(beta1, ++known_t);
  return value;
}

void NAdam::update(Parameter& p) {
  const detail::AdamRates rates = rates_of(p.options);
  const Variable grad = begin(p, rates);
  add_square(p, grad, rates);
  const double now = momentum(rates.beta1, p.step), next = momentum(rates.beta1, p.step + 1);
  const double all = product(rates.beta1, p.step);
  const double correction = 1 - std::pow(rates.beta2, double(p.step));
  const Variable denominator = sqrt(p.state[1] / correction) + rates.eps;
  p.value = p.value - p.lr * (1 - now) / (1 - all) * (grad / denominator);
  p.value = p.value - p.lr * next / (1 - all * next) * (p.state[0] / denominator);
}

RAdam::RAdam(Params params, RAdamOptions o)
    : AdamVariant("RAdam", std::move(params), o.lr, o.weight_decay,
                  {o.betas.first, o.betas.second, o.eps, o.decoupled_weight_decay},
                  {"exp_avg", "exp_avg_sq"}) {}

void RAdam::update(Parameter& p) {
  const detail::AdamRates rates = rates_of(p.options);
  add_square(p, begin(p, rates), rates);
  const double t = double(p.step), decay = std::pow(rates.beta2, t), correction = 1 - decay;
  const Variable mean = p.state[0] / (1 - std::pow(rates.beta1, t));
  // The number of gradients that the mean of squares is worth, in the long run and now.
  const double longest = 2 / (1 - rates.beta2) - 1, length = longest - 2 * t * decay / correction;
  if (length <= 5) {
    p.value = p.value - p.lr * mean;
    return;
  }
  const double rectification =
      std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
  const Variable adaptive = std::sqrt(correction) / (sqrt(p.state[1]) + rates.eps);
  p.value = p.value - p.lr * rectification * (mean * adaptive);
}

Adamax::Adamax(Params params, AdamaxOptions o)
    : AdamVariant("Adamax", std::move(params), o.lr, o.weight_decay,
                  {o.betas.first, o.betas.second, o.eps, false}, {"exp_avg", "exp_inf"}) {}

void Adamax::update(Parameter& p) {
  const detail::AdamRates rates = rates_of(p.options);
  const Variable grad = begin(p, rates);
  p.state[1] = maximum(rates.beta2 * p.state[1], abs(grad) + rates.eps);
  const double correction = 1 - std::pow(rates.beta1, double(p.step));
  p.value = p.value - p.lr / correction * (p.state[0] / p.state[1]);
}

}  // namespace tapegrad::optim
