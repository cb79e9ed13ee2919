// ReLU gradient for use inside other kernels.
#pragma once

#include <algorithm>

#include "backends/cpu/tools/functions.h"
#include "backends/formulas_activation.h"

namespace tapegrad::backends::cpu {

/// Computes dz = dy where y, the result of a ReLU, is not 0, else 0. dz may alias dy.
inline void mask_by_result(const float* dy, const float* y, int64_t count, float* dz) {
  using B = Batch<float>;
  constexpr int64_t kLane = kLanes<float>;
  constexpr formulas::ReluBackward kBackward;
  if (count < kLane) {
    for (int64_t i = 0; i < count; ++i) dz[i] = y[i] <= 0 ? 0 : dy[i];
    return;
  }
  for (int64_t i = 0; i < count; i += kLane) {
    const int64_t at = std::min(i, count - kLane);  // the last vector may overlap the previous
    kBackward(B::load_unaligned(dy + at), B::load_unaligned(y + at)).store_unaligned(dz + at);
  }
}

}  // namespace tapegrad::backends::cpu
