#include "backends/cuda/layout/conv_packed.h"

#include "backends/cuda/cudnn/available.h"
#include "backends/cuda/cudnn/conv.h"
#include "backends/cuda/layout/packed.h"
#include "backends/cuda/layout/transpose.h"
#include "backends/cuda/runtime/address.h"

namespace tapegrad::backends::cuda {
namespace {

constexpr ImageLayout kLast = ImageLayout::kChannelsLast;

bool is_fit(DType dtype, const Shape& weight, const Conv2dOptions& options,
            tapegrad::Device device) {
  return options.groups == 1 && weight[1] % 8 == 0 && weight[2] * weight[3] > 0 &&
         are_packed(dtype, weight[0], device);
}

/// Returns the channels-last shape [out, kh, kw, in] of a weight.
Shape filter_shape(const Shape& weight) { return {weight[0], weight[2], weight[3], weight[1]}; }

/// Returns whether row-major and channels-last order are equal, because the kernel is 1 x 1.
bool is_filter(const Shape& weight) { return weight[2] * weight[3] == 1; }
Tensor as_filter(const Tensor& weight) {
  const Shape shape = filter_shape(weight.shape());
  return weight.with_layout(contiguous_layout(shape, weight.layout().offset));
}

Tensor filter_of(const Tensor& weight) {
  const Shape& w = weight.shape();
  if (is_filter(w)) return as_filter(weight);
  const Tensor filter = weight.empty_like(filter_shape(w));
  transpose(address_of(weight), address_of(filter), w[0], w[1], w[2] * w[3],
            size_of(weight.dtype()), weight.device());
  return filter;
}

bool weight_gradient(const Tensor& dy, const Tensor& x, const Conv2dOptions& options, Tensor& dw) {
  const Shape& w = dw.shape();
  Tensor filter = is_filter(w) ? as_filter(dw) : dw.empty_like(filter_shape(w));
  if (!cudnn_conv2d_weight(dy, x, options, filter, kLast)) return false;
  if (!is_filter(w))
    transpose(address_of(filter), address_of(dw), w[0], w[2] * w[3], w[1], size_of(dw.dtype()),
              dw.device());
  return true;
}

}  // namespace

/// Eight channels are the 16 bytes that cuDNN's kernels load at once.
bool are_packed(DType dtype, int64_t channels, tapegrad::Device device) {
  return (dtype == f16 || dtype == bf16) && channels % 8 == 0 && why_no_cudnn(device).empty();
}

bool takes_packed_conv2d(const Tensor& x, const Tensor& weight, const Conv2dOptions& options,
                         const Tensor& y) {
  return is_fit(x.dtype(), weight.shape(), options, x.device()) && can_be_packed(y);
}

bool conv2d_packed(const Tensor& x, const Tensor& weight, const Conv2dOptions& options, Tensor& y) {
  Tensor pixels = pixels_to_write(y);
  if (!cudnn_conv2d(pixels_or_copy(x), filter_of(weight), options, pixels, kLast)) return false;
  set_packed(y);
  return true;
}

PackedGradients conv2d_backward_packed(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                       const Conv2dOptions& options, Tensor& dx, Tensor& dw) {
  PackedGradients done;
  if (!is_fit(dy.dtype(), dw ? dw.shape() : weight.shape(), options, dy.device())) return done;
  const std::optional<Tensor> known_x = dw ? pixels_of(x) : std::nullopt, known_dy = pixels_of(dy);
  // If all images are row-major, cuDNN converts them itself.
  const bool wants_dx = dx && can_be_packed(dx), wants_dw = dw && (known_x || known_dy || wants_dx);
  if (!wants_dx && !wants_dw) return done;
  const Tensor gradient = known_dy ? *known_dy : pixels_or_copy(dy);
  if (wants_dx) {
    Tensor pixels = pixels_to_write(dx);
    done.x = cudnn_conv2d_input(gradient, filter_of(weight), options, pixels, kLast);
  }
  if (wants_dw)
    done.weight = weight_gradient(gradient, known_x ? *known_x : pixels_or_copy(x), options, dw);
  if (done.x) set_packed(dx);
  return done;
}

}  // namespace tapegrad::backends::cuda
