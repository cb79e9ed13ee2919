// Triangular systems by cuBLAS.
#pragma once

#include "core/base/tensor.h"
#include "ops/linalg.h"

namespace tapegrad::backends::cuda {

/// Computes kernels::triangular_solve. Returns false, and changes nothing, if a size exceeds
/// cuBLAS's limit of 2^31. T is float or double.
template <typename T>
bool solve_triangle(const Tensor& a, kernels::Triangle triangle, Tensor& b);

}  // namespace tapegrad::backends::cuda
