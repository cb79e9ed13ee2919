#include "ops/update.h"

namespace tapegrad {

int64_t ParamUpdates::bytes() const {
  const auto bytes_of = [](const Tensor& x) { return x.numel() * size_of(x.dtype()); };
  int64_t sum = 0;
  for (const ParamUpdate& update : list) {
    sum += bytes_of(update.param) + bytes_of(update.grad);
    for (const Tensor& state : update.state) sum += bytes_of(state);
  }
  return sum;
}

}  // namespace tapegrad

namespace tapegrad::kernels {

constinit Kernel<void(const ParamUpdates&, const SgdStep&, const StepGuard&)> sgd_step{"sgd_step"};
constinit Kernel<void(const ParamUpdates&, const AdamStep&, const StepGuard&)> adam_step{
    "adam_step"};
constinit Kernel<void(const ParamUpdates&, const AdagradStep&, const StepGuard&)> adagrad_step{
    "adagrad_step"};
constinit Kernel<void(const ParamUpdates&, const RmspropStep&, const StepGuard&)> rmsprop_step{
    "rmsprop_step"};
constinit Kernel<void(const ParamUpdates&, const AdadeltaStep&, const StepGuard&)> adadelta_step{
    "adadelta_step"};

constinit Kernel<void(const Gradients&, const Tensor&, Tensor&)> unscale{"unscale"};
constinit Kernel<void(Tensor&, Tensor&, const Tensor&, const ScaleRule&)> update_scale{
    "update_scale"};

}  // namespace tapegrad::kernels
