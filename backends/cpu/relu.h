// ReLU inside of other kernels.
#pragma once

#include "backends/cpu/functions.h"
#include "backends/formulas_activation.h"

namespace tapegrad::backends::cpu {

/// dz = dy where y, the result of a ReLU, is not 0; else 0.
inline void mask_by_result(const float* dy, const float* y, int64_t count, float* dz) {
  using B = Batch<float>;
  constexpr int64_t kLane = kLanes<float>;
  constexpr formulas::ReluBackward kBackward;
  int64_t i = 0;
  for (; i + kLane <= count; i += kLane)
    kBackward(B::load_unaligned(dy + i), B::load_unaligned(y + i)).store_unaligned(dz + i);
  for (; i < count; ++i) dz[i] = y[i] <= 0 ? 0 : dy[i];
}

}  // namespace tapegrad::backends::cpu
