// Reductions in one pass. On devices without these kernels, the ops compose other kernels.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

// y has x's rank, with size 1 in reduced dimensions.

/// Computes the sum of the elements that are not NaN.
extern Kernel<void(const Tensor& x, Tensor& y)> nansum;
/// Computes the number of elements that are not 0. y is int64.
extern Kernel<void(const Tensor& x, Tensor& y)> count_nonzero;
/// Computes the gradient of the largest or smallest elements y of x along n: dx = dy / count, where
/// count elements of x equal y, and 0 elsewhere. All tensors are contiguous. x and dx are
/// [outer, n, inner], y and dy [outer, 1, inner].
extern Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& y, Tensor& dx)>
    extreme_backward;
/// Computes the sums of a * b without memory for the products, each of which is rounded to the
/// dtype. a and b have one shape and one dtype; broadcast operands have strides of 0.
extern Kernel<void(const Tensor& a, const Tensor& b, Tensor& y)> sum_of_products;

}  // namespace tapegrad::kernels
