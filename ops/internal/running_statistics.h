// The kernel that updates the running statistics of normalization layers.
#pragma once

#include "core/base/host_device.h"
#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// Moves running statistics, of any float dtype, towards a batch's mean and correction * var:
/// running = (1 - momentum) * running + momentum * batch. mean and var are float32 or float64. All
/// tensors are contiguous.
extern Kernel<void(Tensor& running_mean, Tensor& running_var, const Tensor& mean, const Tensor& var,
                   double momentum, double correction)>
    move_statistics;

/// Computes one element of move_statistics.
template <typename V>
TG_HD V move_statistic(V running, V batch, double momentum) {
  return running * V(1 - momentum) + batch * V(momentum);
}

}  // namespace tapegrad::kernels
