// Steps of optimizers: each overwrites parameters and their optimizer state in one pass over
// memory; a GPU does it for many parameters at once. No autograd; the caller bumps the parameters'
// versions.
#pragma once

#include <span>
#include <vector>

#include "core/base/host_device.h"
#include "core/dispatch/dispatcher.h"

namespace tapegrad {

/// What a step overwrites of one parameter, and by what. All are contiguous. State tensors have the
/// parameter's shape and the type the step is computed in: float32 for sixteen-bit parameters, else
/// the parameter's.
struct ParamUpdate {
  Tensor param, grad;       // of one dtype
  std::span<Tensor> state;  // in the order of the formula; one that an option leaves out is empty
  int64_t t;                // the number of the parameter's step, from 1
};

/// At least one parameter, all of one device and dtype.
struct ParamUpdates {
  std::vector<ParamUpdate> list;

  Device device() const { return list.front().param.device(); }
  DType dtype() const { return list.front().param.dtype(); }
  int64_t bytes() const;  // of all of them
};

/// At least one gradient, all contiguous and of one device and dtype.
struct Gradients {
  std::vector<Tensor> list;

  Device device() const { return list.front().device(); }
  DType dtype() const { return list.front().dtype(); }
};

/// Decides on the device whether a step is made; empty where it always is.
struct StepGuard {
  Tensor found_inf;  // bool: true leaves everything as it is
  Tensor skipped;    // int64: how many of the t steps of each were left out before
};

/// base^t by products alone: std::pow has other bits on a GPU.
TG_HD inline double power(double base, int64_t t) {
  double result = 1;
  for (; t > 0; t /= 2, base *= base)
    if (t % 2 == 1) result *= base;
  return result;
}

/// g += weight_decay p; b = momentum b + (1 - dampening) g (at first b = g);
/// p -= lr (nesterov ? g + momentum b : b), without momentum p -= lr g.
struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
};

/// Kingma and Ba 2014. m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// p -= lr / correction1 m / (sqrt(v / correction2) + eps), with AMSGrad (a vmax) max(vmax, v) for
/// v. correction = 1 - beta^t. weight_decay adds to g, or, decoupled (AdamW), p *= 1 - lr
/// weight_decay.
struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;
};

/// Duchi et al. 2011. g += weight_decay p; s += g^2; p -= r g / (sqrt(s) + eps), where
/// r = lr / (1 + (t - 1) lr_decay).
struct AdagradStep {
  double lr, lr_decay, eps, weight_decay;
};

/// Hinton's lecture 6. s = alpha s + (1 - alpha) g^2; centered a = alpha a + (1 - alpha) g;
/// u = g / (sqrt(s - a^2) + eps); with momentum b = momentum b + u, p -= lr b, else p -= lr u.
struct RmspropStep {
  double lr, alpha, eps, weight_decay, momentum;
};

/// Zeiler 2012. s = rho s + (1 - rho) g^2; u = g sqrt(d + eps) / sqrt(s + eps);
/// d = rho d + (1 - rho) u^2; p -= lr u.
struct AdadeltaStep {
  double lr, rho, eps, weight_decay;
};

namespace kernels {

extern Kernel<void(const ParamUpdates&, const SgdStep&, const StepGuard&)> sgd_step;  // b
extern Kernel<void(const ParamUpdates&, const AdamStep&, const StepGuard&)>
    adam_step;  // m, v, vmax
extern Kernel<void(const ParamUpdates&, const AdagradStep&, const StepGuard&)> adagrad_step;  // s
extern Kernel<void(const ParamUpdates&, const RmspropStep&, const StepGuard&)>
    rmsprop_step;  // s, a, b
extern Kernel<void(const ParamUpdates&, const AdadeltaStep&, const StepGuard&)>
    adadelta_step;  // s, d

/// For a loss that was scaled: gradients /= *scale (float64), and *found_inf (bool) becomes true
/// when one is not finite everywhere.
extern Kernel<void(const Gradients&, const Tensor& scale, Tensor& found_inf)> unscale;
/// How the scale moves after a step: back where a gradient was not finite; up after `interval`
/// steps without, unless that leaves float32.
struct ScaleRule {
  double growth, backoff;
  int64_t interval;
};
TG_HD inline void next_scale(double& scale, int64_t& tracker, bool found_inf,
                             const ScaleRule& rule) {
  if (found_inf) {
    scale *= rule.backoff;
    tracker = 0;
  } else if (++tracker == rule.interval) {
    if (scale * rule.growth <= 0x1.fffffep127) scale *= rule.growth;
    tracker = 0;
  }
}
extern Kernel<void(Tensor& scale, Tensor& tracker, const Tensor& found_inf, const ScaleRule&)>
    update_scale;

}  // namespace kernels

}  // namespace tapegrad
