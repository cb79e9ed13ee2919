// The kernels that core itself needs: fill, copy and convert, accumulate, and copies between
// devices.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

extern Kernel<void(Tensor& y, Number value)> fill;

/// Computes y = x, where x broadcasts to y's shape. Both may be strided; their dtypes may differ.
extern Kernel<void(const Tensor& x, Tensor& y)> copy;

/// Computes y += x, where y broadcasts to x's shape: a y of size 1 along a dimension receives the
/// sum along the dimension; a y that overlaps itself receives every contribution.
extern Kernel<void(const Tensor& x, Tensor& y)> accumulate;

/// Computes y = x for contiguous tensors of one dtype on different devices. Either one device is
/// the CPU, or both have the same type. Registered for the device type that is not the CPU.
extern Kernel<void(const Tensor& x, Tensor& y)> transfer;

}  // namespace tapegrad::kernels
