// Layers of a network: x W^T + b, with an activation.
#pragma once

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// x W^T + b: x is [..., in], weight [out, in], bias [out] or empty. ShapeError when they do not
/// fit.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {},
                Where where = Where::current());
/// max(x W^T + b, 0): relu(linear(...)) as one op, with the same result in less time and memory.
Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Where where = Where::current());
/// gelu(x W^T + b, Gelu::kTanh) as one op. A GPU may take it of the sums before they are rounded to
/// sixteen bits, or of TF32.
Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Where where = Where::current());

enum class Activation { kNone, kRelu, kGelu };  // kGelu: Gelu::kTanh

/// The result of an activation, with what a layer behind needs to take its gradient along.
struct Activated {
  Variable y = {};
  Variable x = {};     // what y is the activation of; or empty, and y is anything
  Variable mask = {};  // where a ReLU lets gradients through, as the device has it; of a GELU none
};

/// linear(from.y, weight, bias) and the activation behind it. If from.x is there, the gradient goes
/// to it, by way of a product that takes the activation's gradient along. The result's x is empty
/// when no gradient may be asked for, and where the device has nothing to gain. A GPU's ReLU may
/// let the gradient through where its result is positive but too small for sixteen bits. Two layers
/// with a ReLU between:
///
///   const Activated hidden = linear_joined({x}, w1, b1, Activation::kRelu);
///   const Variable y = linear_joined(hidden, w2, b2, Activation::kNone).y;
Activated linear_joined(const Activated& from, const Variable& weight, const Variable& bias,
                        Activation behind, Where where = Where::current());

namespace kernels {

/// y = x weight^T + bias, then max(y, 0) if `relu`: [n, in], [out, in], [out] or empty -> [n, out].
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, Tensor& y)>
    linear;
/// z = linear without relu, y = gelu(z) by its tanh formula. z may be empty, when only y is wanted.
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, Tensor& z)>
    linear_gelu;
/// That, made of other kernels.
void linear_gelu_by_parts(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
                          Tensor& z);
/// y = linear with relu, for a device whose relu_linear_backward goes by a mask: it is made here,
/// in a form of the device's own, or left empty where it would not serve.
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
                   Tensor& mask)>
    linear_relu_masked;

/// Those gradients of linear that are there: dx = dz weight, dw = dz^T x, db = the sum of dz's
/// rows. dz is dy; if y, the result with `relu`, is there, then dy where y is not 0, and dy may be
/// written over. Of x and weight there is what is needed.
extern Kernel<void(const Tensor& dy, const Tensor& y, const Tensor& x, const Tensor& weight,
                   Tensor& dx, Tensor& dw, Tensor& db)>
    linear_backward;
/// linear_backward, made of other kernels.
void linear_backward_by_products(const Tensor& dy, const Tensor& y, const Tensor& x,
                                 const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db);
/// linear_backward for an x that is gelu(z) by its tanh formula; dx is the gradient in z.
extern Kernel<void(const Tensor& dy, const Tensor& z, const Tensor& x, const Tensor& weight,
                   Tensor& dx, Tensor& dw, Tensor& db)>
    gelu_linear_backward;
/// That, made of other kernels.
void gelu_linear_backward_by_parts(const Tensor& dy, const Tensor& z, const Tensor& x,
                                   const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db);
/// linear_backward for an x that linear_relu_masked made, with its mask; dx is the gradient in what
/// its ReLU was taken of, 0 where x is.
extern Kernel<void(const Tensor& dy, const Tensor& mask, const Tensor& x, const Tensor& weight,
                   Tensor& dx, Tensor& dw, Tensor& db)>
    relu_linear_backward;

}  // namespace kernels

}  // namespace tapegrad
