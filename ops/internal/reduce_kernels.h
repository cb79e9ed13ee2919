// Reductions in one pass, where a device has them. The ops compose other kernels elsewhere.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

// y has x's rank, with size 1 in reduced dimensions.

/// The sum of the elements that are not NaN.
extern Kernel<void(const Tensor& x, Tensor& y)> nansum;
/// The number of elements that are not 0; y is int64.
extern Kernel<void(const Tensor& x, Tensor& y)> count_nonzero;

}  // namespace tapegrad::kernels
