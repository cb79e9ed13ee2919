// Copies between strided tensors and contiguous pieces of their row-major order.
#pragma once

#include "backends/joint_layout.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

/// Copy `count` elements of a tensor, starting at row-major position `start`, to or from contiguous
/// memory. `sizes` and `strides` (in elements) have `rank` entries; `element` is the element size
/// in bytes.
void gather(std::byte* to, const std::byte* from, int64_t element, const int64_t* sizes,
            const int64_t* strides, int rank, int64_t start, int64_t count);
void scatter(const std::byte* from, std::byte* to, int64_t element, const int64_t* sizes,
             const int64_t* strides, int rank, int64_t start, int64_t count);

/// Elements of a row that does not justify a visit: gather and scatter take several at once.
inline constexpr int64_t kShortRun = 256;

/// Calls visit(Word{}) for the unsigned integer of that many bytes.
template <typename Visit>
void with_word(int64_t element, Visit visit) {
  switch (element) {
    case 1:
      return visit(uint8_t{});
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    default:
      return visit(uint64_t{});
  }
}

}  // namespace tapegrad::backends::cpu
