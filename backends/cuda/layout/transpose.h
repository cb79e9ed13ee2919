// Transposition of matrices by tiles.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Writes y [batch, columns, rows], the transpose of x [batch, rows, columns], with elements of 1,
/// 2, 4 or 8 bytes, in the current stream of the device.
void transpose(const std::byte* x, std::byte* y, int64_t batch, int64_t rows, int64_t columns,
               int64_t element, tapegrad::Device device);

/// Copies x to y in tiles if elements that are adjacent in x are not adjacent in y. y has the shape
/// and dtype of x and does not overlap x. Returns false, without copying, if tiles do not help.
bool copy_transposed(const Tensor& x, Tensor& y);

}  // namespace tapegrad::backends::cuda
