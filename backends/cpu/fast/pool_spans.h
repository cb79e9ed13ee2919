// Windows of average pooling and of adaptive pooling along each dimension.
#pragma once

#include <algorithm>
#include <vector>

#include "backends/cpu/fast/pool_halves.h"

namespace tapegrad::backends::cpu {

/// Number of elements that justify a second thread. One thread processes a plane in order, so sums
/// do not depend on the number of threads.
inline constexpr int64_t kParallelPlanes = 32768;

/// A window along one dimension: its elements [begin, end) inside, and the divisor's count.
struct Span {
  int64_t begin, end, count;
};

/// `number` windows that divide the elements evenly.
inline std::vector<Span> adaptive_spans(int64_t number, int64_t size) {
  std::vector<Span> result;
  for (int64_t i = 0; i < number; ++i) {
    const int64_t begin = i * size / number, end = ((i + 1) * size + number - 1) / number;
    result.push_back({begin, end, end - begin});
  }
  return result;
}

inline std::vector<Span> spans_of(int64_t number, int64_t size, bool adaptive, int64_t kernel,
                                  int64_t stride, int64_t padding, bool count_padding) {
  if (adaptive) return adaptive_spans(number, size);
  std::vector<Span> result;
  for (int64_t i = 0; i < number; ++i) {
    const int64_t begin = i * stride - padding, end = std::min(begin + kernel, size + padding);
    const int64_t first = std::max<int64_t>(begin, 0), last = std::min(end, size);
    result.push_back({first, last, count_padding ? end - begin : last - first});
  }
  return result;
}

/// The windows of the rows and of the columns of planes.
struct AverageSpans {
  std::vector<Span> rows, columns;
};
inline AverageSpans average_spans(const Planes& p, const AverageWindows& w) {
  const AvgPool2dOptions& o = w.options;
  const Size2d stride = o.stride.value_or(o.kernel_size);
  return {spans_of(p.out_height, p.height, w.adaptive, o.kernel_size.height, stride.height,
                   o.padding.height, o.count_include_pad),
          spans_of(p.out_width, p.width, w.adaptive, o.kernel_size.width, stride.width,
                   o.padding.width, o.count_include_pad)};
}

}  // namespace tapegrad::backends::cpu
