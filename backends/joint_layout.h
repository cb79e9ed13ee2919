// The shortest loop nest over several strided operands.
#pragma once

#include <array>

#include "core/base/shape.h"

namespace tapegrad::backends {

/// N layouts of one shape, without dimensions of size 1, and with neighbouring dimensions merged if
/// they are contiguous in every operand. The last dimension is the innermost.
template <size_t N>
struct JointLayout {
  int rank = 0;
  std::array<int64_t, kMaxRank> sizes;
  std::array<std::array<int64_t, kMaxRank>, N> strides;

  void add_dim(int64_t size, const std::array<int64_t, N>& steps) {
    if (size == 1) return;
    if (rank > 0) {  // can this dimension be merged with the previous one?
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
