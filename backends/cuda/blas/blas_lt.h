// Matrix products that do on the way what would be passes over their operands: cuBLASLt's
// epilogues.
#pragma once

#include "backends/cuda/blas/blas.h"

namespace tapegrad::backends::cuda {

/// Of c = a b. Numbers have c's type; nothing is done where there is null or false.
struct Epilogue {
  const void* bias = nullptr;     // n numbers, added to every row of c
  bool relu = false;              // then max(c, 0), and
  void* relu_mask = nullptr;      // where it was c is written here: m rows of mask_bytes(n)
  const void* relu_at = nullptr;  // or then 0 but where such a mask says
  bool gelu = false;              // or then gelu(c) by its tanh formula, and
  void* before_gelu = nullptr;    // what it was taken of is written here, lying as c
  const void* gelu_at = nullptr;  // or then c times the gradient of gelu at these, lying as c
  void* row_sums = nullptr;       // the m sums of a's rows are written here; without the others
};

/// gemm() for one product that does not accumulate. False, with nothing done, where cuBLASLt is not
/// there or knows no way: of float64, and of operands that do not lie at multiples of 16 bytes,
/// say. Nor is there a gelu of float32 unless it may be TF32: cuBLASLt's tanh has an error of some
/// 1e-6.
bool gemm_with(const Epilogue& epilogue, const Product& p, const Matrices& a, const Matrices& b,
               void* c, int64_t ldc, const Tensor& where);

/// A row of n bits, in a form that only cuBLASLt knows.
constexpr int64_t mask_bytes(int64_t n) { return (n + 127) / 128 * 16; }

/// What its ReLU does where it is said nowhere: tried once for each device and type, which waits
/// for the device; all false as long as a graph is recorded before.
struct ReluOfCublasLt {
  bool keeps_nan = false;      // max(c, 0) is NaN where c is, as ours
  bool masks_as_ours = false;  // and its mask lets a gradient through there, and not where c is 0
};
ReluOfCublasLt relu_of_cublas_lt(const Tensor& where);

}  // namespace tapegrad::backends::cuda
