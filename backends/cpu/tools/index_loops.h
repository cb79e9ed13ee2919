// Loops of indexing kernels. Indices are contiguous, int64 and already checked.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

inline constexpr int64_t kParallelAbove = 1 << 15;  // elements
inline constexpr int64_t kColumns = 256;            // columns per task

/// An unsigned integer of the given size: values that are only moved keep their bits.
template <size_t kBytes>
using Word = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

/// The offsets of all elements in dimensions [begin, end) of a layout, in row-major order.
inline std::vector<int64_t> offsets_of(const Layout& layout, int begin, int end) {
  std::vector<int64_t> offsets{0};
  for (int dim = begin; dim < end; ++dim) {
    std::vector<int64_t> finer;
    finer.reserve(offsets.size() * size_t(layout.shape[dim]));
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < layout.shape[dim]; ++i)
        finer.push_back(offset + i * layout.strides[dim]);
    offsets = std::move(finer);
  }
  return offsets;
}

/// Calls visit(p, q) for every element of a contiguous index: p is the position in the index, q the
/// offset of the element of x that it refers to. One thread visits, in order, the elements that
/// differ only along dim.
template <typename Visit>
void for_each_meant(const Tensor& x, const Tensor& index, int dim, Visit visit) {
  const int64_t* which = index.data<int64_t>();
  const int64_t length = index.shape()[dim], step = x.strides()[dim];
  const std::vector<int64_t> outer = offsets_of(x.layout(), 0, dim);
  const std::vector<int64_t> inner = offsets_of(x.layout(), dim + 1, x.rank());
  const int64_t width = int64_t(inner.size()), blocks = (width + kColumns - 1) / kColumns;
  const int64_t tasks = int64_t(outer.size()) * blocks;
#pragma omp parallel for if (index.numel() > kParallelAbove)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t o = task / blocks, begin = task % blocks * kColumns;
    const int64_t end = std::min(width, begin + kColumns);
    for (int64_t j = 0; j < length; ++j) {
      const int64_t line = (o * length + j) * width;
      for (int64_t i = begin; i < end; ++i)
        visit(line + i, outer[size_t(o)] + which[line + i] * step + inner[size_t(i)]);
    }
  }
}

}  // namespace tapegrad::backends::cpu
