// Kernels of embedding_bag, which read each row of the weight once. There is no fallback: the op
// composes other kernels on devices without these.
#pragma once

#include <string_view>

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

// Bag b has the ids [bounds[b], bounds[b + 1]); ids past the last bound belong to no bag. Tensors
// are contiguous. ids and bounds are int64 and have been checked. factors, of the dtype of y or dy,
// may be empty, which means 1.

/// Computes y[b] = the sum of weight[id] * factor. y is float32, or float64 for a float64 weight.
extern Kernel<void(const Tensor& weight, const Tensor& ids, const Tensor& bounds,
                   const Tensor& factors, Tensor& y)>
    bag_sum;
/// The adjoint of bag_sum: dweight[id] = the sum of dy[b] * factor, of dy's dtype.
extern Kernel<void(const Tensor& dy, const Tensor& ids, const Tensor& bounds, const Tensor& factors,
                   Tensor& dweight)>
    bag_spread;
/// Computes rows[b, j] = the id of the first largest weight[id, j], where NaN is the largest; 0 for
/// a bag without ids.
extern Kernel<void(const Tensor& weight, const Tensor& ids, const Tensor& bounds, Tensor& rows)>
    bag_argmax;
/// Throws ArgumentError, naming op, unless the bounds begin at 0, never fall and are at most count.
extern Kernel<void(const Tensor& bounds, std::string_view op, int64_t count)> check_bounds;

}  // namespace tapegrad::kernels
