// Kernels of ops/scatter.h and of writes at an index that no public header declares.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

// Writes of slices at an index. On devices without these kernels, scatter() and scatter_add() write
// element by element.

/// Computes y[index[i]] = source[i] along dim; of equal indices the last one remains. y and index
/// (int64) are contiguous. source is contiguous and has y's shape except along dim, or is one
/// number.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Tensor& y)> index_copy;
/// Computes y[index[i]] += source[i] along dim, in the order of i.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Tensor& y)> index_accumulate;

// The gradient of scatter_reduce() with amax and amin. `source` is contiguous and has the shape of
// the index, or, where the device has index_copy, an index vector along dim stands for all slices.
// The tensors with the values of places have one layout.

/// Adds 1 to the count of a place for each element of source at its index that equals the extreme.
extern Kernel<void(const Tensor& source, const Tensor& extremes, const Tensor& index, int dim,
                   Tensor& counts)>
    count_extremes;
/// Computes dx = share at the place of the index where source equals the extreme, else 0 * share.
extern Kernel<void(const Tensor& source, const Tensor& extremes, const Tensor& share,
                   const Tensor& index, int dim, Tensor& dx)>
    share_extremes;

// Indices of nonzero elements. On devices without this kernel, the op composes divisions.

/// Computes places[i] = the indices of element positions[i] of a tensor of this shape, one for each
/// dimension. positions (int64) are ascending; places is int64 [positions, dimensions].
extern Kernel<void(const Tensor& positions, const Shape& shape, Tensor& places)> places_of;

}  // namespace tapegrad::kernels
