// Matrix products with epilogues by cuBLASLt, which save separate passes over the operands.
#pragma once

#include "backends/cuda/blas/blas.h"

namespace tapegrad::backends::cuda {

/// Epilogue of c = a b. Numbers have c's type; null or false disables a part. The activations
/// exclude one another.
struct LtEpilogue {
  const void* bias = nullptr;     // n numbers, added to every row of c
  bool relu = false;              // c = max(c, 0)
  bool gelu = false;              // c = gelu(c) by the tanh formula
  void* before_gelu = nullptr;    // output: the argument of `gelu`, with c's layout
  const void* gelu_at = nullptr;  // c times the gradient of gelu at these values, which have c's
                                  // layout
  void* row_sums = nullptr;       // output: the sums of a's m rows; excludes all other parts
};

/// gemm() with an epilogue, for one product that does not accumulate. Returns false, with nothing
/// done, if cuBLASLt is missing or has no implementation, for example for float64 or for operands
/// that are not aligned to 16 bytes. A float32 gelu is available only if TF32 is allowed, because
/// cuBLASLt's tanh has an error of about 1e-6.
bool gemm_with(const LtEpilogue& epilogue, const Product& p, const Matrices& a, const Matrices& b,
               void* c, int64_t ldc, const Tensor& where);

/// Returns whether cuBLASLt's ReLU of NaN is NaN, as ours is, which is not documented. Tested once
/// for each device and type, which waits for the device; false while a graph is recorded before the
/// test.
bool relu_of_cublas_lt_keeps_nan(const Tensor& where);

}  // namespace tapegrad::backends::cuda
