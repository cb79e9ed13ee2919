// Epilogue: an activation that an op applies to its result, in the same kernel if the device has a
// fused one.
//
//   Variable y = linear(x, weight, bias, {.activation = Activation::kRelu});
//
// `relu(linear(x, weight, bias))` has the same result and records the same single node: the ReLU
// overwrites the result of linear, to which nothing else refers, and becomes the epilogue of
// linear's node (TapeNode::absorb). The explicit form also saves the separate pass over the result;
// a captured step on the CPU saves it in both forms.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad {

class KernelTable;

enum class Activation : int { kNone, kRelu, kGelu };  // kGelu: Gelu::kTanh

struct Epilogue {
  Activation activation = Activation::kNone;
  /// For kernels: the tensor at which the gradient of the activation is computed, which is the
  /// result of a ReLU or the operand of a GELU. A forward kernel stores the operand of a GELU here
  /// unless the tensor is empty.
  Tensor at = {};

  explicit operator bool() const { return activation != Activation::kNone; }
  /// Becomes the activation that the kernel `behind` computes. Returns false if there is an
  /// activation already, or if `behind` has no row in the table of such kernels. For captured
  /// steps.
  bool absorb(const KernelTable& behind);
  template <typename Visit>
  void each_tensor(const Visit& visit) {
    visit(at, /*is_written=*/true);
  }
};

namespace kernels {

// Fallbacks composed of the kernels of the activations:

/// Computes y = activation(z). y may be z.
void run_epilogue(const Epilogue& epilogue, const Tensor& z, Tensor& y);
/// Computes dz, the gradient of the activation's operand, from dy. dz may be dy.
void run_epilogue_backward(const Epilogue& epilogue, const Tensor& dy, Tensor& dz);

}  // namespace kernels

}  // namespace tapegrad
