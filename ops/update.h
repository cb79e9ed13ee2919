// Optimizer steps. Each step overwrites parameters and their optimizer state in one pass over
// memory; a GPU updates many parameters at once. Not recorded; the caller bumps the parameters'
// versions.
#pragma once

#include <span>
#include <vector>

#include "core/base/host_device.h"
#include "core/dispatch/dispatcher.h"

namespace tapegrad {

/// The operands of a step for one parameter. All tensors are contiguous. State tensors have the
/// shape of the parameter and the dtype in which the step is computed: float32 for sixteen-bit
/// parameters, otherwise the parameter's dtype.
struct ParamUpdate {
  Tensor param, grad;       // same dtype
  std::span<Tensor> state;  // in the order of the formula; an unused tensor is empty
  int64_t t;                // number of this step of the parameter, from 1
};

class OwnedUpdates;

/// Updates of at least one parameter. All parameters have the same device and dtype.
struct ParamUpdates {
  using ByValue = OwnedUpdates;  // core/dispatch/recorded_call.h

  std::vector<ParamUpdate> list;

  Device device() const { return list.front().param.device(); }
  DType dtype() const { return list.front().param.dtype(); }
  int64_t bytes() const;  // total size
};

/// ParamUpdates that owns its lists of state tensors.
class OwnedUpdates {
 public:
  OwnedUpdates(const ParamUpdates& updates) : updates_(updates) {
    states_.reserve(updates.list.size());
    for (ParamUpdate& update : updates_.list)
      update.state = states_.emplace_back(update.state.begin(), update.state.end());
  }
  OwnedUpdates(const OwnedUpdates&) = delete;
  OwnedUpdates& operator=(const OwnedUpdates&) = delete;

  operator const ParamUpdates&() const { return updates_; }
  Device device() const { return updates_.device(); }
  DType dtype() const { return updates_.dtype(); }

  template <typename Visit>
  void each_tensor(const Visit& visit) {
    for (ParamUpdate& update : updates_.list) {
      visit(update.param, true);
      visit(update.grad, false);
      for (Tensor& state : update.state) visit(state, true);
    }
  }
  void take_numbers(const ParamUpdates& other) {
    for (size_t i = 0; i < updates_.list.size(); ++i) updates_.list[i].t = other.list[i].t;
  }

 private:
  ParamUpdates updates_;
  std::vector<std::vector<Tensor>> states_;
};

/// Gradients, at least one. All are contiguous and have the same device and dtype.
struct Gradients {
  std::vector<Tensor> list;

  Device device() const { return list.front().device(); }
  DType dtype() const { return list.front().dtype(); }
  template <typename Visit>
  void each_tensor(const Visit& visit) {
    for (Tensor& gradient : list) visit(gradient, true);
  }
};

/// A condition that the device evaluates. If empty, the step is always made.
struct StepGuard {
  Tensor found_inf;  // bool; true skips the step
  Tensor skipped;    // int64; number of earlier steps that were skipped

  template <typename Visit>
  void each_tensor(const Visit& visit) {
    visit(found_inf, false);
    visit(skipped, false);
  }
};

/// Returns base^t by multiplications only, because std::pow gives other bits on a GPU.
TG_HD inline double power(double base, int64_t t) {
  double result = 1;
  for (; t > 0; t /= 2, base *= base)
    if (t % 2 == 1) result *= base;
  return result;
}

// A mean of gradients (b, m and a below) that would become subnormal becomes 0. If gradients stay
// 0, it would otherwise remain subnormal, and some processors take 15 times as long for subnormal
// numbers.

/// Stochastic gradient descent. g += weight_decay p; b = momentum b + (1 - dampening) g (initially
/// b = g); p -= lr (nesterov ? g + momentum b : b). Without momentum p -= lr g.
struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
};

/// Adam (Kingma and Ba 2014). m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; p -= lr /
/// correction1 m / (sqrt(v / correction2) + eps), where correction = 1 - beta^t. AMSGrad (if vmax
/// is given) uses vmax = max(vmax, v) in place of v. weight_decay is added to g, or, if decoupled
/// (AdamW), p *= 1 - lr weight_decay. If eps_of_sum (SparseAdam), eps is added to sqrt(v) before
/// the correction: (sqrt(v) + eps) / sqrt(correction2) is the divisor.
struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled, eps_of_sum;
};

/// Adagrad (Duchi et al. 2011). g += weight_decay p; s += g^2; p -= r g / (sqrt(s) + eps), where r
/// = lr / (1 + (t - 1) lr_decay).
struct AdagradStep {
  double lr, lr_decay, eps, weight_decay;
};

/// RMSprop (Hinton, lecture 6). s = alpha s + (1 - alpha) g^2; if centered, a = alpha a + (1 -
/// alpha) g; u = g / (sqrt(s - a^2) + eps); with momentum b = momentum b + u, p -= lr b, otherwise
/// p -= lr u.
struct RmspropStep {
  double lr, alpha, eps, weight_decay, momentum;
};

/// Adadelta (Zeiler 2012). s = rho s + (1 - rho) g^2; u = g sqrt(d + eps) / sqrt(s + eps); d = rho
/// d + (1 - rho) u^2; p -= lr u.
struct AdadeltaStep {
  double lr, rho, eps, weight_decay;
};

/// NAdam (Dozat 2016). m and v as Adam's; p -= lr (1 - u(t)) / (1 - U) g / d + lr u(t + 1) / (1 - U
/// u(t + 1)) m / d, where d = sqrt(v / correction2) + eps, u(t) = beta1 (1 - 0.5 decay^t) and U is
/// the product of u(1) ... u(t).
struct NadamStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;
  double decay;  // 0.96^momentum_decay
};

/// RAdam (Liu et al. 2019). m and v as Adam's; p -= lr m / correction1 r sqrt(correction2) /
/// (sqrt(v) + eps), where r makes the variance of the rate constant; p -= lr m / correction1 as
/// long as the variance is not known.
struct RadamStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;
};

/// Adamax (Kingma and Ba 2014). m as Adam's; u = max(beta2 u, |g| + eps); p -= lr / correction1 m /
/// u.
struct AdamaxStep {
  double lr, beta1, beta2, eps, weight_decay;
};

/// Rprop (Riedmiller and Braun 1993). s, initially lr, is multiplied by `grow` where g has the sign
/// of the last gradient, by `shrink` where it has the other sign, and kept in [least, most]; where
/// it shrinks, g = 0; p -= sign(g) s.
struct RpropStep {
  double shrink, grow, least, most;
};

/// Averaged gradient descent (Polyak and Juditsky 1992). g += weight_decay p; p = p (1 - lambd r) -
/// r g, where r = lr / (1 + lambd lr (t - 1))^alpha; a += (p - a) / max(1, t - 1 - t0).
struct AsgdStep {
  double lr, lambd, alpha, t0, weight_decay;
};

namespace kernels {

extern Kernel<void(const ParamUpdates&, const SgdStep&, const StepGuard&)> sgd_step;  // b
extern Kernel<void(const ParamUpdates&, const AdamStep&, const StepGuard&)>
    adam_step;  // m, v, vmax
extern Kernel<void(const ParamUpdates&, const AdagradStep&, const StepGuard&)> adagrad_step;  // s
extern Kernel<void(const ParamUpdates&, const RmspropStep&, const StepGuard&)>
    rmsprop_step;  // s, a, b
extern Kernel<void(const ParamUpdates&, const AdadeltaStep&, const StepGuard&)>
    adadelta_step;                                                                          // s, d
extern Kernel<void(const ParamUpdates&, const NadamStep&, const StepGuard&)> nadam_step;    // m, v
extern Kernel<void(const ParamUpdates&, const RadamStep&, const StepGuard&)> radam_step;    // m, v
extern Kernel<void(const ParamUpdates&, const AdamaxStep&, const StepGuard&)> adamax_step;  // m, u
extern Kernel<void(const ParamUpdates&, const RpropStep&, const StepGuard&)>
    rprop_step;  // the last g, s
extern Kernel<void(const ParamUpdates&, const AsgdStep&, const StepGuard&)> asgd_step;  // a

/// Divides the gradients of a scaled loss by *scale (float64), and sets *found_inf (bool) if a
/// gradient is not finite.
extern Kernel<void(const Gradients&, const Tensor& scale, Tensor& found_inf)> unscale;
/// Update of the loss scale. It is multiplied by backoff after a gradient that is not finite, and
/// by growth after `interval` steps without one, unless the result exceeds float32. The scale stays
/// a normal float32, so that it can grow again after any number of steps.
struct ScaleRule {
  double growth, backoff;
  int64_t interval;
};
TG_HD inline void next_scale(double& scale, int64_t& tracker, bool found_inf,
                             const ScaleRule& rule) {
  if (found_inf) {
    scale = scale * rule.backoff < 0x1p-126 ? 0x1p-126 : scale * rule.backoff;
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
