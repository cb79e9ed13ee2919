// Reading and writing strided tensors in contiguous pieces of their row-major order.
#pragma once

#include <array>
#include <span>

#include "core/tensor.h"

namespace tapegrad::backends::cpu {

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

/// Copies `count` elements of one operand, from position `start` in row-major order, to or from
/// contiguous memory. `sizes` and `strides` (in elements) have `rank` entries.
void gather(std::byte* to, const std::byte* from, int64_t element, const int64_t* sizes,
            const int64_t* strides, int rank, int64_t start, int64_t count);
void scatter(const std::byte* from, std::byte* to, int64_t element, const int64_t* sizes,
             const int64_t* strides, int rank, int64_t start, int64_t count);

}  // namespace tapegrad::backends::cpu
