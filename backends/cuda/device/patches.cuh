// Conversion between image planes and columns of their windows.
#pragma once

#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "ops/conv.h"

namespace tapegrad::backends::cuda {

struct Extent {
  int64_t height, width;
  Extent(Size2d size) : height(size.height), width(size.width) {}
  TG_HD int64_t numel() const { return height * width; }
};

/// A plane and the windows that slide over it.
struct Patches {
  Extent size;   // size of the plane
  Extent count;  // number of windows
  Extent kernel, stride, padding, dilation;

  TG_HD int64_t rows() const {
    return kernel.numel() * count.numel();  // rows of columns for one plane
  }
};

/// Writes element i of [planes, kernel, windows]; 0 in the padding.
template <typename T>
struct ToColumns {
  const T* x;
  T* columns;
  Patches p;
  __device__ void operator()(int64_t i) const {
    int64_t rest = i;
    const int64_t j = rest % p.count.width;
    rest /= p.count.width;
    const int64_t window = rest % p.count.height;
    rest /= p.count.height;
    const int64_t v = rest % p.kernel.width;
    rest /= p.kernel.width;
    const int64_t u = rest % p.kernel.height, plane = rest / p.kernel.height;
    const int64_t row = window * p.stride.height + u * p.dilation.height - p.padding.height;
    const int64_t column = j * p.stride.width + v * p.dilation.width - p.padding.width;
    const bool inside = row >= 0 && row < p.size.height && column >= 0 && column < p.size.width;
    columns[i] = inside ? x[(plane * p.size.height + row) * p.size.width + column] : T{};
  }
};

/// Returns the window whose tap u reads a position along one dimension, or -1.
TG_HD inline int64_t window_of(int64_t position, int64_t u, int64_t stride, int64_t padding,
                               int64_t dilation, int64_t count) {
  const int64_t start = position + padding - u * dilation;
  return start >= 0 && start % stride == 0 && start / stride < count ? start / stride : -1;
}

/// Writes element i of the planes: the sum over all windows that contain the element, in the order
/// of taps.
template <typename From, typename To>
struct FromColumns {
  const From* columns;
  To* x;
  Patches p;
  __device__ void operator()(int64_t i) const {
    const int64_t column = i % p.size.width, row = i / p.size.width % p.size.height;
    const From* from = columns + i / p.size.numel() * p.rows();
    Compute<To> sum = 0;
    for (int64_t u = 0; u < p.kernel.height; ++u) {
      const int64_t a =
          window_of(row, u, p.stride.height, p.padding.height, p.dilation.height, p.count.height);
      if (a < 0) continue;
#pragma unroll 1  // ptxas spills registers of the unrolled loop
      for (int64_t v = 0; v < p.kernel.width; ++v) {
        const int64_t b =
            window_of(column, v, p.stride.width, p.padding.width, p.dilation.width, p.count.width);
        if (b < 0) continue;
        const int64_t tap = u * p.kernel.width + v;
        sum += Compute<To>(widen(from[(tap * p.count.height + a) * p.count.width + b]));
      }
    }
    x[i] = narrow<To>(sum);
  }
};

}  // namespace tapegrad::backends::cuda
