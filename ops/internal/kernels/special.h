// Kernels of the special functions that have no vector form. backends/elementwise/special.h
// registers them for every device.
#pragma once

#include "ops/binary.h"

namespace tapegrad::kernels {

/// Functions of one number that share a kernel. J, Y, I and K are Bessel functions of order 0 and
/// 1; the letter e marks functions times exp(-|x|) (I) or exp(x) (K).
enum class SpecialFunction : int64_t {
  kI0,
  kI0e,
  kI1,
  kI1e,
  kJ0,
  kJ1,
  kY0,
  kY1,
  kK0,
  kK0e,
  kK1,
  kK1e,
  kErfcx,
  kAiryAi,
  kAiryAiSlope
};

/// Computes y = f(x) for the SpecialFunction f.
extern Kernel<void(const Tensor& x, int64_t function, Tensor& y)> special_function;

/// P(a, x) and Q(a, x), the regularised lower and upper incomplete gamma functions.
extern Binary igamma, igammac;
/// The derivative of z ~ Gamma(a, 1) in a, at a fixed probability: -(dP/da) / (dP/dz) for P(a, z).
extern Binary gamma_slope;
/// The Hurwitz zeta function of s and q.
extern Binary zeta;

}  // namespace tapegrad::kernels
