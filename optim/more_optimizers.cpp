#include "optim/more_optimizers.h"

#include <cmath>
#include <limits>

#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/unary.h"

namespace tapegrad::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Rprop::Rprop(Params params, RpropOptions o)
    : CustomOptimizer("Rprop", std::move(params), o.lr, 0.0, {"prev", "step_size"}), options_(o) {
  check_range("Rprop", "etas[0]", o.etas.first, std::numeric_limits<double>::denorm_min(), 1);
  check_range("Rprop", "etas[1]", o.etas.second, std::nextafter(1.0, 2.0), kInfinity);
  check_range("Rprop", "step_sizes[0]", o.step_sizes.first, 0, kInfinity);
  check_range("Rprop", "step_sizes[1]", o.step_sizes.second, o.step_sizes.first, kInfinity);
}

void Rprop::update(Parameter& p) {
  Variable &prev = p.state[0], &size = p.state[1];
  Variable grad = p.grad.to(prev.dtype());
  if (p.step == 1) size = full_like(size, p.lr);
  const Variable agreement = grad * prev;
  const Variable shrink = lt(agreement, 0), grow = gt(agreement, 0);
  const Variable factor =
      where(grow, options_.etas.second, where(shrink, options_.etas.first, ones_like(size)));
  size = clamp(size * factor, options_.step_sizes.first, options_.step_sizes.second);
  grad = where(shrink, 0.0, grad);
  p.value = p.value - sign(grad) * size;
  prev = grad;
}

ASGD::ASGD(Params params, ASGDOptions o)
    : CustomOptimizer("ASGD", std::move(params), o.lr, o.weight_decay, {"ax"}), options_(o) {
  check_range("ASGD", "lambd", o.lambd, 0, kInfinity);
  check_range("ASGD", "alpha", o.alpha, 0, kInfinity);
  check_range("ASGD", "t0", o.t0, 0, kInfinity);
}

void ASGD::update(Parameter& p) {
  Variable& average = p.state[0];
  const double t = double(p.step - 1);
  const double rate = p.lr / std::pow(1 + options_.lambd * p.lr * t, options_.alpha);
  const double share = 1 / std::max(1.0, t - options_.t0);
  Variable grad = p.grad.to(average.dtype());
  if (p.weight_decay != 0) grad = grad + p.weight_decay * p.value;
  p.value = p.value * (1 - options_.lambd * rate) - rate * grad;
  average = share == 1 ? p.value.to(average.dtype()) : average + share * (p.value - average);
}

}  // namespace tapegrad::optim
