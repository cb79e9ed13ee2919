// Ops that compute the gradients of a convolution.
//
// A convolution is linear in x and in the weight. f(dy, x, w) = <dy, conv(x, w)> is linear in each
// argument. The convolution and the two ops below are the gradients of f with respect to dy, x and
// w, and the gradients of each of them are the other two. Gradients of any order are therefore
// composed of these ops.
//
// Conv describes a convolution: its Options, the names kInputName and kWeightName of the two ops,
// conv(x, weight, options), and gradients(dy, x, weight, options, dx, dw), which computes dx or dw
// and does not read the tensor that is empty.
#pragma once

#include "core/tape/op.h"

namespace tapegrad::detail {

/// Floating-point operations of the direct algorithm, including products with padding.
inline int64_t conv_flops(const Tensor& y, const Tensor& weight) {
  return 2 * y.numel() * numel(weight.shape(), 1, weight.rank());
}

template <typename Conv>
Variable conv_backward_input(const Variable& dy, const Variable& weight,
                             const typename Conv::Options& options, const Shape& x,
                             Where where = Where::current());
template <typename Conv>
Variable conv_backward_weight(const Variable& dy, const Variable& x,
                              const typename Conv::Options& options, const Shape& weight);

/// The gradient with respect to x: a transposed convolution of dy.
template <typename Conv>
struct ConvBackwardInput {
  static constexpr std::string_view kName = Conv::kInputName;
  typename Conv::Options options;
  Shape x_shape;
  SavedInput<0, /*for*/ 1> dy{};
  SavedInput<1, /*for*/ 0> weight{};
  Shape weight_shape{};
  auto saved() { return std::tie(dy, weight); }

  Tensor forward(const Tensor& dy, const Tensor& weight) {
    weight_shape = weight.shape();
    Tensor dx = dy.empty_like(x_shape), none;
    Conv::gradients(dy.contiguous(), none, weight.contiguous(), options, dx, none);
    return dx;
  }
  std::array<Variable, 2> backward(const Variable& ddx, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = Conv::conv(ddx, weight(), options);
    if (needs[1]) dx[1] = conv_backward_weight<Conv>(dy(), ddx, options, weight_shape);
    return dx;
  }
};

/// The gradient with respect to the weight: the correlation of dy with x.
template <typename Conv>
struct ConvBackwardWeight {
  static constexpr std::string_view kName = Conv::kWeightName;
  typename Conv::Options options;
  Shape weight_shape;
  SavedInput<0, /*for*/ 1> dy{};
  SavedInput<1, /*for*/ 0> x{};
  Shape x_shape{};
  auto saved() { return std::tie(dy, x); }

  Tensor forward(const Tensor& dy, const Tensor& x) {
    x_shape = x.shape();
    Tensor dw = dy.empty_like(weight_shape), none;
    Conv::gradients(dy.contiguous(), x.contiguous(), none, options, none, dw);
    return dw;
  }
  std::array<Variable, 2> backward(const Variable& ddw, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = Conv::conv(x(), ddw, options);
    if (needs[1]) dx[1] = conv_backward_input<Conv>(dy(), ddw, options, x_shape);
    return dx;
  }
};

template <typename Conv>
Variable conv_backward_input(const Variable& dy, const Variable& weight,
                             const typename Conv::Options& options, const Shape& x, Where where) {
  return apply(ConvBackwardInput<Conv>{options, x}, where, dy, weight);
}
template <typename Conv>
Variable conv_backward_weight(const Variable& dy, const Variable& x,
                              const typename Conv::Options& options, const Shape& weight) {
  return apply(ConvBackwardWeight<Conv>{options, weight}, Where::current(), dy, x);
}

}  // namespace tapegrad::detail
