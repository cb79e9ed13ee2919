// Kernels that clip many gradients. Only devices on which many small kernels are slow have these
// kernels; on other devices optim/clip.cpp calls ops for each gradient.
#pragma once

#include "ops/update.h"

namespace tapegrad::kernels {

/// total (float64, rank 0) += the sum of |g|^p over all elements, computed in float64; for infinite
/// p, total = max(total, the largest |g|), or NaN if an element is NaN.
extern Kernel<void(const Gradients& gradients, double p, Tensor& total)> add_powers;
/// g *= factor for every gradient; factor is float64 of rank 0, rounded to the type of computation.
extern Kernel<void(const Gradients& gradients, const Tensor& factor)> scale_gradients;
/// Clamps every gradient to [-limit, limit]; NaN stays NaN. limit is rounded to the type of
/// computation.
extern Kernel<void(const Gradients& gradients, double limit)> clamp_gradients;

}  // namespace tapegrad::kernels
