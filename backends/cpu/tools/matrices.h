// Matrices in the last two dimensions of tensors.
#pragma once

#include "backends/cpu/tools/gemm.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

/// Returns x, or a contiguous copy if gemm() does not accept the layout of its last two dimensions.
inline Tensor plain(const Tensor& x) {
  const int r = x.rank();
  return is_plain(x.shape()[r - 2], x.shape()[r - 1], x.strides()[r - 2], x.strides()[r - 1])
             ? x
             : x.clone();
}

/// Returns the layout of plain(x), without its data.
template <typename T>
Matrix<T> plain_layout(const Tensor& x) {
  const int r = x.rank();
  const int64_t rows = x.shape()[r - 2], columns = x.shape()[r - 1];
  const int64_t row = x.strides()[r - 2], column = x.strides()[r - 1];
  if (is_plain(rows, columns, row, column)) return {nullptr, row, column};
  return {nullptr, columns, 1};
}
template <typename T>
Matrix<T> transposed(const Matrix<T>& x) {
  return {x.data, x.column, x.row};
}

template <typename T>
Matrix<T> matrix(const Tensor& x, int64_t offset = 0) {
  return {x.data<T>() + offset, x.strides()[x.rank() - 2], x.strides()[x.rank() - 1]};
}

/// Returns the offset of matrix `index` of the batch.
inline int64_t batch_offset(const Tensor& x, int64_t index) {
  int64_t offset = 0;
  for (int dim = x.rank() - 3; dim >= 0; --dim) {
    offset += index % x.shape()[dim] * x.strides()[dim];
    index /= x.shape()[dim];
  }
  return offset;
}

/// Returns the distance of neighbouring matrices of the batch; 0 if it varies, and for repeated
/// matrices.
inline int64_t batch_step(const Tensor& x) {
  int64_t step = 0, count = 1;  // of the dimensions so far
  for (int dim = x.rank() - 3; dim >= 0; --dim) {
    if (x.shape()[dim] == 1) continue;
    if (count == 1)
      step = x.strides()[dim];
    else if (x.strides()[dim] != step * count)
      return 0;
    count *= x.shape()[dim];
  }
  return step;
}

}  // namespace tapegrad::backends::cpu
