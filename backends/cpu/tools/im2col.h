// Conversion between an image plane and a matrix of its windows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/conv.h"

namespace tapegrad::backends::cpu {

/// A plane and the windows that slide over it.
struct Patches {
  Size2d size;   // size of the plane
  Size2d count;  // number of windows
  Size2d kernel;
  Size2d stride, padding, dilation;

  int64_t kernel_numel() const { return kernel.height * kernel.width; }
  int64_t number() const { return count.height * count.width; }
};

/// The range [first, last) of windows along one dimension whose element at `offset` is inside the
/// plane.
struct Inside {
  Inside(int64_t offset, int64_t stride, int64_t size, int64_t count)
      : first(std::min(count, offset >= 0 ? 0 : (-offset + stride - 1) / stride)),
        last(std::max(first,
                      std::min(count, offset >= size ? 0 : (size - 1 - offset) / stride + 1))) {}
  int64_t first, last;
};

/// Row (u, v) of `columns` receives element (u, v) of every window; 0 in the padding.
template <typename T>
void im2col(const T* plane, const Patches& p, T* columns) {
  for (int64_t u = 0; u < p.kernel.height; ++u)
    for (int64_t v = 0; v < p.kernel.width; ++v) {
      const int64_t top = u * p.dilation.height - p.padding.height;
      const int64_t left = v * p.dilation.width - p.padding.width;
      const Inside rows(top, p.stride.height, p.size.height, p.count.height);
      const Inside across(left, p.stride.width, p.size.width, p.count.width);
      for (int64_t i = 0; i < p.count.height; ++i, columns += p.count.width) {
        if (i < rows.first || i >= rows.last) {
          std::fill_n(columns, p.count.width, T{});
          continue;
        }
        const T* from = plane + (top + i * p.stride.height) * p.size.width + left;
        std::fill(columns, columns + across.first, T{});
        for (int64_t j = across.first; j < across.last; ++j) columns[j] = from[j * p.stride.width];
        std::fill(columns + across.last, columns + p.count.width, T{});
      }
    }
}

/// Adds every window's elements to the plane, in the order of the rows. Elements in the padding are
/// dropped.
template <typename T, typename Sum>
void col2im(const T* columns, const Patches& p, Sum* plane) {
  for (int64_t u = 0; u < p.kernel.height; ++u)
    for (int64_t v = 0; v < p.kernel.width; ++v, columns += p.number()) {
      const int64_t top = u * p.dilation.height - p.padding.height;
      const int64_t left = v * p.dilation.width - p.padding.width;
      const Inside rows(top, p.stride.height, p.size.height, p.count.height);
      const Inside across(left, p.stride.width, p.size.width, p.count.width);
      for (int64_t i = rows.first; i < rows.last; ++i) {
        Sum* to = plane + (top + i * p.stride.height) * p.size.width + left;
        const T* from = columns + i * p.count.width;
        for (int64_t j = across.first; j < across.last; ++j) to[j * p.stride.width] += Sum(from[j]);
      }
    }
}

}  // namespace tapegrad::backends::cpu
