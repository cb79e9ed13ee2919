// Tensors viewed as matrices, and tensors that may be empty.
#pragma once

#include <utility>

#include "ops/view.h"

namespace tapegrad::detail {

inline Shape matrix_shape(const Shape& shape) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape[i];
  return {rows, shape[shape.rank() - 1]};
}

/// Returns [..., n] as [rows, n], and [n] as [1, n].
inline Tensor as_matrix(const Tensor& x) {
  if (x.rank() == 2) return x;
  const Shape shape = matrix_shape(x.shape());
  const Tensor source = x.contiguous();
  return source.with_layout(contiguous_layout(shape, source.layout().offset));
}
inline Variable as_matrix(const Variable& x, Where where = Where::current()) {
  return x.rank() == 2 ? x : reshape(x, matrix_shape(x.shape()), where);
}

inline Tensor contiguous_or_empty(const Tensor& x) { return x ? x.contiguous() : x; }

/// Returns each matrix [..., m, n] transposed, as a view.
inline Tensor transposed(const Tensor& x) {
  StridedLayout layout = x.layout();
  const int last = x.rank() - 1;
  std::swap(layout.shape[last - 1], layout.shape[last]);
  std::swap(layout.strides[last - 1], layout.strides[last]);
  return x.with_layout(layout);
}

}  // namespace tapegrad::detail
