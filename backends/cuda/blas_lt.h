// Matrix products that do on the way what would be passes over their operands: cuBLASLt's
// epilogues.
#pragma once

#include "backends/cuda/blas.h"

namespace tapegrad::backends::cuda {

/// Of c = a b. Numbers have c's type; nothing is done where there is null or false.
struct Epilogue {
  const void* bias = nullptr;     // n numbers, added to every row of c
  bool relu = false;              // then max(c, 0)
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

/// Whether its max(c, 0) is NaN where c is, as ours: tried once for each device and type, which
/// waits for the device; false as long as a graph is recorded before.
bool relu_keeps_nan(const Tensor& where);

}  // namespace tapegrad::backends::cuda
