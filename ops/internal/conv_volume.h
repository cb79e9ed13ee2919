// Convolutions of volumes by kernels of their own. ops/conv_nd.cpp composes those of other devices
// and types by convolutions of images.
#pragma once

#include "ops/conv.h"

namespace tapegrad {
namespace detail {

/// Ops with gradients of any order. `y` is the shape of the result; operands have been checked.
Variable conv_volume(const Variable& x, const Variable& weight, const Variable& bias,
                     const Conv3dOptions& options, const Shape& y, Where where);
/// The gradient with respect to x, which is a transposed convolution of dy.
Variable conv_volume_backward_input(const Variable& dy, const Variable& weight,
                                    const Conv3dOptions& options, const Shape& x, Where where);

}  // namespace detail

namespace kernels {

// As conv2d and conv2d_backward (ops/conv.h), without an epilogue. They have no fallback: ops ask
// accepts(), for which y may be empty.

extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv3dOptions& options, Tensor& y)>
    conv3d;
/// db needs dw.
extern Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& weight,
                   const Conv3dOptions& options, Tensor& dx, Tensor& dw, Tensor& db)>
    conv3d_backward;

}  // namespace kernels
}  // namespace tapegrad
