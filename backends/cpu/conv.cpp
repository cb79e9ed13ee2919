#include <algorithm>
#include <concepts>

#include "backends/cpu/dnnl/conv_dnnl.h"
#include "backends/cpu/fast/conv_depthwise_volume.h"
#include "backends/cpu/fast/conv_grouped.h"
#include "backends/cpu/fast/conv_points.h"
#include "backends/cpu/fast/conv_small.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/gemm.h"
#include "backends/cpu/tools/im2col.h"
#include "backends/cpu/tools/optional.h"
#include "backends/cpu/tools/reduce_block.h"
#include "backends/cpu/tools/reducers.h"
#include "backends/cpu/tools/share.h"
#include "core/dispatch/kernels.h"
#include "ops/internal/conv_volume.h"

namespace tapegrad::backends::cpu {
namespace {

Patches patches_of(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& o) {
  return {{x[2], x[3]}, {y[2], y[3]}, {weight[2], weight[3]}, o.stride, o.padding, o.dilation};
}

/// The sizes of one group's product: output channels, elements of a window, and positions.
struct GroupSizes {
  int64_t out, patch, positions;  // channels; channels x kernel size; output positions
};
GroupSizes group_of(const Shape& weight, const Patches& p, const Conv2dOptions& o) {
  return {weight[0] / o.groups, weight[1] * p.kernel_numel(), p.number()};
}

/// Computes the columns (im2col) of all channels of one image.
template <typename T>
void all_columns(const T* image, int64_t channels, const Patches& p, T* columns) {
  const int64_t rows = p.kernel_numel() * p.number();
#pragma omp parallel for if (channels * rows > kParallel)
  for (int64_t c = 0; c < channels; ++c)
    im2col(image + c * p.size.height * p.size.width, p, columns + c * rows);
}

/// Computes y = w columns(x) + bias, one image after another.
template <typename T>
void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options,
            Tensor& y) {
  const Patches p = patches_of(x.shape(), weight.shape(), y.shape(), options);
  const GroupSizes g = group_of(weight.shape(), p, options);
  const int64_t in = x.shape()[1], out = weight.shape()[0];
  const int64_t image = in * p.size.height * p.size.width;
  const Tensor columns = x.empty_like({in * p.kernel_numel(), g.positions});
  for (int64_t n = 0; n < x.shape()[0]; ++n) {
    T* to = y.data<T>() + n * out * g.positions;
    if (bias)
      for (int64_t o = 0; o < out; ++o)
        std::fill_n(to + o * g.positions, g.positions, bias.data<T>()[o]);
    all_columns(x.data<T>() + n * image, in, p, columns.data<T>());
    for (int64_t i = 0; i < options.groups; ++i)
      gemm<T>(g.out, g.positions, g.patch, {weight.data<T>() + i * g.out * g.patch, g.patch, 1},
              {columns.data<T>() + i * g.patch * g.positions, g.positions, 1},
              to + i * g.out * g.positions, g.positions, /*accumulate=*/bool(bias));
  }
}

/// Computes dx: the columns w^T dy, summed back into the image.
template <typename T>
void backward_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options,
                    Tensor& dx) {
  const Patches p = patches_of(dx.shape(), weight.shape(), dy.shape(), options);
  const GroupSizes g = group_of(weight.shape(), p, options);
  const int64_t in = dx.shape()[1], out = weight.shape()[0];
  const int64_t plane = p.size.height * p.size.width;
  const int64_t rows = p.kernel_numel() * g.positions;  // rows of columns per channel
  const Tensor columns = dy.empty_like({in, rows});
  for (int64_t n = 0; n < dx.shape()[0]; ++n) {
    const T* from = dy.data<T>() + n * out * g.positions;
    for (int64_t i = 0; i < options.groups; ++i)
      gemm<T>(g.patch, g.positions, g.out, {weight.data<T>() + i * g.out * g.patch, 1, g.patch},
              {from + i * g.out * g.positions, g.positions, 1},
              columns.data<T>() + i * g.patch * g.positions, g.positions);
    T* to = dx.data<T>() + n * in * plane;
#pragma omp parallel for if (in * rows > kParallel)
    for (int64_t c = 0; c < in; ++c) {
      std::fill_n(to + c * plane, plane, T(0));
      col2im(columns.data<T>() + c * rows, p, to + c * plane);
    }
  }
}

/// Computes dw, the sum of dy columns(x)^T over the images.
template <typename T>
void backward_weight(const Tensor& dy, const Tensor& x, const Conv2dOptions& options, Tensor& dw) {
  const Patches p = patches_of(x.shape(), dw.shape(), dy.shape(), options);
  const GroupSizes g = group_of(dw.shape(), p, options);
  const int64_t in = x.shape()[1], out = dw.shape()[0];
  const int64_t image = in * p.size.height * p.size.width;
  const Tensor columns = x.empty_like({in * p.kernel_numel(), g.positions});
  for (int64_t n = 0; n < x.shape()[0]; ++n) {
    const T* from = dy.data<T>() + n * out * g.positions;
    all_columns(x.data<T>() + n * image, in, p, columns.data<T>());
    for (int64_t i = 0; i < options.groups; ++i)
      gemm<T>(g.out, g.patch, g.positions, {from + i * g.out * g.positions, g.positions, 1},
              {columns.data<T>() + i * g.patch * g.positions, 1, g.positions},
              dw.data<T>() + i * g.out * g.patch, g.patch, /*accumulate=*/n > 0);
  }
}

/// Computes db, the sum of dy over images and positions, in double.
template <typename T>
void backward_bias(const Tensor& dy, Tensor& db) {
  const int64_t batch = dy.shape()[0], out = dy.shape()[1];
  const int64_t plane = dy.shape()[2] * dy.shape()[3];
  const T* gradient = dy.data<T>();
#pragma omp parallel for if (dy.numel() > kParallel)
  for (int64_t o = 0; o < out; ++o) {
    double sum = 0;
    for (int64_t n = 0; n < batch; ++n) {
      const T* from = gradient + (n * out + o) * plane;
      for (int64_t i = 0; i < plane; i += kBlock)
        sum += reduce_block(WideSumOf<T>{}, from + i, std::min(kBlock, plane - i));
    }
    db.data<T>()[o] = T(sum);
  }
}

struct ConvColumns {
  static constexpr std::string_view kName = "columns";
  template <std::floating_point T>
  static void run(TypeTag<T>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y) {
    if (y.numel() == 0) return;
    conv2d<T>(x, weight, bias, options, y);
    kernels::run_epilogue(epilogue, y, y);
  }
};

struct ConvBackwardColumns {
  static constexpr std::string_view kName = "columns";
  template <std::floating_point T>
  static void run(TypeTag<T>, const Tensor& dy, const Epilogue& behind, const Tensor& x,
                  const Tensor& weight, const Conv2dOptions& options, Tensor& dx, Tensor& dw,
                  Tensor& db) {
    const bool empty = dy.numel() == 0 || (dx && dx.numel() == 0) || (dw && dw.numel() == 0);
    Tensor dz = dy;
    kernels::run_epilogue_backward(behind, dy, dz);
    const auto clear = [](Tensor& y) { kernels::fill(y, 0); };
    if (dx) empty ? clear(dx) : backward_input<T>(dz, weight, options, dx);
    if (dw) empty ? clear(dw) : backward_weight<T>(dz, x, options, dw);
    if (db) backward_bias<T>(dz, db);
  }
};

Tensor widened(const Tensor& narrow) { return narrow ? narrow.to(f32) : Tensor(); }
void narrow_into(const Tensor& from, Tensor& to) {
  if (to) kernels::copy(from, to);
}

/// Sixteen-bit floats: accumulates in float and rounds once.
struct ConvInFloat {
  static constexpr std::string_view kName = "float";
  static void run(OneOf<float16, bfloat16>, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, const Conv2dOptions& options, const Epilogue& epilogue,
                  Tensor& y) {
    Tensor result = wide_like(y);
    kernels::conv2d(widened(x), widened(weight), widened(bias), options, {}, result);
    narrow_into(result, y);
    kernels::run_epilogue(epilogue, y, y);  // of rounded values
  }
};

struct ConvBackwardInFloat {
  static constexpr std::string_view kName = "float";
  static void run(OneOf<float16, bfloat16>, const Tensor& dy, const Epilogue& behind,
                  const Tensor& x, const Tensor& weight, const Conv2dOptions& options, Tensor& dx,
                  Tensor& dw, Tensor& db) {
    Tensor to_x = wide_like(dx), to_w = wide_like(dw), to_b = wide_like(db);
    kernels::conv2d_backward(widened(dy), {behind.activation, widened(behind.at)}, widened(x),
                             widened(weight), options, to_x, to_w, to_b);
    narrow_into(to_x, dx), narrow_into(to_w, dw), narrow_into(to_b, db);
  }
};

Patches patches_of(const Shape& image, const UnfoldOptions& o) {
  const auto count = [](int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                        int64_t dilation) {
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  };
  const Size2d number{
      count(image[2], o.kernel_size.height, o.stride.height, o.padding.height, o.dilation.height),
      count(image[3], o.kernel_size.width, o.stride.width, o.padding.width, o.dilation.width)};
  return {{image[2], image[3]}, number, o.kernel_size, o.stride, o.padding, o.dilation};
}

template <typename T>
void unfold(const Tensor& x, const UnfoldOptions& options, Tensor& columns) {
  const Patches p = patches_of(x.shape(), options);
  const int64_t planes = x.shape()[0] * x.shape()[1], plane = p.size.height * p.size.width;
  const int64_t rows = p.kernel_numel() * p.number();
#pragma omp parallel for if (planes * rows > kParallel)
  for (int64_t i = 0; i < planes; ++i)
    im2col(x.data<T>() + i * plane, p, columns.data<T>() + i * rows);
}

/// Sixteen-bit floats are summed in a float32 plane per thread.
template <typename T>
void fold(const Tensor& columns, const UnfoldOptions& options, Tensor& x) {
  const Patches p = patches_of(x.shape(), options);
  const int64_t planes = x.shape()[0] * x.shape()[1], plane = p.size.height * p.size.width;
  const int64_t rows = p.kernel_numel() * p.number();
  if constexpr (sizeof(T) == 2) {
    Tensor sums = wide_like(x);
    fold<float>(columns.to(f32), options, sums);
    return narrow_into(sums, x);
  } else {
#pragma omp parallel for if (planes * rows > kParallel)
    for (int64_t i = 0; i < planes; ++i) {
      std::fill_n(x.data<T>() + i * plane, plane, T(0));
      col2im(columns.data<T>() + i * rows, p, x.data<T>() + i * plane);
    }
  }
}

}  // namespace

void register_conv() {
  constexpr DeviceType kCpu = DeviceType::kCpu;
  set_implementations<kernels::conv2d, ConvPoints, ConvSmall, ConvGrouped, ConvDnnl, ConvColumns,
                      ConvInFloat>(kCpu, kFloatTypes);
  set_implementations<kernels::conv2d_backward, ConvBackwardPoints, ConvBackwardSmall,
                      ConvBackwardGrouped, ConvBackwardDnnl, ConvBackwardColumns,
                      ConvBackwardInFloat>(kCpu, kFloatTypes);
  constexpr TypeList<float, bfloat16> kDnnlTypes{};
  set_implementations<kernels::conv3d, ConvDepthwiseVolume, ConvSmallVolume, ConvVolumeDnnl>(
      kCpu, kDnnlTypes);
  set_implementations<kernels::conv3d_backward, ConvBackwardDepthwiseVolume,
                      ConvBackwardSmallVolume, ConvVolumeBackwardDnnl>(kCpu, kDnnlTypes);
  set<kernels::unfold>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { unfold<T>(a...); });
  set<kernels::fold>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { fold<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
