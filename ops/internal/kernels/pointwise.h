// Kernels of elementwise ops whose public headers declare no kernels. backends/elementwise/
// registers them for every device. Operands broadcast.
#pragma once

#include "ops/binary.h"
#include "ops/unary.h"

namespace tapegrad::kernels {

// ops/activation_composed.h

/// Computes y = value where x <= threshold, else x.
extern Kernel<void(const Tensor& x, double threshold, double value, Tensor& y)> threshold;
extern Kernel<void(const Tensor&x, double lambd, Tensor&y)> hardshrink, softshrink;
/// Gradient of softshrink and hardshrink: dx = 0 where |x| <= lambd, else dy.
extern Kernel<void(const Tensor& dy, const Tensor& x, double lambd, Tensor& dx)> shrink_backward;
extern Kernel<void(const Tensor& x, double alpha, Tensor& y)> celu;
extern Kernel<void(const Tensor& dy, const Tensor& x, double alpha, Tensor& dx)> celu_backward;
/// Computes y = x where x > 0, else weight * x.
extern Binary prelu;
/// Computes dx = dy where x > 0, else weight * dy.
extern Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& weight, Tensor& dx)>
    prelu_backward;
/// Gradient of weight before the summation: 0 where x > 0, else x * dy.
extern Kernel<void(const Tensor& dy, const Tensor& x, Tensor& dweight)> prelu_backward_weight;
/// Computes y = a * sigmoid(gate).
extern Binary glu;
/// Computes da = dy * sigmoid(gate).
extern Kernel<void(const Tensor& dy, const Tensor& gate, Tensor& da)> glu_backward;
extern Kernel<void(const Tensor& dy, const Tensor& a, const Tensor& gate, Tensor& dgate)>
    glu_backward_gate;

// ops/loss.h

/// Computes y = d^2 for d = x - target.
extern Binary mse;
/// Computes dx = dy * 2 d.
extern Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& target, Tensor& dx)>
    mse_backward;
/// Computes y = -t log(sigmoid(x)) - (1 - t) log(sigmoid(-x)) for targets t.
extern Binary bce_with_logits;
/// Computes dx = dy * ((1 - t) sigmoid(x) - t sigmoid(-x)).
extern Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& target, Tensor& dx)>
    bce_with_logits_backward;
/// Computes y = scale * d^2 / 2 where |d| < bound, else scale * bound * (|d| - bound / 2), for
/// d = x - target.
extern Kernel<void(const Tensor& x, const Tensor& target, double bound, double scale, Tensor& y)>
    huber;
/// Computes dx = dy * scale * clamp(d, -bound, bound).
extern Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& target, double bound,
                   double scale, Tensor& dx)>
    huber_backward;

// ops/arithmetic.h, ops/bitwise.h, ops/compare.h, ops/special.h, ops/binary.h

extern Unary exp2, frac;
extern Unary logical_not, signbit;  // y is bool
extern Unary cube;
/// Compute dx = dy * f'(x) from dy and x.
extern Binary abs_backward, square_backward, cube_backward, expm1_backward, log1p_backward,
    sin_backward, cos_backward, erf_backward, log_sigmoid_backward;
extern Binary asin_backward, acos_backward, atan_backward, asinh_backward, acosh_backward,
    atanh_backward, erfc_backward;
/// Compute dx = dy * f'(x) from dy and the result of f.
extern Binary sqrt_backward, rsqrt_backward, reciprocal_backward, tan_backward, tanh_backward;
/// Computes db = -(dy / b) * (a / b), the gradient of a / b in b.
extern Kernel<void(const Tensor& dy, const Tensor& a, const Tensor& b, Tensor& db)> div_backward;
/// Computes da = dy / (exp(b - a) + 1), the gradient of logaddexp(a, b) in a.
extern Kernel<void(const Tensor& dy, const Tensor& a, const Tensor& b, Tensor& da)>
    logaddexp_backward;
/// Computes da = dy * a / y, the gradient of y = hypot(a, b) in a; 0 where y is 0.
extern Kernel<void(const Tensor& dy, const Tensor& a, const Tensor& y, Tensor& da)> hypot_backward;
/// Computes da = sign * dy * b / (a^2 + b^2), the gradient of atan2 in one operand from the other
/// operand b and a sign; 0 where both operands are 0.
extern Kernel<void(const Tensor& dy, const Tensor& a, const Tensor& b, double sign, Tensor& da)>
    atan2_backward;
/// Computes y = |a| with the sign of b.
extern Binary copysign;
extern Binary logaddexp2, heaviside, nextafter;
/// The larger or smaller operand. If just one is NaN, the other one.
extern Binary fmax, fmin;
/// Computes y = a * 2^b.
extern Binary ldexp;
/// The least common multiple of integers.
extern Binary lcm;
/// Computes y = log(p / (1 - p)) for p = x between low and high; low counts if the bounds cross.
extern Kernel<void(const Tensor& x, double low, double high, Tensor& y)> logit;
/// Computes dx = dy / (x * (1 - x)), or 0 beyond the bounds, or NaN where logit is NaN.
extern Kernel<void(const Tensor& dy, const Tensor& x, double low, double high, Tensor& dx)>
    logit_backward;

// ops/arithmetic.h

/// Computes y = x + value * (a * b), and y = x + value * (a / b).
extern Kernel<void(const Tensor&x, const Tensor&a, const Tensor&b, double value, Tensor&y)> addcmul,
    addcdiv;

// ops/products.h

/// Computes y = beta * x + alpha * (a * b).
extern Kernel<void(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha,
                   Tensor& y)>
    addr;

// ops/reduce.h

/// Computes dx = exp(x - y) * dy for y = logsumexp(x), and 0 * dy where y is -inf.
extern Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& y, Tensor& dx)>
    logsumexp_backward;

}  // namespace tapegrad::kernels
