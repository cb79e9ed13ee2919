// Copies of optional operands and results: tensors that are empty if the caller has none.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

/// Returns x, or a contiguous copy of x; empty if x is empty.
inline Tensor contiguous(const Tensor& x) { return x ? x.contiguous() : x; }

/// Returns a new float32 tensor of the shape of `narrow`, into which its values will be rounded;
/// empty if `narrow` is empty.
inline Tensor wide_like(const Tensor& narrow) {
  return narrow ? Tensor::empty(narrow.shape(), f32) : Tensor();
}

}  // namespace tapegrad::backends::cpu
