// Kernels of group_norm. There is no fallback: the op composes other kernels on devices without
// these.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

// x [n, channels, size] is contiguous and not empty. mean and invstd have one entry for each
// example and group; they are float32, or float64 for float64 x. weight and bias [channels] have
// x's dtype and may be empty, and so may gradients that are not needed.

extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                   Tensor& mean, Tensor& invstd)>
    group_norm;
extern Kernel<void(const Tensor& x, const Tensor& dy, const Tensor& mean, const Tensor& invstd,
                   const Tensor& weight, Tensor& dx, Tensor& dweight, Tensor& dbias)>
    group_norm_backward;

}  // namespace tapegrad::kernels
