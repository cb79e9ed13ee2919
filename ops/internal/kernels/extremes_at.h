// Kernels of the gradient of scatter_reduce() with amax and amin. `source` is contiguous and has
// the shape of the index, or, where the device has index_copy (index_copy.h), an index vector along
// dim stands for all slices. The tensors with the values of places have one layout.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// Adds 1 to the count of a place for each element of source at its index that equals the extreme.
extern Kernel<void(const Tensor& source, const Tensor& extremes, const Tensor& index, int dim,
                   Tensor& counts)>
    count_extremes;
/// Computes dx = share at the place of the index where source equals the extreme, else 0 * share.
extern Kernel<void(const Tensor& source, const Tensor& extremes, const Tensor& share,
                   const Tensor& index, int dim, Tensor& dx)>
    share_extremes;

}  // namespace tapegrad::kernels
