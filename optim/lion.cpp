#include "optim/lion.h"

#include "ops/binary.h"
#include "ops/unary.h"

namespace tapegrad::optim {

Lion::Lion(Params params, LionOptions o)
    : CustomOptimizer("Lion", std::move(params), o.lr, o.weight_decay, {"exp_avg"}, {"betas"}),
      betas_(o.betas) {
  set_maximize(o.maximize);
  check_groups();
}

void Lion::check_group(const Group& group) const {
  const auto [beta1, beta2] = group.own.betas.value_or(betas_);
  check_range("Lion", "betas[0]", beta1, 0, 1);
  check_range("Lion", "betas[1]", beta2, 0, 1);
}

void Lion::update(Parameter& p) {
  const auto [beta1, beta2] = p.options.betas.value_or(betas_);
  Variable& m = p.state[0];
  if (p.weight_decay != 0) p.value = p.value * (1 - p.lr * p.weight_decay);
  p.value = p.value - p.lr * sign(beta1 * m + (1 - beta1) * p.grad);
  m = beta2 * m + (1 - beta2) * p.grad;
}

}  // namespace tapegrad::optim
