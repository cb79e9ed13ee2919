#include "ops/pool.h"

#include <algorithm>

#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/internal/is_recorded.h"
#include "ops/internal/limits.h"
#include "ops/internal/operands.h"
#include "ops/internal/pool_parts.h"
#include "ops/internal/unbatched.h"
#include "ops/internal/window.h"
#include "ops/rearrange.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(max_pool2d) max_pool2d{"max_pool2d"};
constinit decltype(pool_gather) pool_gather{"pool_gather"};
constinit decltype(pool_scatter) pool_scatter{"pool_scatter"};
constinit decltype(unpool_indices) unpool_indices{"max_unpool"};
constinit decltype(avg_pool2d) avg_pool2d{"avg_pool2d"};
constinit decltype(avg_pool2d_backward) avg_pool2d_backward{"avg_pool2d_backward"};

}  // namespace kernels

using namespace detail;

namespace {

void check_images(std::string_view op, const Shape& x) {
  require_images(op, x);
  if (x[2] == 0 || x[3] == 0) fail<ShapeError>(op, ": images without pixels: ", x);
  if (x[2] > kMostCounted / x[3])
    fail<ShapeError>(op, ": more than 2^31 - 1 pixels in an image: ", x);
}

/// The positions of maxima, and the windows they come from.
struct Maxima {
  Tensor indices;
  std::optional<MaximumWindows> windows{};  // empty: no position occurs twice
};
Variable gather(const Variable& x, const Maxima& maxima);
Variable scatter(const Variable& dy, const Maxima& maxima, const Shape& shape);

/// Op that computes y = the elements of x at the positions of the maxima.
struct PoolGather {
  static constexpr std::string_view kName = "max_pool2d_gather";
  Maxima maxima;
  Shape shape{};  // shape of x
  auto saved() { return std::tie(maxima.indices); }

  Tensor forward(const Tensor& x) {
    shape = x.shape();
    Tensor y = x.empty_like(maxima.indices.shape());
    kernels::pool_gather(x.contiguous(), maxima.indices, y);
    return y;
  }
  Variable backward(const Variable& dy) const { return scatter(dy, maxima, shape); }
};

/// Adds each gradient at the position of its maximum: the adjoint of PoolGather.
struct PoolScatter {
  static constexpr std::string_view kName = "max_pool2d_backward";
  Maxima maxima;
  Shape shape;  // shape of the result
  auto saved() { return std::tie(maxima.indices); }

  Tensor forward(const Tensor& dy) {
    Tensor dx = dy.empty_like(shape);
    kernels::pool_scatter(dy.contiguous(), maxima.indices, maxima.windows, dx);
    return dx;
  }
  Variable backward(const Variable& ddx) const { return gather(ddx, maxima); }
};

Variable gather(const Variable& x, const Maxima& maxima) {
  return apply(PoolGather{maxima}, Where::current(), x);
}
Variable scatter(const Variable& dy, const Maxima& maxima, const Shape& shape) {
  return apply(PoolScatter{maxima, shape}, Where::current(), dy);
}

struct MaxPool2d {
  static constexpr std::string_view kName = "max_pool2d";
  MaximumWindows windows;
  Shape to;
  bool is_recorded;
  Tensor indices{};  // positions of the maxima; if recorded or requested
  Shape shape{};     // shape of x
  auto saved() { return std::tie(indices); }

  Tensor forward(const Tensor& x) {
    if (is_wide_integer(x.dtype())) [[unlikely]] {
      require_exact(kName, largest_magnitude(Variable(x)), x.dtype());
      return forward(x.to(f64)).to(x.dtype());
    }
    shape = x.shape();
    Tensor y = x.empty_like(to);
    if (is_recorded && !indices) indices = Tensor::empty(to, i32, x.device());
    kernels::max_pool2d(x.contiguous(), windows, y, indices);
    return y;
  }
  Variable backward(const Variable& dy) const { return scatter(dy, {indices, windows}, shape); }
};

/// Describes a max_pool2d, with or without indices.
MaxPool2d max_pool(std::string_view op, const Variable& x, MaxPool2dOptions options) {
  if (!options.stride) options.stride = options.kernel_size;
  return {.windows = {.options = options},
          .to = pooled_shape(op, x.shape(),
                             {options.kernel_size, *options.stride, options.padding,
                              options.dilation, options.ceil_mode}),
          .is_recorded = is_recorded(x)};
}

Shape adaptive_shape(std::string_view op, const Shape& x, Size2d output_size) {
  check_images(op, x);
  if (output_size.height == -1) output_size.height = x[2];
  if (output_size.width == -1) output_size.width = x[3];
  require_from(op, "output_size", output_size, 1);
  return {x[0], x[1], output_size.height, output_size.width};
}

Variable spread(const Variable& dy, const AverageWindows& windows, const Shape& shape);
Variable average(const Variable& x, const AverageWindows& windows, const Shape& shape);

/// The means of windows; linear.
struct AvgPool {
  static constexpr std::string_view kName = "avg_pool2d";
  AverageWindows windows;
  Shape to;
  Shape from{};

  Tensor forward(const Tensor& x) {
    from = x.shape();
    Tensor y = x.empty_like(to);
    kernels::avg_pool2d(x.contiguous(), windows, y);
    return y;
  }
  Variable backward(const Variable& dy) const { return spread(dy, windows, from); }
};

/// The adjoint of AvgPool: distributes each gradient equally over its window.
struct AvgPoolBackward {
  static constexpr std::string_view kName = "avg_pool2d_backward";
  AverageWindows windows;
  Shape to;
  Shape from{};

  Tensor forward(const Tensor& dy) {
    from = dy.shape();
    Tensor dx = dy.empty_like(to);
    kernels::avg_pool2d_backward(dy.contiguous(), windows, dx);
    return dx;
  }
  Variable backward(const Variable& ddx) const { return average(ddx, windows, from); }
};

Variable spread(const Variable& dy, const AverageWindows& windows, const Shape& shape) {
  return apply(AvgPoolBackward{windows, shape}, Where::current(), dy);
}
Variable average(const Variable& x, const AverageWindows& windows, const Shape& shape) {
  return apply(AvgPool{windows, shape}, Where::current(), x);
}

}  // namespace

Shape detail::pooled_shape(std::string_view op, const Shape& x, const Windows& windows) {
  check_images(op, x);
  const Size2d size = count_windows(op, x, windows);
  const auto &kernel = windows.kernel, &padding = windows.padding;
  if (padding.height > kernel.height / 2 || padding.width > kernel.width / 2)
    fail<ArgumentError>(op, ": padding (", padding.height, ", ", padding.width,
                        ") is more than half of kernel_size (", kernel.height, ", ", kernel.width,
                        ")");
  return {x[0], x[1], size.height, size.width};
}

Variable max_pool2d(const Variable& x, MaxPool2dOptions options, Where where) {
  const ErrorLine line(where);
  if (is_unbatched(x, 2)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) { return max_pool2d(batch, options); });
  return apply(max_pool("max_pool2d", x, options), where, x);
}

ValuesIndices max_pool2d_with_indices(const Variable& x, MaxPool2dOptions options, Where where) {
  const ErrorLine line(where);
  if (is_unbatched(x, 2)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return max_pool2d_with_indices(batch, options); });
  MaxPool2d op = max_pool("max_pool2d_with_indices", x, options);
  const Tensor indices = op.indices = Tensor::empty(op.to, i32, x.device());
  const Variable values = apply(std::move(op), where, x);
  return {values, Variable(indices.to(i64))};
}

Variable adaptive_max_pool2d(const Variable& x, Size2d output_size, Where where) {
  const ErrorLine line(where);
  if (is_unbatched(x, 2)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return adaptive_max_pool2d(batch, output_size); });
  const Shape to = adaptive_shape("adaptive_max_pool2d", x.shape(), output_size);
  return apply(MaxPool2d{.windows = {.adaptive = true}, .to = to, .is_recorded = is_recorded(x)},
               where, x);
}

ValuesIndices adaptive_max_pool2d_with_indices(const Variable& x, Size2d output_size, Where where) {
  const ErrorLine line(where);
  if (is_unbatched(x, 2)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) {
      return adaptive_max_pool2d_with_indices(batch, output_size);
    });
  const Shape to = adaptive_shape("adaptive_max_pool2d_with_indices", x.shape(), output_size);
  const Tensor indices = Tensor::empty(to, i32, x.device());
  const Variable values = apply(MaxPool2d{.windows = {.adaptive = true},
                                          .to = to,
                                          .is_recorded = is_recorded(x),
                                          .indices = indices},
                                where, x);
  return {values, Variable(indices.to(i64))};
}

Variable detail::max_unpool(std::string_view op, const Variable& x, const Variable& indices,
                            const Shape& spatial, Where where) {
  const Shape& from = x.shape();
  if (indices.shape() != from)
    fail<ShapeError>(op, ": indices are ", indices.shape(), " for an input of ", from);
  if (!is_integer(indices.dtype()))
    fail<DTypeError>(op, ": indices are ", indices.dtype(), ", not integers");
  check_same_device(op, x.value(), indices.value());
  const int64_t size = numel(spatial);
  if (size < 1 || size > kMostCounted)
    fail<ShapeError>(op, ": a result of ", spatial, " from an input of ", from);
  Tensor last = Tensor::empty(from, i32, x.device());
  kernels::unpool_indices(indices.value().to(i64).contiguous(), op, size, last);
  const CallLine line(where);
  int64_t count = 1;
  for (int i = 2; i < from.rank(); ++i) count *= from[i];
  const Shape plane{from[0], from[1], 1, count};
  const Variable y =
      scatter(reshape(x, plane), {last.with_layout({plane, contiguous_strides(plane)})},
              {from[0], from[1], 1, size});
  Shape to{from[0], from[1]};
  for (const int64_t each : spatial) to.push_back(each);
  return reshape(y, to);
}

/// Returns the sums of the windows, divided by one number. Zeros are appended to the image for
/// windows of ceil_mode, so that every window has the same size.
static Variable divided_sums(const Variable& x, AvgPool2dOptions options, const Shape& to,
                             Where where) {
  const Size2d kernel = options.kernel_size, stride = *options.stride, padding = options.padding;
  const auto missing = [](int64_t windows, int64_t step, int64_t window, int64_t size) {
    return std::max<int64_t>(0, (windows - 1) * step + window - size);
  };
  const int64_t below = missing(to[2], stride.height, kernel.height, x.size(2) + padding.height);
  const int64_t right = missing(to[3], stride.width, kernel.width, x.size(3) + padding.width);
  const Variable padded = pad(x, {padding.width, std::max(right, padding.width), padding.height,
                                  std::max(below, padding.height)});
  const double size = double(kernel.height) * double(kernel.width);
  return avg_pool2d(padded, {.kernel_size = kernel, .stride = stride}, where) *
         (size / double(*options.divisor_override));
}

Variable avg_pool2d(const Variable& x, AvgPool2dOptions options, Where where) {
  const ErrorLine line(where);
  if (is_unbatched(x, 2)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) { return avg_pool2d(batch, options); });
  if (!options.stride) options.stride = options.kernel_size;
  const Shape to = pooled_shape("avg_pool2d", x.shape(),
                                {.kernel = options.kernel_size,
                                 .stride = *options.stride,
                                 .padding = options.padding,
                                 .ceil_mode = options.ceil_mode});
  check_divisor("avg_pool2d", options.divisor_override);
  if (options.divisor_override && is_float(x.dtype())) [[unlikely]]
    return divided_sums(x, options, to, where);
  if (is_integer(x.dtype())) [[unlikely]] {
    const Size2d kernel = options.kernel_size, stride = *options.stride, padding = options.padding;
    return integer_means(x,
                         {{kernel.height, stride.height, padding.height, to[2]},
                          {kernel.width, stride.width, padding.width, to[3]}},
                         {options.count_include_pad, options.divisor_override});
  }
  return apply(AvgPool{{.options = options}, to}, where, x);
}

Variable adaptive_avg_pool2d(const Variable& x, Size2d output_size, Where where) {
  const ErrorLine line(where);
  if (is_unbatched(x, 2)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return adaptive_avg_pool2d(batch, output_size); });
  const Shape to = adaptive_shape("adaptive_avg_pool2d", x.shape(), output_size);
  return apply(AvgPool{{.adaptive = true}, to}, where, x);
}

void catalog_pool(Catalog& catalog) {
  catalog.add(named("max_pool2d", kMaxPool), "the largest of each window",
              [](const Arguments& a) { return max_pool2d(a[0], max_pool_options(a, size2d)); });
  catalog.add(named("max_pool2d_with_indices", kMaxPool),
              "the largest of each window, and where they are", [](const Arguments& a) {
                return with_indices(max_pool2d_with_indices(a[0], max_pool_options(a, size2d)));
              });
  catalog.add(named("avg_pool2d", kAvgPool), "the mean of each window",
              [](const Arguments& a) { return avg_pool2d(a[0], avg_pool_options(a, size2d)); });
  catalog.add("adaptive_avg_pool2d(input, output_size: ints)",
              "means over windows that divide the image evenly", [](const Arguments& a) {
                return adaptive_avg_pool2d(a[0], size2d(a, "output_size"));
              });
  catalog.add(
      "adaptive_max_pool2d_with_indices(input, output_size: ints)",
      "maxima of windows that divide the image evenly, and where they are", [](const Arguments& a) {
        return with_indices(adaptive_max_pool2d_with_indices(a[0], size2d(a, "output_size")));
      });
  catalog.add("adaptive_max_pool2d(input, output_size: ints)",
              "maxima of windows that divide the image evenly", [](const Arguments& a) {
                return adaptive_max_pool2d(a[0], size2d(a, "output_size"));
              });
}

}  // namespace tapegrad
