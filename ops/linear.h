// Linear layers x W^T + b, optionally fused with an activation.
#pragma once

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Returns x W^T + b, for x [..., in], weight [out, in] and bias [out] or empty. Throws ShapeError
/// if the shapes do not match.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {},
                Where where = Where::current());
/// Returns max(x W^T + b, 0) as one op. Bit-identical to relu(linear(...)), with less time and
/// memory.
Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Where where = Where::current());
/// Returns gelu(x W^T + b, Gelu::kTanh) as one op. A GPU may apply gelu before rounding to sixteen
/// bits, or to TF32 products.
Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Where where = Where::current());

enum class Activation { kNone, kRelu, kGelu };  // kGelu: Gelu::kTanh

/// The result of an activation, with the tensors that a following layer needs to fuse the gradient
/// of the activation with its own.
struct Activated {
  Variable y = {};
  Variable x = {};  // input of the activation that produced y; empty if y is not the result of an
                    // activation
  Variable mask = {};  // mask of a ReLU in the device's format; empty for GELU
};

/// Returns linear(from.y, weight, bias) followed by an activation. If from.x is not empty, the
/// gradient goes to from.x, by a product that is fused with the gradient of the preceding
/// activation. x of the result is empty if no gradient can be requested or if fusing does not pay
/// off on the device. On a GPU the gradient of a ReLU may pass where its result is positive but too
/// small for sixteen bits. Two layers with a ReLU in between:
///
///   const Activated hidden = linear_joined({x}, w1, b1, Activation::kRelu);
///   const Variable y = linear_joined(hidden, w2, b2, Activation::kNone).y;
Activated linear_joined(const Activated& from, const Variable& weight, const Variable& bias,
                        Activation behind, Where where = Where::current());

namespace kernels {

/// y = x weight^T + bias, followed by max(y, 0) if `relu`: [n, in], [out, in], [out] or empty ->
/// [n, out].
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, Tensor& y)>
    linear;
/// z = linear without relu, y = gelu(z) by the tanh formula. z may be empty, and is then not
/// computed.
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, Tensor& z)>
    linear_gelu;
/// Reference implementation composed of other kernels; used where the device has no fused one.
void linear_gelu_by_parts(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
                          Tensor& z);
/// y = linear with relu, and a mask for relu_linear_backward in the device's format. The mask stays
/// empty if the device cannot use one for the operands.
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
                   Tensor& mask)>
    linear_relu_masked;

/// Computes the gradients of linear that are not empty: dx = dz weight, dw = dz^T x, db = the
/// column sums of dz. dz is dy or, if y (the result with `relu`) is given, dy where y is not 0; dy
/// may then be overwritten. x and weight are given if needed.
extern Kernel<void(const Tensor& dy, const Tensor& y, const Tensor& x, const Tensor& weight,
                   Tensor& dx, Tensor& dw, Tensor& db)>
    linear_backward;
/// Reference implementation of linear_backward composed of other kernels.
void linear_backward_by_products(const Tensor& dy, const Tensor& y, const Tensor& x,
                                 const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db);
/// linear_backward for x = gelu(z) by the tanh formula; dx is the gradient with respect to z.
extern Kernel<void(const Tensor& dy, const Tensor& z, const Tensor& x, const Tensor& weight,
                   Tensor& dx, Tensor& dw, Tensor& db)>
    gelu_linear_backward;
/// Reference implementation composed of other kernels; used where the device has no fused one.
void gelu_linear_backward_by_parts(const Tensor& dy, const Tensor& z, const Tensor& x,
                                   const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db);
/// linear_backward for an x that linear_relu_masked made, with its mask. dx is the gradient with
/// respect to the argument of the ReLU, which is 0 where x is 0.
extern Kernel<void(const Tensor& dy, const Tensor& mask, const Tensor& x, const Tensor& weight,
                   Tensor& dx, Tensor& dw, Tensor& db)>
    relu_linear_backward;

}  // namespace kernels

}  // namespace tapegrad
