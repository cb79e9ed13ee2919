// One loop nest over several strided operands, as short as it can be.
#pragma once

#include <array>

#include "core/base/shape.h"

namespace tapegrad::backends {

/// N layouts over one shape, after dimensions of size 1 are dropped and neighbours that lie
/// behind each other in every operand are joined. The last dimension is the innermost.
template <size_t N>
struct JointLayout {
  int rank = 0;
  std::array<int64_t, kMaxRank> sizes;
  std::array<std::array<int64_t, kMaxRank>, N> strides;

  void add_dim(int64_t size, const std::array<int64_t, N>& steps) {
    if (size == 1) return;
    if (rank > 0) {  // does the dimension before continue this one?
      bool joins = true;
      for (size_t i = 0; i < N; ++i) joins &= strides[i][rank - 1] == steps[i] * size;
      if (joins) {
        sizes[rank - 1] *= size;
        for (size_t i = 0; i < N; ++i) strides[i][rank - 1] = steps[i];
        return;
      }
    }
    sizes[rank] = size;
    for (size_t i = 0; i < N; ++i) strides[i][rank] = steps[i];
    ++rank;
  }
};

}  // namespace tapegrad::backends
