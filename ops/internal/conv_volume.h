// Convolutions of volumes by separate kernels. For other devices and types, ops/conv_nd.cpp
// composes convolutions of images.
#pragma once

#include "ops/conv.h"

namespace tapegrad {
namespace detail {

/// Ops with gradients of any order. `y` is the shape of the result. The operands have been checked.
Variable conv_volume(const Variable& x, const Variable& weight, const Variable& bias,
                     const Conv3dOptions& options, const Shape& y, Where where);
/// Computes the gradient with respect to x, which is a transposed convolution of dy.
Variable conv_volume_backward_input(const Variable& dy, const Variable& weight,
                                    const Conv3dOptions& options, const Shape& x, Where where);

}  // namespace detail

namespace kernels {

// Kernels like conv2d and conv2d_backward (ops/conv.h), without an epilogue. There is no fallback:
// ops call accepts(), for which y may be empty.

extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv3dOptions& options, Tensor& y)>
    conv3d;
/// db needs dw.
extern Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& weight,
                   const Conv3dOptions& options, Tensor& dx, Tensor& dw, Tensor& db)>
    conv3d_backward;

}  // namespace kernels
}  // namespace tapegrad
