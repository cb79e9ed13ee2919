// Epilogue: an activation that an op applies to its result, in the same kernel if the device has
// one for both.
//
//   Variable y = linear(x, weight, bias, {.activation = Activation::kRelu});
//
// `relu(linear(x, weight, bias))` has the same result and records the same single node: the ReLU
// overwrites the result of linear, to which nothing else refers, and becomes the epilogue of
// linear's node (Node::absorb). The explicit form also saves the separate pass over the result.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad {

enum class Activation : int { kNone, kRelu, kGelu };  // kGelu: Gelu::kTanh

struct Epilogue {
  Activation activation = Activation::kNone;
  /// For kernels. What the gradient of the activation is taken at: the result of a ReLU, the
  /// operand of a GELU. A forward kernel writes the operand of a GELU to it, unless it is empty.
  Tensor at = {};

  explicit operator bool() const { return activation != Activation::kNone; }
};

namespace kernels {

// Fallbacks composed of the activations' own kernels.

/// y = activation(z); y may be z.
void run_epilogue(const Epilogue& epilogue, const Tensor& z, Tensor& y);
/// The gradient of run_epilogue: dz from dy; dz may be dy.
void run_epilogue_backward(const Epilogue& epilogue, const Tensor& dy, Tensor& dz);

}  // namespace kernels

}  // namespace tapegrad
