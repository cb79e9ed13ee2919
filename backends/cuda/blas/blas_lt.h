// Matrix products with epilogues by cuBLASLt, which save separate passes over the operands.
#pragma once

#include "backends/cuda/blas/blas.h"

namespace tapegrad::backends::cuda {

/// Epilogue of c = a b. Numbers have c's type; null or false disables a part. The activations
/// exclude one another.
struct Epilogue {
  const void* bias = nullptr;  // n numbers, added to every row of c
  bool relu = false;           // c = max(c, 0)
  void* relu_mask = nullptr;   // output: where c was positive, for `relu`; m rows of mask_bytes(n)
  const void* relu_at = nullptr;  // c = 0 except where this mask of a `relu` allows
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
bool gemm_with(const Epilogue& epilogue, const Product& p, const Matrices& a, const Matrices& b,
               void* c, int64_t ldc, const Tensor& where);

/// Bytes of a mask row of n bits, in cuBLASLt's internal format.
constexpr int64_t mask_bytes(int64_t n) { return (n + 127) / 128 * 16; }

/// Undocumented behaviour of cuBLASLt's ReLU. Tested once for each device and type, which waits for
/// the device; all members are false while a graph is recorded before the test.
struct ReluOfCublasLt {
  bool keeps_nan = false;      // whether max(c, 0) of NaN is NaN, as in our ReLU
  bool masks_as_ours = false;  // whether the mask passes a gradient at NaN and blocks it at c = 0,
                               // as ours
};
ReluOfCublasLt relu_of_cublas_lt(const Tensor& where);

}  // namespace tapegrad::backends::cuda
