// Tensors as matrices for cuBLAS.
#pragma once

#include <algorithm>

#include "backends/cuda/blas/blas.h"

namespace tapegrad::backends::cuda {

/// Returns whether cuBLAS can read the last two dimensions: one stride is 1, and with the other
/// nothing overlaps.
inline bool is_plain(const Tensor& x) {
  const int r = x.rank();
  const int64_t rows = x.shape()[r - 2], columns = x.shape()[r - 1];
  const int64_t row = x.strides()[r - 2], column = x.strides()[r - 1];
  const bool by_rows = (column == 1 || columns <= 1) && (row >= columns || rows <= 1);
  const bool by_columns = (row == 1 || rows <= 1) && (column >= rows || columns <= 1);
  return by_rows || by_columns;
}
inline Tensor plain(const Tensor& x) { return is_plain(x) ? x : x.clone(); }

/// Describes a tensor as matrices for cuBLAS. The stride of a dimension of size 1 is ignored.
inline Matrices matrices_of(const Tensor& x, int64_t offset, int64_t step) {
  const int r = x.rank();
  const int64_t rows = x.shape()[r - 2], columns = x.shape()[r - 1];
  const int64_t row = x.strides()[r - 2], column = x.strides()[r - 1];
  const void* data = x.storage().data() + (x.layout().offset + offset) * size_of(x.dtype());
  const bool by_rows = (column == 1 || columns <= 1) && (row >= columns || rows <= 1);
  if (by_rows) return {data, false, rows <= 1 ? std::max<int64_t>(columns, 1) : row, step};
  return {data, true, columns <= 1 ? std::max<int64_t>(rows, 1) : column, step};
}

inline Matrices transposed(Matrices x) {
  x.transposed = !x.transposed;
  return x;
}

}  // namespace tapegrad::backends::cuda
