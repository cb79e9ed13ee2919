// Distances between all pairs of rows without stored differences. There is no fallback: the op
// composes other kernels if none of these accepts the operands.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// Computes y[b, i, j] = the p-norm of x1[b, i] - x2[b, j] for p = 1, 2 or inf. Tensors are
/// contiguous and not empty.
extern Kernel<void(const Tensor& x1, const Tensor& x2, double p, Tensor& y)> cdist;
/// Computes the gradient of x1, for p = 1 or 2. dy and y may have any strides: transposed, and with
/// x1 and x2 exchanged, they give the gradient of x2.
extern Kernel<void(const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& y, double p,
                   Tensor& dx1)>
    cdist_backward;

}  // namespace tapegrad::kernels
