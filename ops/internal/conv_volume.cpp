#include "ops/internal/conv_volume.h"

#include "core/tape/op.h"
#include "ops/internal/conv_gradients.h"
#include "ops/reduce.h"

namespace tapegrad {
namespace kernels {

using detail::conv_flops;

constinit decltype(conv3d) conv3d{
    "conv3d", [](const Tensor&, const Tensor& weight, const Tensor&, const Conv3dOptions&,
                 Tensor& y) { return conv_flops(y, weight); }};
constinit decltype(conv3d_backward) conv3d_backward{
    "conv3d_backward", [](const Tensor& dy, const Tensor&, const Tensor& weight,
                          const Conv3dOptions&, Tensor& dx, Tensor& dw, Tensor&) {
      return (dx ? conv_flops(dy, weight) : 0) + (dw ? conv_flops(dy, dw) : 0);
    }};

}  // namespace kernels

namespace detail {
namespace {

/// conv3d, for ops/internal/conv_gradients.h.
struct Volumes {
  using Options = Conv3dOptions;
  static constexpr std::string_view kInputName = "conv3d_backward_input";
  static constexpr std::string_view kWeightName = "conv3d_backward_weight";

  static Variable conv(const Variable& x, const Variable& weight, const Options& options) {
    return conv3d(x, weight, {}, options);
  }
  static void gradients(const Tensor& dy, const Tensor& x, const Tensor& weight,
                        const Options& options, Tensor& dx, Tensor& dw) {
    Tensor none;
    kernels::conv3d_backward(dy, x, weight, options, dx, dw, none);
  }
};

struct ConvVolume {
  static constexpr std::string_view kName = "conv3d";
  static constexpr size_t kRequired = 2;  // the bias is optional
  Conv3dOptions options;
  Shape y_shape;
  SavedInput<0, /*for*/ 1> x{};
  SavedInput<1, /*for*/ 0> weight{};
  Shape x_shape{}, weight_shape{};
  auto saved() { return std::tie(x, weight); }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    x_shape = x.shape(), weight_shape = weight.shape();
    Tensor y = x.empty_like(y_shape);
    kernels::conv3d(x.contiguous(), weight.contiguous(), bias ? bias.contiguous() : bias, options,
                    y);
    return y;
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = conv_backward_input<Volumes>(dy, weight(), options, x_shape);
    if (needs[1]) dx[1] = conv_backward_weight<Volumes>(dy, x(), options, weight_shape);
    if (needs[2]) dx[2] = sum(dy, {0, 2, 3, 4});
    return dx;
  }
  /// Computes all gradients by one kernel, which converts the layout of dy once.
  std::array<Tensor, 3> kernel_backward(const Tensor& dy, Needs needs) const {
    const Tensor gradient = dy.contiguous();
    Tensor dx, dw, db, from_x, from_weight;
    if (needs[0]) {
      from_weight = weight.value().contiguous();
      dx = gradient.empty_like(x_shape);
    }
    if (needs[1]) {
      from_x = x.value().contiguous();
      dw = gradient.empty_like(weight_shape);
      if (needs[2]) db = gradient.empty_like({weight_shape[0]});
    }
    if (dx || dw) kernels::conv3d_backward(gradient, from_x, from_weight, options, dx, dw, db);
    if (needs[2] && !db) db = sum(Variable(gradient), {0, 2, 3, 4}).value();
    return {std::move(dx), std::move(dw), std::move(db)};
  }
};

}  // namespace

Variable conv_volume(const Variable& x, const Variable& weight, const Variable& bias,
                     const Conv3dOptions& options, const Shape& y, Where where) {
  return apply(ConvVolume{options, y}, where, x, weight, bias);
}
Variable conv_volume_backward_input(const Variable& dy, const Variable& weight,
                                    const Conv3dOptions& options, const Shape& x, Where where) {
  return conv_backward_input<Volumes>(dy, weight, options, x, where);
}

}  // namespace detail
}  // namespace tapegrad
