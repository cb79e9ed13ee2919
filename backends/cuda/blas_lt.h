// Matrix products that do on the way what would be passes over their operands: cuBLASLt's
// epilogues.
#pragma once

#include "backends/cuda/blas.h"

namespace tapegrad::backends::cuda {

/// Of c = a b. Numbers have c's type; nothing is done where there is null or false.
struct Epilogue {
  const void* bias = nullptr;  // n numbers, added to every row of c
  bool relu = false;           // then max(c, 0)
  void* row_sums = nullptr;    // the m sums of a's rows are written here; without the other two
};

/// gemm() for one product that does not accumulate. False, with nothing done, where cuBLASLt is not
/// there or knows no way: of float64, and of operands that do not lie at multiples of 16 bytes,
/// say.
bool gemm_with(const Epilogue& epilogue, const Product& p, const Matrices& a, const Matrices& b,
               void* c, int64_t ldc, const Tensor& where);

}  // namespace tapegrad::backends::cuda
