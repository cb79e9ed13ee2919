#include "optim/more_optimizers.h"

#include <cmath>
#include <limits>

#include "core/tape/internal/call_line.h"
#include "ops/update.h"

namespace tapegrad::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Rprop::Rprop(Params params, RpropOptions o)
    : Optimizer("Rprop", std::move(params), o.lr, 0.0), options_(o) {
  const ErrorLine line(made_at());
  check_range("Rprop", "etas[0]", o.etas.first, std::numeric_limits<double>::denorm_min(), 1);
  check_range("Rprop", "etas[1]", o.etas.second, std::nextafter(1.0, 2.0), kInfinity);
  check_range("Rprop", "step_sizes[0]", o.step_sizes.first, 0, kInfinity);
  check_range("Rprop", "step_sizes[1]", o.step_sizes.second, o.step_sizes.first, kInfinity);
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
  const ErrorLine line(made_at());
  check_range("ASGD", "lambd", o.lambd, 0, kInfinity);
  check_range("ASGD", "alpha", o.alpha, 0, kInfinity);
  check_range("ASGD", "t0", o.t0, 0, kInfinity);
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

}  // namespace tapegrad::optim
