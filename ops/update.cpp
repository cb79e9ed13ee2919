#include "ops/update.h"

#include "ops/internal/kernels/many_gradients.h"

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

constinit decltype(sgd_step) sgd_step{"sgd_step"};
constinit decltype(adam_step) adam_step{"adam_step"};
constinit decltype(adagrad_step) adagrad_step{"adagrad_step"};
constinit decltype(rmsprop_step) rmsprop_step{"rmsprop_step"};
constinit decltype(adadelta_step) adadelta_step{"adadelta_step"};
constinit decltype(nadam_step) nadam_step{"nadam_step"};
constinit decltype(radam_step) radam_step{"radam_step"};
constinit decltype(adamax_step) adamax_step{"adamax_step"};
constinit decltype(rprop_step) rprop_step{"rprop_step"};
constinit decltype(asgd_step) asgd_step{"asgd_step"};

constinit decltype(unscale) unscale{"unscale"};
constinit decltype(update_scale) update_scale{"update_scale"};
constinit decltype(add_powers) add_powers{"add_powers"};
constinit decltype(scale_gradients) scale_gradients{"scale_gradients"};
constinit decltype(clamp_gradients) clamp_gradients{"clamp_gradients"};

}  // namespace tapegrad::kernels
