// Matrix products.
#pragma once

#include "core/base/choice.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Computes the matrix product as numpy.matmul: two vectors give their dot product; a vector on the
/// left is a row, a vector on the right a column; leading dimensions are batches and broadcast.
/// Throws ShapeError if the inner sizes differ. On the CPU, float32 and bfloat16 are computed by
/// oneDNN, float64 by OpenBLAS, and float16 is converted to float32.
Variable matmul(const Variable& a, const Variable& b, Where where = Where::current());

/// Computes the product of two matrices: [m, k] x [k, n] -> [m, n].
Variable mm(const Variable& a, const Variable& b, Where where = Where::current());
/// Computes the products of two batches of matrices: [b, m, k] x [b, k, n] -> [b, m, n].
Variable bmm(const Variable& a, const Variable& b, Where where = Where::current());
/// Computes the dot product of two vectors: [n] . [n] -> [].
Variable dot(const Variable& a, const Variable& b, Where where = Where::current());
/// Computes the outer product of two vectors: [m] x [n] -> [m, n].
Variable outer(const Variable& a, const Variable& b, Where where = Where::current());

/// Precision of float32 matrix products, as in torch.set_float32_matmul_precision. Affects matmul,
/// linear and ops composed of these, such as attention and recurrent networks. A backward pass uses
/// the setting in force when it runs. Sums are always float32.
///
///   kHighest  float32.
///   kHigh     GPU: TF32, which keeps 10 of 23 mantissa bits; also applies to convolutions.
///             CPU: same as kHighest.
///   kMedium   GPU: same as kHigh. CPU: operands may be rounded to bfloat16, which keeps
///             7 mantissa bits, if the processor multiplies bfloat16 faster (AVX512-BF16 or
///             AMX); otherwise same as kHighest.
enum class MatmulPrecision { kHighest, kHigh, kMedium };
constexpr auto choice_names(MatmulPrecision) {
  return std::to_array<ChoiceName<MatmulPrecision>>({{"highest", MatmulPrecision::kHighest},
                                                     {"high", MatmulPrecision::kHigh},
                                                     {"medium", MatmulPrecision::kMedium}});
}
/// Sets the precision for the process; initially kHighest.
void set_matmul_precision(MatmulPrecision precision);
MatmulPrecision matmul_precision();

namespace kernels {

/// Computes y = a b for every matrix of a batch: [..., m, k] x [..., k, n] -> [..., m, n]. The
/// leading dimensions are equal (they may have stride 0).
extern Kernel<void(const Tensor& a, const Tensor& b, Tensor& y)> matmul;

}  // namespace kernels

}  // namespace tapegrad
