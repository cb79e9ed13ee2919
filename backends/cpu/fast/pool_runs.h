// Max pooling with wide windows, one after the other: the elements of a window are contiguous runs,
// which are compared in vectors. The general kernel compares windows side by side, which takes long
// for few windows, as of global pooling.
#pragma once

#include <limits>
#include <vector>

#include "backends/cpu/fast/pool_spans.h"
#include "backends/cpu/tools/exponentials.h"
#include "backends/cpu/tools/lanes.h"

namespace tapegrad::backends::cpu {

/// Runs of equal length, one for each row of a window.
struct Runs {
  int64_t count, length, step;  // step: distance of their first elements
};

/// Returns the position of the first of the largest elements, or of the first NaN. The runs must
/// have an element.
inline int64_t first_largest(const float* x, const Runs& runs) {
  using B = Batch<float>;
  constexpr int64_t kSize = kLanes<float>;
  const B least(-std::numeric_limits<float>::infinity());
  const auto load = [&](const float* run, int64_t i) {
    return i + kSize <= runs.length ? load_batch(run + i)
                                    : load_first(run + i, runs.length - i, least);
  };
  B best = least;
  for (int64_t r = 0; r < runs.count; ++r)
    for (int64_t i = 0; i < runs.length; i += kSize) {
      const B values = load(x + r * runs.step, i);
      best = xsimd::select((best < values) | ~(values == values), values, best);
    }
  const bool has_nan = xsimd::any(~(best == best));
  const float largest = has_nan ? 0.0f : largest_lane(best);
  for (int64_t r = 0;; ++r) {
    const float* run = x + r * runs.step;
    for (int64_t i = 0; i < runs.length; i += kSize) {
      const B values = load(run, i);
      if (!xsimd::any(has_nan ? ~(values == values) : values == B(largest))) continue;
      while (has_nan ? run[i] == run[i] : run[i] != largest) ++i;
      return r * runs.step + i;
    }
  }
}

struct MaxPoolRuns {
  static constexpr std::string_view kName = "runs";
  static constexpr int64_t kShortest = 8, kFewest = 40;  // elements of a run and of a window

  static bool accepts(const Tensor& x, const MaximumWindows& windows, const Tensor& y,
                      const Tensor&) {
    const Planes p = planes_of(x.shape(), y.shape());
    if (y.numel() == 0) return false;
    if (windows.adaptive) return are_long(p, p.height / p.out_height, p.width / p.out_width);
    const MaxPool2dOptions& o = windows.options;
    return o.dilation == Size2d(1) && (o.stride->width > 1 || p.out_width == 1) &&
           are_long(p, o.kernel_size.height, std::min(o.kernel_size.width, p.width));
  }
  static void run(TypeTag<float>, const Tensor& x, const MaximumWindows& windows, Tensor& y,
                  Tensor& indices) {
    const Planes p = planes_of(x.shape(), y.shape());
    const MaxPool2dOptions& o = windows.options;
    const auto spans = [&](int64_t number, int64_t size, int64_t kernel, int64_t stride,
                           int64_t padding) {
      return spans_of(number, size, windows.adaptive, kernel, stride, padding, false);
    };
    const Size2d stride = windows.adaptive ? Size2d(1) : *o.stride;
    const std::vector<Span> rows = spans(p.out_height, p.height, o.kernel_size.height,
                                         stride.height, o.padding.height),
                            columns = spans(p.out_width, p.width, o.kernel_size.width, stride.width,
                                            o.padding.width);
    const float* from = x.data<float>();
    float* to = y.data<float>();
    int32_t* at = indices ? indices.data<int32_t>() : nullptr;
#pragma omp parallel for if (x.numel() > kParallelPlanes)
    for (int64_t n = 0; n < p.count; ++n) {
      const float* plane = from + n * p.size();
      int64_t i = n * p.out_size();
      for (const Span& row : rows)
        for (const Span& column : columns) {
          const int64_t place = place_of(plane, p, row, column);
          to[i] = place < 0 ? -std::numeric_limits<float>::infinity() : plane[place];
          if (at != nullptr) at[i] = int32_t(place);
          ++i;
        }
    }
  }

 private:
  /// Returns whether the runs of windows of this size pay.
  static bool are_long(const Planes& p, int64_t height, int64_t width) {
    return height * width >= kFewest && (width == p.width || width >= kShortest);
  }
  /// Returns the position of the maximum of a window in its plane; -1 for a window of padding.
  static int64_t place_of(const float* plane, const Planes& p, const Span& row,
                          const Span& column) {
    const int64_t height = row.end - row.begin, width = column.end - column.begin;
    if (height <= 0 || width <= 0) return -1;
    const int64_t first = row.begin * p.width + column.begin;
    const Runs runs = width == p.width ? Runs{1, height * width, 0} : Runs{height, width, p.width};
    return first + first_largest(plane + first, runs);
  }
};

}  // namespace tapegrad::backends::cpu
