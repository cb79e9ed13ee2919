// Linear layers x W^T + b, optionally fused with an activation.
#pragma once

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/epilogue.h"

namespace tapegrad {

/// x W^T + b: x is [..., in], weight [out, in], bias [out] or empty. ShapeError when they do not
/// fit. With an epilogue its activation of that. A GPU may take a GELU of the sums before they are
/// rounded to sixteen bits, or of TF32.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {},
                Epilogue epilogue = {}, Where where = Where::current());
/// linear(x, weight, bias, {Activation::kRelu}): max(x W^T + b, 0).
Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Where where = Where::current());
/// linear(x, weight, bias, {Activation::kGelu}): gelu(x W^T + b, Gelu::kTanh).
Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Where where = Where::current());

namespace kernels {

/// y = epilogue(x weight^T + bias): [n, in], [out, in], [out] or empty -> [n, out].
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Epilogue& epilogue, Tensor& y)>
    linear;

/// The gradients that are not empty: dx = dz weight, dw = dz^T x, db = the sum of dz's rows. dz is
/// dy through the epilogue behind the op; with one, dy may be written over. `front` is an epilogue
/// of the op that made x, and dx is then taken through it too. x and weight are empty where they
/// are not needed.
extern Kernel<void(const Tensor& dy, const Epilogue& behind, const Tensor& x, const Tensor& weight,
                   const Epilogue& front, Tensor& dx, Tensor& dw, Tensor& db)>
    linear_backward;
/// Fallback composed of other kernels, for devices without one of their own.
void linear_backward_by_products(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                                 const Tensor& weight, const Epilogue& front, Tensor& dx,
                                 Tensor& dw, Tensor& db);

}  // namespace kernels

}  // namespace tapegrad
