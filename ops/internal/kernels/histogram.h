// histc() in one pass, for devices with such a kernel.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// Counts the elements of a contiguous x in each of counts.numel() equal parts of [min, max],
/// min < max, which are scalars of float64. Element e is in part floor((e - min) * (parts / (max -
/// min))), and max in the last part. Elements outside and NaN are not counted. counts is int64.
extern Kernel<void(const Tensor& x, const Tensor& min, const Tensor& max, Tensor& counts)>
    histogram;

}  // namespace tapegrad::kernels
