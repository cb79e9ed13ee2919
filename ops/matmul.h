// Matrix products.
#pragma once

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// NumPy's matmul. Two vectors give their dot product; a vector is taken as a row at the left and
/// as a column at the right; further dimensions in front are batches and broadcast. ShapeError when
/// the inner sizes differ. float32 and bfloat16 by oneDNN, float64 by OpenBLAS, float16 through
/// float.
Variable matmul(const Variable& a, const Variable& b, Where where = Where::current());

/// [m, k] x [k, n] -> [m, n].
Variable mm(const Variable& a, const Variable& b, Where where = Where::current());
/// [b, m, k] x [b, k, n] -> [b, m, n].
Variable bmm(const Variable& a, const Variable& b, Where where = Where::current());
/// [n] . [n] -> [].
Variable dot(const Variable& a, const Variable& b, Where where = Where::current());
/// [m] x [n] -> [m, n].
Variable outer(const Variable& a, const Variable& b, Where where = Where::current());

/// How exactly products of float32 matrices are computed, as torch.set_float32_matmul_precision has
/// it: matmul, linear and what is made of them, attention and recurrent networks too. A backward
/// pass goes by the setting of its own moment. Sums are float32 always.
///
///   kHighest  in float32.
///   kHigh     on a GPU in TF32, which keeps 10 of 23 bits of a mantissa, convolutions included; on
///             the CPU as kHighest.
///   kMedium   on a GPU as kHigh. On the CPU operands may be rounded to bfloat16, which keeps 7
///             bits, where the processor multiplies that faster (AVX512-BF16 or AMX); elsewhere
///             as kHighest.
enum class MatmulPrecision { kHighest, kHigh, kMedium };
/// For the whole process; kHighest at the start.
void set_matmul_precision(MatmulPrecision precision);
MatmulPrecision matmul_precision();

namespace kernels {

/// y = a b for every matrix of a batch: [..., m, k] x [..., k, n] -> [..., m, n], the dimensions in
/// front equal (they may have stride 0).
extern Kernel<void(const Tensor& a, const Tensor& b, Tensor& y)> matmul;

}  // namespace kernels

}  // namespace tapegrad
