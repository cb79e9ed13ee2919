#include <algorithm>
#include <concepts>
#include <limits>
#include <type_traits>
#include <vector>

#include "backends/cpu/fast/pool_halves.h"
#include "backends/cpu/fast/pool_packed.h"
#include "backends/cpu/fast/pool_runs.h"
#include "backends/cpu/fast/pool_spans.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/wide_sum.h"
#include "core/base/error.h"
#include "core/dispatch/implementations.h"
#include "core/dispatch/kernels.h"
#include "ops/pool.h"

namespace tapegrad::backends::cpu {
namespace {

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

constexpr int64_t kWindowsTogether = 256;  // windows of a row that are processed side by side

/// Windows of an image that overlap or not.
struct Strided {
  Size2d kernel, stride, padding, dilation = 1;

  explicit Strided(const MaxPool2dOptions& o)
      : kernel(o.kernel_size), stride(*o.stride), padding(o.padding), dilation(o.dilation) {}
  explicit Strided(const AvgPool2dOptions& o)
      : kernel(o.kernel_size), stride(o.stride.value_or(o.kernel_size)), padding(o.padding) {}
};

/// For windows [first, first + count) of row i of the result, calls visit(base, begin, end) for
/// each element of a window, in order or in reversed order: windows [begin, end), relative to
/// `first`, have this element, window j at base + j * stride in the plane. The others have it in
/// the padding.
template <bool kReversed = false, typename Stride, typename Visit>
void for_each_window_element(const Planes& p, const Strided& w, Stride stride, int64_t i,
                             int64_t first, int64_t count, const Visit& visit) {
  const auto windows_left_of = [stride](int64_t column) {  // of a column relative to the first
    return column <= 0 ? 0 : (column + stride - 1) / stride;
  };
  for (int64_t u = 0; u < w.kernel.height; ++u) {
    const int64_t row = i * w.stride.height - w.padding.height + u * w.dilation.height;
    if (row < 0 || row >= p.height) continue;
    for (int64_t step = 0; step < w.kernel.width; ++step) {
      const int64_t v = kReversed ? w.kernel.width - 1 - step : step;
      const int64_t left = first * stride - w.padding.width + v * w.dilation.width;
      const int64_t begin = std::min(windows_left_of(-left), count);
      visit(row * p.width + left, begin, std::min(windows_left_of(p.width - left), count));
    }
  }
}

/// Calls run(stride) with a constant for common strides, so that loops vectorise.
template <typename Run>
void with_stride(int64_t stride, const Run& run) {
  if (stride == 1) return run(std::integral_constant<int64_t, 1>());
  if (stride == 2) return run(std::integral_constant<int64_t, 2>());
  run(stride);
}

/// Maxima of windows of kWidth neighbours in one row, which has `size` elements after `padding`
/// elements of padding.
template <int kWidth, typename Stride, std::floating_point T>
requires(kWidth == 2 || kWidth == 3) void max_pool_row(const T* x, int64_t size, int64_t padding,
                                                       Stride stride, int64_t count, T* y) {
  const auto larger = [](T best, T value) {
    return (!(best >= value) & (best == best)) ? value : best;
  };
  const int64_t first = (padding + stride - 1) / stride;  // window without padding
  const int64_t whole = size + padding - kWidth;
  const int64_t last = std::max(first, std::min(count, whole < 0 ? 0 : whole / stride + 1));
  const auto at_edge = [&](int64_t j) {
    const int64_t start = j * stride - padding;
    T best = -std::numeric_limits<T>::infinity();
    for (int64_t i = std::max<int64_t>(start, 0); i < std::min(start + kWidth, size); ++i)
      best = larger(best, x[i]);
    y[j] = best;
  };
  for (int64_t j = 0; j < std::min(first, count); ++j) at_edge(j);
  const T* from = x + first * stride - padding;
  T* to = y + first;
  int64_t done = 0;
  if constexpr (std::is_same_v<Stride, std::integral_constant<int64_t, 1>>) {
    const auto largest = [](Batch<T> best, Batch<T> value) {
      return xsimd::select((best < value) | ~(value == value), value, best);
    };
    for (; done + kLanes<T> <= last - first; done += kLanes<T>) {
      Batch<T> best = largest(load_batch(from + done), load_batch(from + done + 1));
      if constexpr (kWidth == 3) best = largest(best, load_batch(from + done + 2));
      best.store_unaligned(to + done);
    }
  }
  for (int64_t j = done; j < last - first; ++j) {
    const T pair = larger(from[j * stride], from[j * stride + 1]);
    if constexpr (kWidth == 2)
      to[j] = pair;
    else
      to[j] = larger(pair, from[j * stride + 2]);
  }
  for (int64_t j = last; j < count; ++j) at_edge(j);
}

/// max_pool_row() for the rows of an image. Returns false if the windows are not of this kind.
template <typename Stride, typename T>
bool max_pool_rows(const T* x, const Planes& p, const Strided& w, Stride stride, T* y) {
  if constexpr (std::floating_point<T>) {
    if (w.kernel.height != 1 || w.padding.height != 0 || w.dilation.width != 1) return false;
    // Other strides would require gathers.
    if (w.stride.width != 1 || (w.kernel.width != 2 && w.kernel.width != 3)) return false;
    for (int64_t i = 0; i < p.out_height; ++i, y += p.out_width) {
      const T* row = x + i * w.stride.height * p.width;
      if (w.kernel.width == 2)
        max_pool_row<2>(row, p.width, w.padding.width, stride, p.out_width, y);
      else
        max_pool_row<3>(row, p.width, w.padding.width, stride, p.out_width, y);
    }
    return true;
  }
  return false;
}

/// The windows of an image, up to kWindowsTogether of a row side by side. NaN counts as larger than
/// all numbers; the first of equal elements is kept.
template <bool kIndices, typename Stride, typename T>
void max_pool_plane(const T* x, const Planes& p, const Strided& w, Stride stride, T* y,
                    int32_t* indices) {
  using Wide = Compute<T>;
  if constexpr (!kIndices)
    if (max_pool_rows(x, p, w, stride, y)) return;
  for (int64_t i = 0; i < p.out_height; ++i)
    for (int64_t first = 0; first < p.out_width; first += kWindowsTogether) {
      const int64_t count = std::min(kWindowsTogether, p.out_width - first);
      Wide best[kWindowsTogether];
      int32_t index[kWindowsTogether];
      std::fill_n(best, count, -std::numeric_limits<Wide>::infinity());
      std::fill_n(index, count, -1);
      for_each_window_element(p, w, stride, i, first, count,
                              [&](int64_t base, int64_t begin, int64_t end) {
                                const T* from = x + base;
                                for (int64_t j = begin; j < end; ++j) {
                                  const Wide value = Wide(from[j * stride]);
                                  bool larger = !(best[j] >= value) & (best[j] == best[j]);
                                  if constexpr (kIndices) {
                                    larger |= index[j] < 0;
                                    index[j] = larger ? int32_t(base + j * stride) : index[j];
                                  }
                                  best[j] = larger ? value : best[j];
                                }
                              });
      for (int64_t j = 0; j < count; ++j) y[j] = T(best[j]);
      y += count;
      if constexpr (kIndices) indices = std::copy_n(index, count, indices);
    }
}

template <typename T>
void max_pool_spans(const T* x, int64_t width, const std::vector<Span>& rows,
                    const std::vector<Span>& columns, T* y, int32_t* indices) {
  using Wide = Compute<T>;
  for (const Span& row : rows)
    for (const Span& column : columns) {
      const int32_t first = int32_t(row.begin * width + column.begin);
      WindowMaximum<Wide> best{Wide(x[first]), first};
      for (int64_t i = row.begin; i < row.end; ++i)
        for (int64_t j = column.begin; j < column.end; ++j) {
          const int32_t at = int32_t(i * width + j);
          best.take(Wide(x[at]), at);
        }
      *y++ = T(best.value);
      if (indices != nullptr) *indices++ = best.index;
    }
}

/// Calls pool(x, y, indices) with pointers to each plane; indices may be null.
template <typename T, typename Pool>
void for_each_pooled(const Tensor& x, const Planes& p, Tensor& y, Tensor& indices,
                     const Pool& pool) {
  const T* from = x.data<T>();
  T* to = y.data<T>();
  int32_t* at = indices ? indices.data<int32_t>() : nullptr;
#pragma omp parallel for if (x.numel() > kParallelPlanes)
  for (int64_t n = 0; n < p.count; ++n)
    pool(from + n * p.size(), to + n * p.out_size(), at != nullptr ? at + n * p.out_size() : at);
}

struct MaxPoolHalves {
  static constexpr std::string_view kName = "halves";
  static bool accepts(const Tensor& x, const MaximumWindows& windows, const Tensor& y,
                      const Tensor&) {
    return are_halves(windows, planes_of(x.shape(), y.shape()));
  }
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const MaximumWindows& windows, Tensor& y,
                  Tensor& indices) {
    const Planes p = planes_of(x.shape(), y.shape());
    const int64_t rows = windows.options.kernel_size.height;
    for_each_pooled<T>(x, p, y, indices, [&](const T* from, T* to, int32_t* at) {
      if (at != nullptr)
        max_pool_halves<true>(from, p, rows, to, at);
      else
        max_pool_halves<false>(from, p, rows, to, at);
    });
  }
};

struct MaxPool {
  static constexpr std::string_view kName = "windows";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const MaximumWindows& windows, Tensor& y,
                  Tensor& indices) {
    if (y.numel() == 0) return;  // x may have any size
    const Planes p = planes_of(x.shape(), y.shape());
    std::vector<Span> rows, columns;
    if (windows.adaptive) {
      rows = adaptive_spans(p.out_height, p.height);
      columns = adaptive_spans(p.out_width, p.width);
    }
    for_each_pooled<T>(x, p, y, indices, [&](const T* from, T* to, int32_t* at) {
      if (windows.adaptive)
        max_pool_spans(from, p.width, rows, columns, to, at);
      else
        with_stride(windows.options.stride->width, [&](auto stride) {
          const Strided w(windows.options);
          at != nullptr ? max_pool_plane<true>(from, p, w, stride, to, at)
                        : max_pool_plane<false>(from, p, w, stride, to, at);
        });
    });
  }
};

void unpool_indices(const Tensor& positions, std::string_view op, int64_t size, Tensor& indices) {
  const Shape& shape = positions.shape();
  const int64_t planes = shape[0] * shape[1], count = planes > 0 ? positions.numel() / planes : 0;
  const int64_t* from = positions.data<int64_t>();
  for (int64_t i = 0; i < positions.numel(); ++i)
    if (from[i] < 0 || from[i] >= size)
      fail<IndexError>(op, ": index ", from[i], " is outside [0, ", size, ')');
  std::vector<int32_t> owner(planes > 0 ? size_t(size) : 0);  // 1 + the last source of each
                                                              // position
  for (int64_t n = 0; n < planes; ++n, from += count) {
    int32_t* to = indices.data<int32_t>() + n * count;
    for (int64_t i = 0; i < count; ++i) owner[size_t(from[i])] = int32_t(i) + 1;
    for (int64_t i = 0; i < count; ++i)
      to[i] = owner[size_t(from[i])] == i + 1 ? int32_t(from[i]) : -1;
  }
}

template <typename T>
void gather_pooled(const Tensor& x, const Tensor& indices, Tensor& y) {
  const Planes p = planes_of(x.shape(), y.shape());
#pragma omp parallel for if (x.numel() > kParallelPlanes)
  for (int64_t n = 0; n < p.count; ++n) {
    const T* from = x.data<T>() + n * p.size();
    const int32_t* at = indices.data<int32_t>() + n * p.out_size();
    T* to = y.data<T>() + n * p.out_size();
    for (int64_t i = 0; i < p.out_size(); ++i) to[i] = at[i] < 0 ? T(0.0f) : from[at[i]];
  }
}

/// Calls scatter(dy, indices, dx) with pointers to each plane.
template <typename T, typename Scatter>
void for_each_scattered(const Tensor& dy, const Tensor& indices, const Planes& p, Tensor& dx,
                        const Scatter& scatter) {
  const T* from = dy.data<T>();
  const int32_t* at = indices.data<int32_t>();
  T* to = dx.data<T>();
#pragma omp parallel for if (dx.numel() > kParallelPlanes)
  for (int64_t n = 0; n < p.count; ++n)
    scatter(from + n * p.out_size(), at + n * p.out_size(), to + n * p.size());
}

struct PoolScatterHalves {
  static constexpr std::string_view kName = "halves";
  static bool accepts(const Tensor& dy, const Tensor&, const std::optional<MaximumWindows>& windows,
                      const Tensor& dx) {
    const Planes p = planes_of(dx.shape(), dy.shape());
    return windows && are_halves(*windows, p) && p.out_width >= kWindows;
  }
  static void run(TypeTag<float>, const Tensor& dy, const Tensor& indices,
                  const std::optional<MaximumWindows>& windows, Tensor& dx) {
    const Planes p = planes_of(dx.shape(), dy.shape());
    const int64_t rows = windows->options.kernel_size.height;
    for_each_scattered<float>(dy, indices, p, dx,
                              [&](const float* from, const int32_t* at, float* to) {
                                max_pool_halves_backward(from, at, p, rows, to);
                              });
  }
};

struct PoolScatter {
  static constexpr std::string_view kName = "elements";
  template <std::floating_point T>
  static void run(TypeTag<T>, const Tensor& dy, const Tensor& indices,
                  const std::optional<MaximumWindows>&, Tensor& dx) {
    const Planes p = planes_of(dx.shape(), dy.shape());
    for_each_scattered<T>(dy, indices, p, dx, [&](const T* from, const int32_t* at, T* to) {
      std::fill_n(to, p.size(), T(0));
      for (int64_t i = 0; i < p.out_size(); ++i)
        if (at[i] >= 0) to[at[i]] += from[i];
    });
  }
};

/// Sixteen-bit floats: gradients of overlapping windows are added in float and rounded once.
struct PoolScatterInFloat {
  static constexpr std::string_view kName = "float";
  static void run(OneOf<float16, bfloat16>, const Tensor& dy, const Tensor& indices,
                  const std::optional<MaximumWindows>& windows, Tensor& dx) {
    Tensor sums = Tensor::empty(dx.shape(), f32);
    kernels::pool_scatter(dy.to(f32), indices, windows, sums);
    kernels::copy(sums, dx);
  }
};

/// Calls visit(plane, rows, columns) for every plane.
template <typename Visit>
void for_each_plane(const Planes& p, const AverageWindows& w, Visit visit) {
  if (p.count == 0) return;  // planes may have any size
  const AverageSpans spans = average_spans(p, w);
#pragma omp parallel for if (p.count * (p.size() + p.out_size()) > kParallelPlanes)
  for (int64_t n = 0; n < p.count; ++n) visit(n, spans.rows, spans.columns);
}

/// Returns whether windows of the whole width are summed as one run, in double.
template <typename T>
bool is_contiguous_sum(const Planes& p, const Span& column) {
  return std::is_same_v<T, float> && column.end - column.begin == p.width;
}

/// Means of a row of windows that no window covers whole, side by side.
template <typename Stride, typename T>
void average_row(const T* x, const Planes& p, const Strided& w, Stride stride, int64_t i,
                 int64_t row_count, const std::vector<Span>& columns, T* y) {
  using Wide = Compute<T>;
  for (int64_t first = 0; first < p.out_width; first += kWindowsTogether) {
    const int64_t count = std::min(kWindowsTogether, p.out_width - first);
    Wide sums[kWindowsTogether] = {};
    for_each_window_element(p, w, stride, i, first, count,
                            [&](int64_t base, int64_t begin, int64_t end) {
                              const T* from = x + base;
                              for (int64_t j = begin; j < end; ++j)
                                sums[j] += Wide(from[j * stride]);
                            });
    for (int64_t j = 0; j < count; ++j)
      y[first + j] = T(sums[j] / Wide(row_count * columns[size_t(first + j)].count));
  }
}

template <typename T>
void avg_pool2d(const Tensor& x, const AverageWindows& windows, Tensor& y) {
  const Planes p = planes_of(x.shape(), y.shape());
  using Wide = Compute<T>;
  const T* xs = x.data<T>();
  T* ys = y.data<T>();
  const Strided w(windows.options);
  for_each_plane(p, windows, [&](int64_t n, const auto& rows, const auto& columns) {
    const T* from = xs + n * p.size();
    T* to = ys + n * p.out_size();
    const bool together =
        !windows.adaptive && std::none_of(columns.begin(), columns.end(), [&](const Span& column) {
          return is_contiguous_sum<T>(p, column);
        });
    for (int64_t i = 0; i < p.out_height; ++i) {
      const Span& row = rows[size_t(i)];
      if (together) {
        with_stride(w.stride.width, [&](auto stride) {
          average_row(from, p, w, stride, i, row.count, columns, to);
        });
        to += p.out_width;
        continue;
      }
      for (const Span& column : columns) {
        Wide sum = 0;
        if constexpr (std::is_same_v<T, float>) {
          if (is_contiguous_sum<T>(p, column)) {
            sum = float(sum_in_double(from + row.begin * p.width, (row.end - row.begin) * p.width));
            *to++ = sum / float(row.count * column.count);
            continue;
          }
        }
        for (int64_t i = row.begin; i < row.end; ++i)
          for (int64_t j = column.begin; j < column.end; ++j) sum += Wide(from[i * p.width + j]);
        *to++ = T(sum / Wide(row.count * column.count));
      }
    }
  });
}

/// Adds the gradients of windows to their elements, row by row. Elements of a window are visited in
/// reversed order, so that an element adds the gradients in the order of the windows.
template <typename Stride, typename T>
void spread_plane(const T* dy, const Planes& p, const Strided& w, Stride stride,
                  const std::vector<Span>& rows, const std::vector<Span>& columns, T* dx) {
  for (int64_t i = 0; i < p.out_height; ++i, dy += p.out_width)
    for (int64_t first = 0; first < p.out_width; first += kWindowsTogether) {
      const int64_t count = std::min(kWindowsTogether, p.out_width - first);
      T parts[kWindowsTogether];
      for (int64_t j = 0; j < count; ++j)
        parts[j] = dy[first + j] / T(rows[size_t(i)].count * columns[size_t(first + j)].count);
      for_each_window_element<true>(p, w, stride, i, first, count,
                                    [&](int64_t base, int64_t begin, int64_t end) {
                                      T* to = dx + base;
#pragma omp simd
                                      for (int64_t j = begin; j < end; ++j)
                                        to[j * stride] += parts[j];
                                    });
    }
}

/// Whether each of `size` elements belongs to exactly one window.
bool is_tiled(const std::vector<Span>& windows, int64_t size) {
  int64_t end = 0;
  for (const Span& window : windows) {
    if (window.begin != end) return false;
    end = window.end;
  }
  return end == size;
}

/// Writes the gradients of windows that tile the plane.
template <typename T>
void assign_plane(const T* dy, const Planes& p, const std::vector<Span>& rows,
                  const std::vector<Span>& columns, T* dx) {
  for (const Span& row : rows) {
    T* to = dx;
    int64_t together = columns.size() == 1 ? row.end - row.begin : 1;  // rows of equal elements
    for (const Span& column : columns)
      to = std::fill_n(to, together * (column.end - column.begin),
                       T(0) + *dy++ / T(row.count * column.count));
    for (; together < row.end - row.begin; ++together) to = std::copy_n(dx, p.width, to);
    dx = to;
  }
}

/// Sums overlapping windows. Sixteen-bit floats are summed in float32 and rounded once.
template <typename T>
void avg_pool2d_backward(const Tensor& dy, const AverageWindows& windows, Tensor& dx) {
  if constexpr (sizeof(T) == 2) {
    Tensor sums = Tensor::empty(dx.shape(), f32);
    avg_pool2d_backward<float>(dy.to(f32), windows, sums);
    kernels::copy(sums, dx);
  } else {
    const Planes p = planes_of(dx.shape(), dy.shape());
    const T* dys = dy.data<T>();
    T* dxs = dx.data<T>();
    const Strided w(windows.options);
    for_each_plane(p, windows, [&](int64_t n, const auto& rows, const auto& columns) {
      const T* from = dys + n * p.out_size();
      T* to = dxs + n * p.size();
      if (is_tiled(rows, p.height) && is_tiled(columns, p.width))
        return assign_plane(from, p, rows, columns, to);
      std::fill_n(to, p.size(), T(0));
      if (!windows.adaptive)
        return with_stride(w.stride.width, [&](auto stride) {
          spread_plane(from, p, w, stride, rows, columns, to);
        });
      for (const Span& row : rows)
        for (const Span& column : columns) {
          const T part = *from++ / T(row.count * column.count);
          for (int64_t i = row.begin; i < row.end; ++i)
            for (int64_t j = column.begin; j < column.end; ++j) to[i * p.width + j] += part;
        }
    });
  }
}

struct AvgPool {
  static constexpr std::string_view kName = "windows";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const AverageWindows& windows, Tensor& y) {
    avg_pool2d<T>(x, windows, y);
  }
};
struct AvgPoolBackward {
  static constexpr std::string_view kName = "windows";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& dy, const AverageWindows& windows, Tensor& dx) {
    avg_pool2d_backward<T>(dy, windows, dx);
  }
};

}  // namespace

void register_pool() {
  set_implementations<kernels::max_pool2d, MaxPoolPacked, MaxPoolHalves, MaxPoolRuns, MaxPool>(
      DeviceType::kCpu, kFloatTypes);
  set_implementations<kernels::pool_scatter, PoolScatterPacked, PoolScatterHalves, PoolScatter,
                      PoolScatterInFloat>(DeviceType::kCpu, kFloatTypes);
  set<kernels::unpool_indices>(TypeList<int64_t>{}, [](auto, auto&... a) { unpool_indices(a...); });
  set<kernels::pool_gather>(kFloatTypes,
                            []<typename T>(TypeTag<T>, auto&... a) { gather_pooled<T>(a...); });
  set_implementations<kernels::avg_pool2d, AvgPoolPacked, AvgPool>(DeviceType::kCpu, kFloatTypes);
  set_implementations<kernels::avg_pool2d_backward, AvgPoolBackwardPacked, AvgPoolBackward>(
      DeviceType::kCpu, kFloatTypes);
}

}  // namespace tapegrad::backends::cpu
