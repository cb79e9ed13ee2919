// Work around the factorizations of libraries. A batch of matrices [m, n], stored by columns, is a
// contiguous float32 or float64 tensor [batch, n, m].
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Returns the address of each matrix (or vector) of a batch, in device memory, for cuBLAS's and
/// cuSOLVER's functions with arrays of pointers.
Tensor addresses_of(const Tensor& batch);
template <typename T>
T** pointers(const Tensor& addresses) {
  return reinterpret_cast<T**>(addresses.data<int64_t>());
}

/// Views the batch of transposed matrices.
Tensor transposed(const Tensor& batch);
/// Views the first columns of each matrix.
Tensor first_columns(const Tensor& batch, int64_t count);

/// Sets the elements above the diagonal of Cholesky factors to 0. Sets info [batch] to the first
/// column, from 1, whose diagonal element is not positive, where info is 0.
void finish_cholesky(Tensor& factors, Tensor& info);

/// Replaces matrices that are not finite by zeros, because libraries do not promise to return from
/// such matrices. Returns int32 [batch]: -1 for each such matrix, else 0. If `lower`, only elements
/// on and below the diagonal count.
Tensor set_aside_non_finite(Tensor& batch, bool lower);
/// Replaces info [batch] where a verdict of set_aside_non_finite() is not 0.
void add_verdicts(const Tensor& verdicts, Tensor& info);

/// Sets each matrix to ones on the diagonal and zeros elsewhere. Accepts an empty handle.
void set_identity(Tensor& batch);

/// The kernel of ops/internal/exchanged_rows.h.
void exchanged_rows(const Tensor& with, Tensor& rows);

}  // namespace tapegrad::backends::cuda
