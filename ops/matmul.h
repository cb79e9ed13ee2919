// Matrix products.
#pragma once

#include "core/dispatcher.h"
#include "core/variable.h"

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

/// x W^T + b: x is [..., in], weight [out, in], bias [out] or empty.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {},
                Where where = Where::current());
/// max(x W^T + b, 0): relu(linear(...)) as one op, with the same result in less time and memory.
Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Where where = Where::current());

/// gelu(x W^T + b, Gelu::kTanh) as one op. A GPU may take it of the sums before they are rounded to
/// sixteen bits, or of TF32.
Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Where where = Where::current());

/// y = gelu(x, Gelu::kTanh), or any y if x is empty.
struct Gelued {
  Variable y, x;
};
/// linear(from.y, weight, bias) or, if `gelu`, linear_gelu and what it took the GELU of (when a
/// gradient may be asked for). The gradient goes to from.x, if that is there, by way of a product
/// that takes GELU's gradient along; so two layers with a GELU between are
///
///   const Gelued hidden = linear_gelued({x, {}}, w1, b1, /*gelu=*/true);
///   const Variable y = linear_gelued(hidden, w2, b2, /*gelu=*/false).y;
Gelued linear_gelued(const Gelued& from, const Variable& weight, const Variable& bias, bool gelu,
                     Where where = Where::current());

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

/// y = x weight^T + bias, then max(y, 0) if `relu`: [n, in], [out, in], [out] or empty -> [n, out].
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, Tensor& y)>
    linear;
/// z = linear without relu, y = gelu(z) by its tanh formula. z may be empty, when only y is wanted.
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, Tensor& z)>
    linear_gelu;
/// That, made of other kernels.
void linear_gelu_by_parts(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
                          Tensor& z);
/// Those gradients of linear that are there: dx = dz weight, dw = dz^T x, db = the sum of dz's
/// rows. dz is dy; if y, the result with `relu`, is there, then dy where y is not 0, and dy may be
/// written over. Of x and weight there is what is needed.
extern Kernel<void(const Tensor& dy, const Tensor& y, const Tensor& x, const Tensor& weight,
                   Tensor& dx, Tensor& dw, Tensor& db)>
    linear_backward;
/// linear_backward for an x that is gelu(z) by its tanh formula; dx is the gradient in z.
extern Kernel<void(const Tensor& dy, const Tensor& z, const Tensor& x, const Tensor& weight,
                   Tensor& dx, Tensor& dw, Tensor& db)>
    gelu_linear_backward;
/// That, made of other kernels.
void gelu_linear_backward_by_parts(const Tensor& dy, const Tensor& z, const Tensor& x,
                                   const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db);
/// linear_backward, made of other kernels.
void linear_backward_by_products(const Tensor& dy, const Tensor& y, const Tensor& x,
                                 const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db);

}  // namespace kernels

}  // namespace tapegrad
