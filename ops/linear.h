// Linear layers x W^T + b, optionally fused with an activation.
#pragma once

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/epilogue.h"

namespace tapegrad {

/// Returns x W^T + b, for x [..., in], weight [out, in] and bias [out] or empty, with the
/// activation of the epilogue applied. A weight [in], with a bias of one element or none, gives a
/// result [...]. A GPU may apply a GELU before the product is rounded to sixteen bits, or to a
/// product computed in TF32. Throws ShapeError if the shapes do not match.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {},
                Epilogue epilogue = {}, Where where = Where::current());
/// Returns linear(x, weight, bias, {Activation::kRelu}), which is max(x W^T + b, 0).
Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Where where = Where::current());
/// Returns linear(x, weight, bias, {Activation::kGelu}), which is gelu(x W^T + b, Gelu::kTanh).
Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Where where = Where::current());

namespace kernels {

/// Computes y = epilogue(x weight^T + bias): [n, in], [out, in], [out] or empty -> [n, out].
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Epilogue& epilogue, Tensor& y)>
    linear;

/// Computes those of dx, dw and db that are not empty: dx = dz weight, dw = dz^T x, db = the sum of
/// dz's rows. dz is the gradient of the operand of the epilogue `behind`; dy may be overwritten if
/// there is an epilogue. `front` is the activation whose result is x; dx is then the gradient of
/// the operand of that activation. x and weight may be empty if no gradient needs them.
extern Kernel<void(const Tensor& dy, const Epilogue& behind, const Tensor& x, const Tensor& weight,
                   const Epilogue& front, Tensor& dx, Tensor& dw, Tensor& db)>
    linear_backward;
/// Fallback composed of other kernels; used where the device has no fused one.
void linear_backward_by_products(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                                 const Tensor& weight, const Epilogue& front, Tensor& dx,
                                 Tensor& dw, Tensor& db);

}  // namespace kernels

}  // namespace tapegrad
