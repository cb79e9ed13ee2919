// conv2d by cuDNN, or by columns (im2col) and matrix products; also unfold and fold.
#include "ops/conv.h"

#include "backends/cuda/blas/blas.h"
#include "backends/cuda/cudnn/available.h"
#include "backends/cuda/cudnn/conv.h"
#include "backends/cuda/device/columns.cuh"
#include "backends/cuda/device/map.cuh"
#include "backends/cuda/device/patches.cuh"
#include "backends/cuda/device/reduce_frame.cuh"
#include "backends/cuda/device/reducers.cuh"
#include "backends/cuda/layout/conv_packed.h"
#include "backends/cuda/layout/packed.h"
#include "backends/cuda/register.h"
#include "core/dispatch/kernels.h"
#include "ops/activation.h"

namespace tapegrad::backends::cuda {
namespace {

constexpr int64_t kMostColumns = int64_t(256) << 20;  // bytes of columns at a time

Patches patches_of(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& o) {
  return {Size2d(x[2], x[3]), Size2d(y[2], y[3]), Size2d(weight[2], weight[3]),
          o.stride,           o.padding,          o.dilation};
}

/// The sizes of one group's product: output channels, elements of a window, and positions.
struct Group {
  int64_t out, patch, positions;  // channels; channels x kernel size; output positions
  int64_t count;

  Group(const Shape& weight, const Patches& p, const Conv2dOptions& o)
      : out(weight[0] / o.groups),
        patch(weight[1] * p.kernel.numel()),
        positions(p.count.numel()),
        count(o.groups) {}

  int64_t columns() const { return count * patch * positions; }  // elements for one image
  int64_t result() const { return count * out * positions; }
};

const std::byte* at(const Tensor& x, int64_t element) {
  return x.storage().data() + (x.layout().offset + element) * size_of(x.dtype());
}
std::byte* at(Tensor& x, int64_t element) {
  return x.storage().data() + (x.layout().offset + element) * size_of(x.dtype());
}

/// Calls run(first, images) for as many images at a time as the limit allows.
template <typename Run>
void for_each_chunk(int64_t images, int64_t bytes_of_one, const Run& run) {
  const int64_t most = std::max<int64_t>(1, kMostColumns / std::max<int64_t>(1, bytes_of_one));
  for (int64_t first = 0; first < images; first += most) run(first, std::min(most, images - first));
}

template <typename T>
void write_columns(const Tensor& x, int64_t first, int64_t images, const Patches& p,
                   const Tensor& columns) {
  const int64_t channels = x.shape()[1];
  for_each(images * channels * p.rows(), x,
           ToColumns<T>{x.data<T>() + first * channels * p.size.numel(), columns.data<T>(), p});
}

/// Views one number per channel as a tensor that broadcasts to images.
Tensor of_channels(const Tensor& x) {
  return x.with_layout({{x.numel(), 1, 1}, {1, 1, 1}, x.layout().offset});
}

/// Computes y = w columns(x) + bias.
template <typename T>
void by_columns(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Conv2dOptions& options, Tensor& y) {
  const Patches p = patches_of(x.shape(), weight.shape(), y.shape(), options);
  const Group g(weight.shape(), p, options);
  if (bias) kernels::copy(of_channels(bias), y);
  for_each_chunk(x.shape()[0], g.columns() * size_of(x.dtype()), [&](int64_t n, int64_t images) {
    const Tensor columns = x.empty_like({images * g.columns()});
    write_columns<T>(x, n, images, p, columns);
    for (int64_t i = 0; i < g.count; ++i)
      gemm({g.out, g.positions, g.patch, images, x.dtype(), x.dtype(), bool(bias)},
           {at(weight, i * g.out * g.patch), false, std::max<int64_t>(g.patch, 1), 0},
           {at(columns, i * g.patch * g.positions), false, g.positions, g.columns()},
           at(y, n * g.result() + i * g.out * g.positions), g.positions, g.result(), y);
  });
}

struct AddBias {
  bool relu;
  template <typename V>
  __device__ V operator()(V y, V bias) const {
    const V sum = y + bias;
    return relu && sum <= 0 ? V(0) : sum;  // NaN stays NaN
  }
};

/// Adds the bias and applies the epilogue to the result of a convolution by cuDNN.
template <typename T>
void finish(const Tensor& bias, const Epilogue& epilogue, Tensor& y) {
  const bool relu = bool(bias) && epilogue.activation == Activation::kRelu;
  if (bias) map<T>(AddBias{relu}, y, y, of_channels(bias));
  if (!relu) kernels::run_epilogue(epilogue, y, y);
}

struct ConvCudnnLast {
  static constexpr std::string_view kName = "cudnn_channels_last";
  static constexpr bool kTakesPacked = true;
  static bool accepts(const Tensor& x, const Tensor& weight, const Tensor&,
                      const Conv2dOptions& options, const Epilogue&, const Tensor& y) {
    return y.numel() > 0 && takes_packed_conv2d(x, weight, options, y);
  }
  template <typename T>
  requires(sizeof(T) == 2) static bool run(TypeTag<T>, const Tensor& x, const Tensor& weight,
                                           const Tensor& bias, const Conv2dOptions& options,
                                           const Epilogue& epilogue, Tensor& y) {
    if (!conv2d_packed(x, weight, options, y)) return false;
    finish<T>(bias, epilogue, y);
    return true;
  }
};

struct ConvCudnn {
  static constexpr std::string_view kName = "cudnn";
  static bool accepts(const Tensor& x, const Tensor&, const Tensor&, const Conv2dOptions&,
                      const Epilogue&, const Tensor& y) {
    return y.numel() > 0 && why_no_cudnn(x.device()).empty();
  }
  template <typename T>
  static bool run(TypeTag<T>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y) {
    if (!cudnn_conv2d(x, weight, options, y)) return false;
    finish<T>(bias, epilogue, y);
    return true;
  }
};

struct ConvByColumns {
  static constexpr std::string_view kName = "columns";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y) {
    if (y.numel() == 0) return;
    by_columns<T>(x, weight, bias, options, y);
    kernels::run_epilogue(epilogue, y, y);
  }
};

/// Computes dx = w^T dy, summed back into the image. Columns of sixteen-bit floats are float32.
template <typename T>
void backward_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options,
                    Tensor& dx) {
  using V = Compute<T>;
  const Patches p = patches_of(dx.shape(), weight.shape(), dy.shape(), options);
  const Group g(weight.shape(), p, options);
  const int64_t image = dx.shape()[1] * p.size.numel();
  for_each_chunk(dx.shape()[0], g.columns() * int64_t(sizeof(V)), [&](int64_t n, int64_t images) {
    Tensor columns = Tensor::empty({images * g.columns()}, kDTypeOf<V>, dx.device());
    for (int64_t i = 0; i < g.count; ++i)
      gemm({g.patch, g.positions, g.out, images, dx.dtype(), kDTypeOf<V>},
           {at(weight, i * g.out * g.patch), true, g.patch, 0},
           {at(dy, n * g.result() + i * g.out * g.positions), false, g.positions, g.result()},
           at(columns, i * g.patch * g.positions), g.positions, g.columns(), dx);
    for_each(images * image, dx, FromColumns<V, T>{columns.data<V>(), dx.data<T>() + n * image, p});
  });
}

/// Computes dw = the sum of dy columns(x)^T over the images; each summand is float32 first.
template <typename T>
void backward_weight(const Tensor& dy, const Tensor& x, const Conv2dOptions& options, Tensor& dw) {
  using V = Compute<T>;
  const Patches p = patches_of(x.shape(), dw.shape(), dy.shape(), options);
  const Group g(dw.shape(), p, options);
  const int64_t images = x.shape()[0], size = dw.numel();
  Tensor parts = Tensor::empty({images, size}, kDTypeOf<V>, dw.device());
  for_each_chunk(images, g.columns() * size_of(x.dtype()), [&](int64_t n, int64_t count) {
    const Tensor columns = x.empty_like({count * g.columns()});
    write_columns<T>(x, n, count, p, columns);
    for (int64_t i = 0; i < g.count; ++i)
      gemm({g.out, g.patch, g.positions, count, x.dtype(), kDTypeOf<V>},
           {at(dy, n * g.result() + i * g.out * g.positions), false, g.positions, g.result()},
           {at(columns, i * g.patch * g.positions), true, g.positions, g.columns()},
           at(parts, n * size + i * g.out * g.patch), g.patch, size, dw);
  });
  reduce(SumOf<V, T>{parts.data<V>(), dw.data<T>(), 1}, parts,
         dw.with_layout({{1, size}, {size, 1}, dw.layout().offset}));
}

template <typename T>
void backward(const Tensor& dy, const Epilogue& behind, const Tensor& x, const Tensor& weight,
              const Conv2dOptions& options, Tensor& dx, Tensor& dw, Tensor& db) {
  Tensor dz = dy;
  kernels::run_epilogue_backward(behind, dy, dz);
  const bool empty = dz.numel() == 0 || (dx && dx.numel() == 0) || (dw && dw.numel() == 0);
  if (empty) {
    if (dx) kernels::fill(dx, 0);
    if (dw) kernels::fill(dw, 0);
  } else {
    const PackedGradients done = conv2d_backward_packed(dz, x, weight, options, dx, dw);
    if (dx && !done.x && !cudnn_conv2d_input(dz, weight, options, dx))
      backward_input<T>(dz, weight, options, dx);
    if (dw && !done.weight && !cudnn_conv2d_weight(dz, x, options, dw))
      backward_weight<T>(dz, x, options, dw);
  }
  if (!db) return;
  const int64_t channels = db.numel();
  if (const auto pixels = pixels_of(dz))
    return reduce_columns(SumOf<T>{pixels->data<T>(), db.data<T>(), 1}, *pixels);
  reduce(SumOf<T>{dz.data<T>(), db.data<T>(), 1}, dz,
         db.with_layout({{1, channels, 1, 1}, {channels, 1, 1, 1}, db.layout().offset}));
}

Patches patches_of(const Shape& image, const UnfoldOptions& o) {
  const auto count = [](int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                        int64_t dilation) {
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  };
  const Size2d number(
      count(image[2], o.kernel_size.height, o.stride.height, o.padding.height, o.dilation.height),
      count(image[3], o.kernel_size.width, o.stride.width, o.padding.width, o.dilation.width));
  return {Size2d(image[2], image[3]), number, o.kernel_size, o.stride, o.padding, o.dilation};
}

template <typename T>
void unfold(const Tensor& x, const UnfoldOptions& options, Tensor& columns) {
  for_each(columns.numel(), x,
           ToColumns<T>{x.data<T>(), columns.data<T>(), patches_of(x.shape(), options)});
}

template <typename T>
void fold(const Tensor& columns, const UnfoldOptions& options, Tensor& x) {
  for_each(x.numel(), x,
           FromColumns<T, T>{columns.data<T>(), x.data<T>(), patches_of(x.shape(), options)});
}

}  // namespace

void register_conv() {
  set_implementations<kernels::conv2d, ConvCudnnLast, ConvCudnn, ConvByColumns>(kFloatTypes);
  set<kernels::conv2d_backward>(kFloatTypes,
                                []<typename T>(TypeTag<T>, auto&... a) { backward<T>(a...); },
                                {.takes_packed = true});
  set<kernels::unfold>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { unfold<T>(a...); });
  set<kernels::fold>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { fold<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
