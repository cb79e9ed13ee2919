#include "ops/pool.h"

#include <limits>

#include "core/op.h"
#include "ops/catalog.h"
#include "ops/window.h"

namespace tapegrad {
namespace kernels {

constinit Kernel<void(const Tensor&, const MaxPool2dOptions&, Tensor&, Tensor&)> max_pool2d{
    "max_pool2d"};
constinit Kernel<void(const Tensor&, const Tensor&, Tensor&)> pool_gather{"pool_gather"};
constinit Kernel<void(const Tensor&, const Tensor&, Tensor&)> pool_scatter{"pool_scatter"};
constinit Kernel<void(const Tensor&, const AverageWindows&, Tensor&)> avg_pool2d{"avg_pool2d"};
constinit Kernel<void(const Tensor&, const AverageWindows&, Tensor&)> avg_pool2d_backward{
    "avg_pool2d_backward"};

}  // namespace kernels

namespace {

void check_images(std::string_view op, const Shape& x) {
  require_images(op, x);
  if (x[2] == 0 || x[3] == 0) fail<ShapeError>(op, ": images without pixels: ", x);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (x[2] > kMost / x[3]) fail<ShapeError>(op, ": more than 2^31 - 1 pixels in an image: ", x);
}

Shape pooled_shape(std::string_view op, const Shape& x, const Windows& windows) {
  check_images(op, x);
  const Size2d size = count_windows(op, x, windows);
  const auto &kernel = windows.kernel, &padding = windows.padding;
  if (padding.height > kernel.height / 2 || padding.width > kernel.width / 2)
    fail<ArgumentError>(op, ": padding (", padding.height, ", ", padding.width,
                        ") is more than half of kernel_size (", kernel.height, ", ", kernel.width,
                        ")");
  return {x[0], x[1], size.height, size.width};
}

Variable gather(const Variable& x, const Tensor& indices);
Variable scatter(const Variable& dy, const Tensor& indices, const Shape& shape);

/// Takes the elements that were the maxima.
struct PoolGather {
  static constexpr std::string_view kName = "max_pool2d_gather";
  Tensor indices;
  Shape shape{};  // of x

  Tensor forward(const Tensor& x) {
    shape = x.shape();
    Tensor y = x.empty_like(indices.shape());
    kernels::pool_gather(x.contiguous(), indices, y);
    return y;
  }
  Variable backward(const Variable& dy) const { return scatter(dy, indices, shape); }
};

/// Puts each gradient where its maximum was: the adjoint of PoolGather.
struct PoolScatter {
  static constexpr std::string_view kName = "max_pool2d_backward";
  Tensor indices;
  Shape shape;  // of the result

  Tensor forward(const Tensor& dy) {
    Tensor dx = dy.empty_like(shape);
    kernels::pool_scatter(dy.contiguous(), indices, dx);
    return dx;
  }
  Variable backward(const Variable& ddx) const { return gather(ddx, indices); }
};

Variable gather(const Variable& x, const Tensor& indices) {
  return apply(PoolGather{indices}, Where::current(), x);
}
Variable scatter(const Variable& dy, const Tensor& indices, const Shape& shape) {
  return apply(PoolScatter{indices, shape}, Where::current(), dy);
}

struct MaxPool2d {
  static constexpr std::string_view kName = "max_pool2d";
  MaxPool2dOptions options;
  Tensor indices{};  // of the maxima; only when recording
  Shape shape{};     // of x

  Tensor forward(const Tensor& x) {
    shape = x.shape();
    if (!options.stride) options.stride = options.kernel_size;
    Tensor y = x.empty_like(pooled_shape(kName, shape,
                                         {options.kernel_size, *options.stride, options.padding,
                                          options.dilation, options.ceil_mode}));
    if (is_recording()) indices = Tensor::empty(y.shape(), i32, x.device());
    kernels::max_pool2d(x.contiguous(), options, y, indices);
    return y;
  }
  Variable backward(const Variable& dy) const { return scatter(dy, indices, shape); }
};

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

/// Its adjoint: a gradient in equal parts to the elements of its window.
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

std::optional<Size2d> optional_size2d(const Arguments& a, std::string_view name) {
  return a.has(name) ? std::optional(size2d(a, name)) : std::nullopt;
}

}  // namespace

Variable max_pool2d(const Variable& x, MaxPool2dOptions options, Where where) {
  return apply(MaxPool2d{options}, where, x);
}

Variable avg_pool2d(const Variable& x, AvgPool2dOptions options, Where where) {
  if (!options.stride) options.stride = options.kernel_size;
  const Shape to = pooled_shape("avg_pool2d", x.shape(),
                                {.kernel = options.kernel_size,
                                 .stride = *options.stride,
                                 .padding = options.padding,
                                 .ceil_mode = options.ceil_mode});
  return apply(AvgPool{{.options = options}, to}, where, x);
}

Variable adaptive_avg_pool2d(const Variable& x, Size2d output_size, Where where) {
  check_images("adaptive_avg_pool2d", x.shape());
  if (output_size.height < 1 || output_size.width < 1)
    fail<ArgumentError>("adaptive_avg_pool2d: output_size must be positive: (", output_size.height,
                        ", ", output_size.width, ")");
  const Shape to{x.shape()[0], x.shape()[1], output_size.height, output_size.width};
  return apply(AvgPool{{.adaptive = true}, to}, where, x);
}

void catalog_pool(Catalog& catalog) {
  catalog.add(
      "max_pool2d(input, kernel_size: ints, stride: ints = none, padding: ints = 0, "
      "dilation: ints = 1, ceil_mode: bool = false)",
      "the largest of each window", [](const Arguments& a) {
        return max_pool2d(a[0], {.kernel_size = size2d(a, "kernel_size"),
                                 .stride = optional_size2d(a, "stride"),
                                 .padding = size2d(a, "padding"),
                                 .dilation = size2d(a, "dilation"),
                                 .ceil_mode = a.flag("ceil_mode")});
      });
  catalog.add(
      "avg_pool2d(input, kernel_size: ints, stride: ints = none, padding: ints = 0, "
      "ceil_mode: bool = false, count_include_pad: bool = true)",
      "the mean of each window", [](const Arguments& a) {
        return avg_pool2d(a[0], {.kernel_size = size2d(a, "kernel_size"),
                                 .stride = optional_size2d(a, "stride"),
                                 .padding = size2d(a, "padding"),
                                 .ceil_mode = a.flag("ceil_mode"),
                                 .count_include_pad = a.flag("count_include_pad")});
      });
  catalog.add("adaptive_avg_pool2d(input, output_size: ints)",
              "means over windows that divide the image evenly", [](const Arguments& a) {
                return adaptive_avg_pool2d(a[0], size2d(a, "output_size"));
              });
}

}  // namespace tapegrad
