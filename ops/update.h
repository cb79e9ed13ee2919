// Steps of optimizers: each overwrites a parameter and its optimizer state in one pass over memory.
// No autograd; the caller bumps the parameter's version.
//
// param and grad are contiguous and of one dtype. State tensors are contiguous, of the same shape,
// and of the type the step is computed in: float32 for sixteen-bit parameters, else the
// parameter's. One that an option leaves out is empty.
#pragma once

#include "core/dispatcher.h"

namespace tapegrad {

/// g += weight_decay p; b = momentum b + (1 - dampening) g (at first b = g);
/// p -= lr (nesterov ? g + momentum b : b), without momentum p -= lr g.
struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, first;
};

/// Kingma and Ba 2014. m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// p -= lr / correction1 m / (sqrt(v / correction2) + eps), with AMSGrad (a vmax) max(vmax, v) for
/// v. correction = 1 - beta^t. weight_decay adds to g, or, decoupled (AdamW), p *= 1 - lr
/// weight_decay.
struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay, correction1, correction2;
  bool decoupled;
};

/// Duchi et al. 2011. g += weight_decay p; s += g^2; p -= lr g / (sqrt(s) + eps).
struct AdagradStep {
  double lr, eps, weight_decay;
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

extern Kernel<void(Tensor& param, const Tensor& grad, Tensor& buffer, const SgdStep&)> sgd_step;
extern Kernel<void(Tensor& param, const Tensor& grad, Tensor& m, Tensor& v, Tensor& vmax,
                   const AdamStep&)>
    adam_step;
extern Kernel<void(Tensor& param, const Tensor& grad, Tensor& sum, const AdagradStep&)>
    adagrad_step;
extern Kernel<void(Tensor& param, const Tensor& grad, Tensor& square, Tensor& average,
                   Tensor& buffer, const RmspropStep&)>
    rmsprop_step;
extern Kernel<void(Tensor& param, const Tensor& grad, Tensor& square, Tensor& delta,
                   const AdadeltaStep&)>
    adadelta_step;

}  // namespace kernels

}  // namespace tapegrad
