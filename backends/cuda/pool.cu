// Pooling of contiguous [batch, channels, height, width], or of the pixels of packed images.
#include "ops/pool.h"

#include "backends/cuda/cudnn/available.h"
#include "backends/cuda/cudnn/pool.h"
#include "backends/cuda/device/find.cuh"
#include "backends/cuda/device/patches.cuh"
#include "backends/cuda/device/segments.h"
#include "backends/cuda/layout/conv_packed.h"
#include "backends/cuda/layout/packed.h"
#include "backends/cuda/register.h"
#include "core/base/error.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cuda {
namespace {

/// Pooled planes: x and y, or their gradients. `together` planes are interleaved: one for row-major
/// images, all channels of an image for channels-last ones.
struct Planes {
  Extent in, out;
  int64_t together;
  Planes(const Shape& x, const Shape& y, bool packed = false)
      : in(Size2d(x[2], x[3])), out(Size2d(y[2], y[3])), together(packed ? x[1] : 1) {}
};

/// The plane of element i and the element's index in the plane.
struct Place {
  int64_t planes, lane, element;  // index of the interleaved planes, and of the plane among them

  __device__ Place(int64_t i, const Extent& size, int64_t together) {
    const int64_t row = together == 1 ? i : i / together;
    lane = i - row * together;
    planes = row / size.numel();
    element = row - planes * size.numel();
  }
  /// Returns the first element of the same plane among planes of another size; its elements have
  /// stride `together`.
  __device__ int64_t first(const Extent& size, int64_t together) const {
    return planes * size.numel() * together + lane;
  }
};

/// The elements [begin, end) of a window along one dimension, and the divisor's count.
struct Span {
  int64_t begin, end, count;
};
TG_HD inline Span adaptive_span(int64_t i, int64_t number, int64_t size) {
  const int64_t begin = i * size / number, end = ((i + 1) * size + number - 1) / number;
  return {begin, end, end - begin};
}

/// Running maximum of a window. NaN counts as larger than all numbers; the first of equal elements
/// is kept.
template <typename V>
struct WindowMaximum {
  V value;
  int32_t index = -1;
  __device__ void take(V other, int64_t at) {
    if (index >= 0 && (value >= other || value != value)) return;
    value = other;
    index = int32_t(at);
  }
};

template <typename T>
struct MaxPool {
  const T* x;
  T* y;
  int32_t* indices;  // null if not needed
  Planes p;
  Extent kernel, stride, padding, dilation;
  bool adaptive;

  __device__ void operator()(int64_t i) const {
    const Place to(i, p.out, p.together);
    const int32_t element = int32_t(to.element), width = int32_t(p.out.width);  // as indices are
    const int64_t column = element % width, row = element / width;
    const T* plane = x + to.first(p.in, p.together);
    WindowMaximum<Compute<T>> best{-std::numeric_limits<Compute<T>>::infinity()};
    if (adaptive) {
      const Span rows = adaptive_span(row, p.out.height, p.in.height);
      const Span columns = adaptive_span(column, p.out.width, p.in.width);
      for (int64_t a = rows.begin; a < rows.end; ++a)
        for (int64_t b = columns.begin; b < columns.end; ++b) take(best, plane, a * p.in.width + b);
    } else {
      for (int64_t u = 0; u < kernel.height; ++u) {
        const int64_t a = row * stride.height - padding.height + u * dilation.height;
        if (a < 0 || a >= p.in.height) continue;
        for (int64_t v = 0; v < kernel.width; ++v) {
          const int64_t b = column * stride.width - padding.width + v * dilation.width;
          if (b < 0 || b >= p.in.width) continue;
          take(best, plane, a * p.in.width + b);
        }
      }
    }
    y[i] = narrow<T>(best.value);
    if (indices != nullptr) indices[i] = best.index;
  }
  __device__ void take(WindowMaximum<Compute<T>>& best, const T* plane, int64_t at) const {
    best.take(widen(plane[at * p.together]), at);
  }
};

template <typename T>
struct PoolGather {
  const T* x;
  const int32_t* indices;
  T* y;
  int64_t in, out;  // elements of a plane
  __device__ void operator()(int64_t i) const {
    y[i] = indices[i] < 0 ? T{} : x[i / out * in + indices[i]];
  }
};

/// Writes the gradients of pooling to their places. No index may repeat.
template <typename T>
struct PoolScatter {
  const T* dy;
  const int32_t* indices;
  T* dx;
  int64_t in, out;  // elements of a plane
  __device__ void operator()(int64_t i) const {
    if (indices[i] >= 0) dx[i / out * in + indices[i]] = dy[i];
  }
};

/// Windows along one dimension.
struct Windows {
  int64_t number, size, kernel, stride, padding;
  bool adaptive, count_padding;

  __device__ Span span(int64_t i) const {
    if (adaptive) return adaptive_span(i, number, size);
    const int64_t begin = i * stride - padding;
    const int64_t end = begin + kernel < size + padding ? begin + kernel : size + padding;
    const int64_t first = begin > 0 ? begin : 0, last = end < size ? end : size;
    return {first, last, count_padding ? end - begin : last - first};
  }
  /// Returns the windows [begin, end) that may contain an element; with dilation some of them may
  /// not.
  __device__ Span around(int64_t at) const {
    if (adaptive) {
      const int64_t end = ((at + 1) * number + size - 1) / size;
      return {at * number / size, end < number ? end : number, 0};
    }
    const int64_t last = (at + padding) / stride + 1;
    const int64_t low = at + padding - kernel + 1;
    return {low > 0 ? (low + stride - 1) / stride : 0, last < number ? last : number, 0};
  }
};

struct WindowPair {
  Windows rows, columns;

  WindowPair(const Planes& p, bool adaptive, Size2d kernel, std::optional<Size2d> stride,
             Size2d padding, bool count_padding) {
    const Size2d step = stride.value_or(kernel);
    rows = {p.out.height,   p.in.height, kernel.height, step.height,
            padding.height, adaptive,    count_padding};
    columns = {p.out.width,   p.in.width, kernel.width, step.width,
               padding.width, adaptive,   count_padding};
  }
  WindowPair(const Planes& p, const AverageWindows& w)
      : WindowPair(p, w.adaptive, w.options.kernel_size, w.options.stride, w.options.padding,
                   w.options.count_include_pad) {}
  WindowPair(const Planes& p, const MaximumWindows& w)
      : WindowPair(p, w.adaptive, reach(w.options),
                   w.options.stride.value_or(w.options.kernel_size), w.options.padding, false) {}

  /// Returns the distance from the first to the last element, inclusive.
  static Size2d reach(const MaxPool2dOptions& o) {
    return {(o.kernel_size.height - 1) * o.dilation.height + 1,
            (o.kernel_size.width - 1) * o.dilation.width + 1};
  }
};

/// Every element gathers the gradients of the windows whose maximum it is.
template <typename T>
struct MaxPoolBackward {
  const T* dy;
  const int32_t* indices;
  T* dx;
  Planes p;
  WindowPair w;
  __device__ void operator()(int64_t i) const {
    const Place to(i, p.in, p.together);
    const int64_t first = to.first(p.out, p.together);
    const Span over = w.rows.around(to.element / p.in.width);
    const Span across = w.columns.around(to.element % p.in.width);
    Compute<T> sum = 0;
    for (int64_t a = over.begin; a < over.end; ++a)
#pragma unroll 1  // ptxas spills registers of the unrolled loop
      for (int64_t b = across.begin; b < across.end; ++b) {
        const int64_t window = first + (a * p.out.width + b) * p.together;
        if (indices[window] == to.element) sum += widen(dy[window]);
      }
    dx[i] = narrow<T>(sum);
  }
};

template <typename T>
struct AvgPool {
  const T* x;
  T* y;
  Planes p;
  WindowPair w;
  __device__ void operator()(int64_t i) const {
    const Place to(i, p.out, p.together);
    const Span rows = w.rows.span(to.element / p.out.width);
    const Span columns = w.columns.span(to.element % p.out.width);
    const T* plane = x + to.first(p.in, p.together);
    Compute<T> sum = 0;
    for (int64_t a = rows.begin; a < rows.end; ++a)
      for (int64_t b = columns.begin; b < columns.end; ++b)
        sum += widen(plane[(a * p.in.width + b) * p.together]);
    y[i] = narrow<T>(sum / Compute<T>(rows.count * columns.count));
  }
};

/// Every element gathers the gradients of the windows that contain it.
template <typename T>
struct AvgPoolBackward {
  const T* dy;
  T* dx;
  Planes p;
  WindowPair w;
  __device__ void operator()(int64_t i) const {
    const Place to(i, p.in, p.together);
    const int64_t column = to.element % p.in.width, row = to.element / p.in.width;
    const T* plane = dy + to.first(p.out, p.together);
    const Span over = w.rows.around(row), across = w.columns.around(column);
    Compute<T> sum = 0;
    for (int64_t a = over.begin; a < over.end; ++a) {
      const Span rows = w.rows.span(a);
      if (row < rows.begin || row >= rows.end) continue;
      for (int64_t b = across.begin; b < across.end; ++b) {
        const Span columns = w.columns.span(b);
        if (column < columns.begin || column >= columns.end) continue;
        sum += widen(plane[(a * p.out.width + b) * p.together]) /
               Compute<T>(rows.count * columns.count);
      }
    }
    dx[i] = narrow<T>(sum);
  }
};

/// The operands of a pooling kernel, or their gradients: row-major, or the pixels of packed images.
struct Pooled {
  Tensor from, to;
  bool is_packed, is_mean;  // is_mean: images of a single pixel, for which both orders are equal

  ImageLayout layout() const {
    return is_packed ? ImageLayout::kChannelsLast : ImageLayout::kChannelsFirst;
  }
  void finish(const Tensor& result) const {
    if (is_packed && !is_mean) set_packed(result);
  }

  static Pooled maxima(const Tensor& x, const Tensor& y, const Tensor& indices) {
    const auto pixels = pixels_of(x);
    const bool packed = pixels && can_be_packed(y) && (!indices || can_be_packed(indices));
    return of(x, pixels, y, packed, /*is_mean=*/false);
  }
  static Pooled averages(const Tensor& x, const Tensor& y) {
    const auto pixels = pixels_of(x);
    const bool is_mean = y.shape()[2] * y.shape()[3] == 1;
    return of(x, pixels, y, pixels && (is_mean || can_be_packed(y)), is_mean);
  }
  static Pooled gradients_of_averages(const Tensor& dy, const Tensor& dx) {
    const auto pixels = pixels_of(dy);
    // The gradient of a mean gets the layout that convolutions use.
    const bool is_wanted =
        dy.shape()[2] * dy.shape()[3] == 1 && are_packed(dx.dtype(), dx.shape()[1], dx.device());
    return of(dy, pixels, dx, (pixels || is_wanted) && can_be_packed(dx), /*is_mean=*/false);
  }

 private:
  static Pooled of(const Tensor& from, const std::optional<Tensor>& pixels, const Tensor& to,
                   bool packed, bool is_mean) {
    return {!packed  ? from
            : pixels ? *pixels
                     : channels_last(from),
            packed ? pixels_to_write(to) : to, packed, is_mean};
  }
};

// Implementations by cuDNN have the conditions of cudnn/pool.h. Images are packed or row-major.

struct MaxPoolCudnn {
  static constexpr std::string_view kName = "cudnn";
  static constexpr bool kTakesPacked = true;
  static bool accepts(const Tensor& x, const MaximumWindows&, const Tensor&,
                      const Tensor& indices) {
    return !indices && why_no_cudnn(x.device()).empty();
  }
  static bool run(OneOf<float, float16, bfloat16>, const Tensor& x, const MaximumWindows& windows,
                  Tensor& y, Tensor& indices) {
    Pooled images = Pooled::maxima(x, y, indices);
    if (!cudnn_max_pool2d(images.from, windows, images.to, images.layout())) return false;
    images.finish(y);
    return true;
  }
};

struct MaxPoolWindows {
  static constexpr std::string_view kName = "windows";
  static constexpr bool kTakesPacked = true;
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const MaximumWindows& windows, Tensor& y,
                  Tensor& indices) {
    const MaxPool2dOptions& o = windows.options;
    const Pooled images = Pooled::maxima(x, y, indices);
    for_each(
        y.numel(), y,
        MaxPool<T>{images.from.data<T>(), y.data<T>(), indices ? indices.data<int32_t>() : nullptr,
                   Planes(x.shape(), y.shape(), images.is_packed), o.kernel_size,
                   o.stride.value_or(o.kernel_size), o.padding, o.dilation, windows.adaptive});
    images.finish(y);
    if (indices) images.finish(indices);
  }
};

struct AvgPoolCudnn {
  static constexpr std::string_view kName = "cudnn";
  static constexpr bool kTakesPacked = true;
  static bool accepts(const Tensor& x, const AverageWindows&, const Tensor&) {
    return why_no_cudnn(x.device()).empty();
  }
  static bool run(OneOf<float, float16, bfloat16>, const Tensor& x, const AverageWindows& windows,
                  Tensor& y) {
    Pooled images = Pooled::averages(x, y);
    if (!cudnn_avg_pool2d(images.from, windows, images.to, images.layout())) return false;
    images.finish(y);
    return true;
  }
};

struct AvgPoolWindows {
  static constexpr std::string_view kName = "windows";
  static constexpr bool kTakesPacked = true;
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const AverageWindows& windows, Tensor& y) {
    const Pooled images = Pooled::averages(x, y);
    const Planes p(x.shape(), y.shape(), images.is_packed);
    for_each(y.numel(), y,
             AvgPool<T>{images.from.data<T>(), y.data<T>(), p, WindowPair(p, windows)});
    images.finish(y);
  }
};

struct AvgPoolBackwardCudnn {
  static constexpr std::string_view kName = "cudnn";
  static constexpr bool kTakesPacked = true;
  static bool accepts(const Tensor& dy, const AverageWindows&, const Tensor&) {
    return why_no_cudnn(dy.device()).empty();
  }
  static bool run(OneOf<float, float16, bfloat16>, const Tensor& dy, const AverageWindows& windows,
                  Tensor& dx) {
    Pooled images = Pooled::gradients_of_averages(dy, dx);
    if (!cudnn_avg_pool2d_backward(images.from, windows, images.to, images.layout())) return false;
    images.finish(dx);
    return true;
  }
};

struct AvgPoolBackwardWindows {
  static constexpr std::string_view kName = "windows";
  static constexpr bool kTakesPacked = true;
  template <typename T>
  static void run(TypeTag<T>, const Tensor& dy, const AverageWindows& windows, Tensor& dx) {
    const Pooled images = Pooled::gradients_of_averages(dy, dx);
    const Planes p(dx.shape(), dy.shape(), images.is_packed);
    for_each(dx.numel(), dx,
             AvgPoolBackward<T>{images.from.data<T>(), dx.data<T>(), p, WindowPair(p, windows)});
    images.finish(dx);
  }
};

struct Outside {
  int64_t size;
  __device__ bool operator()(int64_t position) const { return position < 0 || position >= size; }
};
struct PositionKeys {
  const int64_t* positions;
  int64_t* keys;
  int64_t size, count;
  __device__ void operator()(int64_t i) const { keys[i] = i / count * size + positions[i]; }
};
/// Of elements with equal key, the last one keeps its position.
struct KeepLast {
  const int64_t *keys, *order, *positions;
  int32_t* indices;
  int64_t total;
  __device__ void operator()(int64_t i) const {
    const bool last = i + 1 == total || keys[i + 1] != keys[i];
    indices[order[i]] = last ? int32_t(positions[order[i]]) : -1;
  }
};

void unpool_indices(const Tensor& positions, std::string_view op, int64_t size, Tensor& indices) {
  const auto bad = find_first<int64_t>(positions, Outside{size});
  if (bad.index >= 0) fail<IndexError>(op, ": index ", bad.value, " is outside [0, ", size, ')');
  const int64_t planes = positions.shape()[0] * positions.shape()[1], total = positions.numel();
  if (total == 0) return;
  const Tensor keys = Tensor::empty({total}, i64, positions.device());
  for_each(total, keys,
           PositionKeys{positions.data<int64_t>(), keys.data<int64_t>(), size, total / planes});
  const Sorted sorted = sort_keys(keys, bits_for(planes * size));
  for_each(total, keys,
           KeepLast{sorted.keys.data<int64_t>(), sorted.order.data<int64_t>(),
                    positions.data<int64_t>(), indices.data<int32_t>(), total});
}

template <typename T>
void pool_gather(const Tensor& x, const Tensor& indices, Tensor& y) {
  const Planes p(x.shape(), y.shape());
  for_each(y.numel(), y,
           PoolGather<T>{x.data<T>(), indices.data<int32_t>(), y.data<T>(), p.in.numel(),
                         p.out.numel()});
}

template <typename T>
void pool_scatter(const Tensor& dy, const Tensor& indices,
                  const std::optional<MaximumWindows>& windows, Tensor& dx) {
  if (!windows) {
    const Planes p(dx.shape(), dy.shape());
    kernels::fill(dx, 0);
    return for_each(dy.numel(), dx,
                    PoolScatter<T>{dy.data<T>(), indices.data<int32_t>(), dx.data<T>(),
                                   p.in.numel(), p.out.numel()});
  }
  // Uses the packed layout of the pooled image: neighbouring gradients probably have it, too.
  const bool packed = pixels_of(indices) && can_be_packed(dx);
  const Planes p(dx.shape(), dy.shape(), packed);
  const Tensor gradient = packed ? pixels_or_copy(dy) : dy;
  const Tensor places = packed ? pixels_or_copy(indices) : indices;
  for_each(dx.numel(), dx,
           MaxPoolBackward<T>{gradient.data<T>(), places.data<int32_t>(), dx.data<T>(), p,
                              WindowPair(p, *windows)});
  if (packed) set_packed(dx);
}

}  // namespace

void register_pool() {
  set_implementations<kernels::max_pool2d, MaxPoolCudnn, MaxPoolWindows>(kFloatTypes);
  set_implementations<kernels::avg_pool2d, AvgPoolCudnn, AvgPoolWindows>(kFloatTypes);
  set_implementations<kernels::avg_pool2d_backward, AvgPoolBackwardCudnn, AvgPoolBackwardWindows>(
      kFloatTypes);
  set<kernels::pool_gather>(kFloatTypes,
                            []<typename T>(TypeTag<T>, auto&... a) { pool_gather<T>(a...); });
  set<kernels::pool_scatter>(kFloatTypes,
                             []<typename T>(TypeTag<T>, auto&... a) { pool_scatter<T>(a...); },
                             {.takes_packed = true});
  set<kernels::unpool_indices>(TypeList<int64_t>{}, [](auto, auto&... a) { unpool_indices(a...); });
}

}  // namespace tapegrad::backends::cuda
