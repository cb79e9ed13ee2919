// Linear layers with few columns in float32, as in small perceptrons. The product of 40,000 rows of
// 20 by a 20 x 5 weight is bound by memory: a library packs its operands, and every further op
// reads the rows again. Here one pass over the rows computes the layer, and a second one its whole
// gradient.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

/// Whether the functions below accept x [rows, in] and weight [out, in]. All tensors are
/// contiguous.
bool is_narrow(int64_t rows, int64_t in, int64_t out);

/// y = x weight^T + bias, followed by max(y, 0) if `relu`. The bias may be empty.
void linear_narrow(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, Tensor& y);

/// Computes the gradients that are not empty. If y is given, dy counts only where y is not 0.
void linear_narrow_backward(const Tensor& dy, const Tensor& y, const Tensor& x,
                            const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db);

}  // namespace tapegrad::backends::cpu
