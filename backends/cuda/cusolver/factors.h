// The kernels of ops/linalg.h and ops/linalg_factor.h by cuSOLVER, and by cuBLAS where cuSOLVER has
// no function for a batch. Each returns false, and has changed nothing, if the library is missing
// or does not take the operands. T is float or double.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda::cusolver {

template <typename T>
bool lu_factor(Tensor& a, Tensor& pivots, Tensor& info);
template <typename T>
bool lu_solve(const Tensor& lu, const Tensor& pivots, bool transposed, Tensor& b);
template <typename T>
bool cholesky(Tensor& a, Tensor& info);

template <typename T>
bool qr_factor(Tensor& a, Tensor& scales);
template <typename T>
bool qr_form(Tensor& q, const Tensor& scales);
template <typename T>
bool svd(Tensor& a, Tensor& u, Tensor& s, Tensor& vh, Tensor& info);
template <typename T>
bool eigh(Tensor& a, bool vectors, Tensor& values, Tensor& info);

}  // namespace tapegrad::backends::cuda::cusolver
