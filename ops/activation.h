// Activation functions, elementwise. Floats only.
//
// Functions that take x by value overwrite an operand that the caller moves or does not name, as in
// relu(conv2d(...)), if nothing else refers to its memory and no rule needs it.
#pragma once

#include "core/base/choice.h"
#include "core/tape/variable.h"
#include "ops/activation_composed.h"
#include "ops/unary.h"

namespace tapegrad {

Variable sigmoid(Variable x, Where where = Where::current());  // 1 / (1 + exp(-x))
Variable relu(Variable x, Where where = Where::current());     // max(x, 0); relu'(0) = 0
Variable relu6(Variable x, Where where = Where::current());    // min(max(x, 0), 6)
/// Returns x where x > 0, else negative_slope * x.
Variable leaky_relu(Variable x, double negative_slope = 0.01, Where where = Where::current());
/// Returns x where x > 0, else alpha * (exp(x) - 1).
Variable elu(Variable x, double alpha = 1.0, Where where = Where::current());
/// Returns scale * elu(x, alpha) with the constants of Klambauer et al. 2017.
Variable selu(Variable x, Where where = Where::current());

enum class Gelu { kErf, kTanh };  // or "none", "tanh"
constexpr auto choice_names(Gelu) {
  return std::to_array<ChoiceName<Gelu>>({{"none", Gelu::kErf}, {"tanh", Gelu::kTanh}});
}
/// Returns x * Phi(x), where Phi is the normal distribution function (kErf), or the approximation
/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (kTanh).
/// A template, because g++ 12 otherwise takes {.approximate = "tanh"} for a Choice.
template <typename = void>
Variable gelu(Variable x, Choice<Gelu> approximate = Gelu::kErf, Where where = Where::current());
struct GeluOptions {
  ByName by_name = {};
  Choice<Gelu> approximate = Gelu::kErf;
};
Variable gelu(Variable x, GeluOptions options, Where where = Where::current());

Variable silu(Variable x, Where where = Where::current());  // x * sigmoid(x)
Variable mish(Variable x, Where where = Where::current());  // x * tanh(softplus(x))
/// Returns log(1 + exp(beta x)) / beta; x where beta x > threshold.
Variable softplus(Variable x, double beta = 1.0, double threshold = 20.0,
                  Where where = Where::current());
Variable hardsigmoid(Variable x,
                     Where where = Where::current());            // clamp(x / 6 + 1/2, 0, 1)
Variable hardswish(Variable x, Where where = Where::current());  // x * hardsigmoid(x)
/// Returns log(sigmoid(x)), accurate for large positive and negative x.
Variable logsigmoid(Variable x, Where where = Where::current());
/// Limits x to [min_val, max_val]; the gradient passes where min_val < x < max_val. Throws
/// ArgumentError unless min_val <= max_val.
Variable hardtanh(Variable x, double min_val = -1.0, double max_val = 1.0,
                  Where where = Where::current());

/// In-place variants.
Variable& relu_(Variable& x, Where where = Where::current());
Variable& sigmoid_(Variable& x, Where where = Where::current());

// For ops that have an epilogue:
/// Returns the gradient of relu, computed from its result y. Differentiable again.
Variable relu_gradient(const Variable& dy, const Variable& y);
/// Records gelu(x, Gelu::kTanh) whose value y a kernel has already computed.
Variable gelu_tanh_known(const Variable& x, Tensor y, Where where);

namespace kernels {

// Each kernel computes dx from dy and x, unless marked otherwise.
using ActivationGradient = Kernel<void(const Tensor& dy, const Tensor& x, Tensor& dx)>;

extern Unary sigmoid, relu, gelu_erf, gelu_tanh, silu, mish, hardsigmoid, hardswish, log_sigmoid;
extern ActivationGradient sigmoid_backward, relu_backward;  // dx from dy and y
extern ActivationGradient gelu_erf_backward, gelu_tanh_backward, silu_backward, mish_backward,
    hardswish_backward;
extern Kernel<void(const Tensor& x, double slope, Tensor& y)> leaky_relu;
extern Kernel<void(const Tensor& x, double alpha, double scale, Tensor& y)> elu;
extern Kernel<void(const Tensor& dy, const Tensor& x, double alpha, double scale, Tensor& dx)>
    elu_backward;
extern Kernel<void(const Tensor& x, double beta, double threshold, Tensor& y)> softplus;
extern Kernel<void(const Tensor& dy, const Tensor& x, double beta, double threshold, Tensor& dx)>
    softplus_backward;

}  // namespace kernels

}  // namespace tapegrad
