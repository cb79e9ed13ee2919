// The gradient of distances between points of few coordinates.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

inline constexpr int64_t kNarrowPoints = 8;  // most coordinates

/// Computes dx1[i] = the sum over j of w[i, j] (x1[i] - x2[j]) with w = dy / y, or w = dy where y
/// is 0; if `signs`, of dy[i, j] sign(x1[i] - x2[j]). x1 [batch, n, k], x2 [batch, m, k] and dx1
/// are contiguous, with k <= kNarrowPoints; dy and y [batch, n, m] may be strided. V is float or
/// double.
template <typename V>
void cdist_narrow_backward(const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& y,
                           bool signs, Tensor& dx1);

}  // namespace tapegrad::backends::cpu
