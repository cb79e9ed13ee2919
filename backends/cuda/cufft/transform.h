// Fourier transforms by cuFFT.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda::cufft {

enum class Kind { kForward, kInverse, kRealToComplex, kComplexToReal };

/// Transforms contiguous tensors along the middle one of three dimensions, without a scale: complex
/// ones are [outer, n, 2 inner], real ones [outer, n, inner]. The result of kRealToComplex, and the
/// operand of kComplexToReal, has n / 2 + 1 frequencies; the latter may be overwritten. Returns
/// false, and has changed nothing, if the library is missing or has no plan for the operands.
bool transform(Kind kind, const Tensor& x, Tensor& y);

}  // namespace tapegrad::backends::cuda::cufft
