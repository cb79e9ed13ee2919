// Kernels that write slices to the places of an index. On devices without these, scatter() and
// scatter_add() write element by element.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// Computes y[index[i]] = source[i] along dim; of equal indices the last one remains. y and index
/// (int64) are contiguous. source is contiguous and has y's shape except along dim, or is one
/// number.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Tensor& y)> index_copy;
/// Computes y[index[i]] += source[i] along dim, in the order of i.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Tensor& y)> index_accumulate;

}  // namespace tapegrad::kernels
