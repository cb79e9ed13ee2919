// Activation functions, elementwise. Floats only.
#pragma once

#include "core/tape/variable.h"
#include "ops/activation_composed.h"
#include "ops/unary.h"

namespace tapegrad {

Variable sigmoid(const Variable& x, Where where = Where::current());  // 1 / (1 + exp(-x))
Variable relu(const Variable& x, Where where = Where::current());     // max(x, 0); relu'(0) = 0
Variable relu6(const Variable& x, Where where = Where::current());    // min(max(x, 0), 6)
/// Returns x where x > 0, else slope * x.
Variable leaky_relu(const Variable& x, double negative_slope = 0.01,
                    Where where = Where::current());
/// Returns x where x > 0, else alpha * (exp(x) - 1).
Variable elu(const Variable& x, double alpha = 1.0, Where where = Where::current());
/// Returns scale * elu(x, alpha) with the constants of Klambauer et al. 2017.
Variable selu(const Variable& x, Where where = Where::current());

enum class Gelu { kErf, kTanh };
/// Returns x * Phi(x), where Phi is the normal distribution function (kErf), or the approximation
/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (kTanh).
Variable gelu(const Variable& x, Gelu approximate = Gelu::kErf, Where where = Where::current());

Variable silu(const Variable& x, Where where = Where::current());  // x * sigmoid(x)
Variable mish(const Variable& x, Where where = Where::current());  // x * tanh(softplus(x))
/// Returns log(1 + exp(beta x)) / beta; x where beta x > threshold.
Variable softplus(const Variable& x, double beta = 1.0, double threshold = 20.0,
                  Where where = Where::current());
Variable hardsigmoid(const Variable& x,
                     Where where = Where::current());                   // clamp(x / 6 + 1/2, 0, 1)
Variable hardswish(const Variable& x, Where where = Where::current());  // x * hardsigmoid(x)
/// Returns log(sigmoid(x)), accurate for large positive and negative x.
Variable logsigmoid(const Variable& x, Where where = Where::current());
/// Limits x to [min_val, max_val]; the gradient passes where min_val < x < max_val. Throws
/// ArgumentError unless min_val <= max_val.
Variable hardtanh(const Variable& x, double min_val = -1.0, double max_val = 1.0,
                  Where where = Where::current());

/// In-place variants.
Variable& relu_(Variable& x, Where where = Where::current());
Variable& sigmoid_(Variable& x, Where where = Where::current());

// For ops with an activation behind.
/// The gradient of relu from its result, to be differentiated again.
Variable relu_gradient(const Variable& dy, const Variable& y);
/// The gradient of gelu(x, Gelu::kTanh), to be differentiated again.
Variable gelu_tanh_gradient(const Variable& dy, const Variable& x);

namespace kernels {

// Gradients dx are computed from dy and x, except where marked.
using ActivationGradient = Kernel<void(const Tensor& dy, const Tensor& x, Tensor& dx)>;

extern Unary sigmoid, relu, gelu_erf, gelu_tanh, silu, mish, hardsigmoid, hardswish, log_sigmoid;
extern ActivationGradient sigmoid_backward, relu_backward;  // from dy and y
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
