// Elementwise ops of one variable that may be given away, for tests of overwriting.
#pragma once

#include <vector>

#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/special.h"
#include "ops/unary.h"

namespace tapegrad {

/// Operands of the ops besides x.
struct Operands {
  Variable full, positive;  // constants of x's shape
  Variable row;             // a leaf that broadcasts to x's shape
  Variable number, whole;   // float64 of rank 0; int64 of x's shape
  Variable mask;            // bool

  Operands(const Shape& shape, const Shape& row_shape)
      : full(randn(shape)),
        positive(rand(shape) + 0.5),
        row(randn(row_shape).requires_grad_()),
        number(full_like_number()),
        whole(randint(-3, 4, shape)),
        mask(rand(shape) > 0.5) {}

 private:
  static Variable full_like_number() { return tapegrad::full({}, 0.7, {.dtype = f64}); }
};

struct ElementwiseStep {
  const char* name;
  Variable (*call)(Variable x, const Operands& o);
};

/// Returns the steps. The first step limits x to [-2, 2]; the values of the other steps are finite
/// for such x.
inline const std::vector<ElementwiseStep>& elementwise_steps() {
  using O = const Operands&;
  static const std::vector<ElementwiseStep> steps{
      {"clamp", [](Variable x, O) { return clamp(std::move(x), {.min = -2, .max = 2}); }},
      {"neg", [](Variable x, O) { return neg(std::move(x)); }},
      {"abs", [](Variable x, O) { return abs(std::move(x)); }},
      {"exp", [](Variable x, O) { return exp(std::move(x)); }},
      {"expm1", [](Variable x, O) { return expm1(std::move(x)); }},
      {"square", [](Variable x, O) { return square(std::move(x)); }},
      {"sin", [](Variable x, O) { return sin(std::move(x)); }},
      {"cos", [](Variable x, O) { return cos(std::move(x)); }},
      {"tanh", [](Variable x, O) { return tanh(std::move(x)); }},
      {"erf", [](Variable x, O) { return erf(std::move(x)); }},
      {"step", [](Variable x, O) { return step(std::move(x)); }},
      {"sinh", [](Variable x, O) { return sinh(std::move(x)); }},
      {"cosh", [](Variable x, O) { return cosh(std::move(x)); }},
      {"atan", [](Variable x, O) { return atan(std::move(x)); }},
      {"asinh", [](Variable x, O) { return asinh(std::move(x)); }},
      {"erfc", [](Variable x, O) { return erfc(std::move(x)); }},
      {"sinc", [](Variable x, O) { return sinc(std::move(x)); }},
      {"sigmoid", [](Variable x, O) { return sigmoid(std::move(x)); }},
      {"silu", [](Variable x, O) { return silu(std::move(x)); }},
      {"gelu", [](Variable x, O) { return gelu(std::move(x)); }},
      {"hardswish", [](Variable x, O) { return hardswish(std::move(x)); }},
      {"mish", [](Variable x, O) { return mish(std::move(x)); }},
      {"logsigmoid", [](Variable x, O) { return logsigmoid(std::move(x)); }},
      {"hardsigmoid", [](Variable x, O) { return hardsigmoid(std::move(x)); }},
      {"relu6", [](Variable x, O) { return relu6(std::move(x)); }},
      {"leaky_relu", [](Variable x, O) { return leaky_relu(std::move(x)); }},
      {"elu", [](Variable x, O) { return elu(std::move(x)); }},
      {"selu", [](Variable x, O) { return selu(std::move(x)); }},
      {"softplus", [](Variable x, O) { return softplus(std::move(x)); }},
      {"hardtanh", [](Variable x, O) { return hardtanh(std::move(x)); }},
      {"nan_to_num", [](Variable x, O) { return nan_to_num(std::move(x)); }},
      {"x + 1.5", [](Variable x, O) { return std::move(x) + 1.5; }},
      {"0.5 - x", [](Variable x, O) { return 0.5 - std::move(x); }},
      {"2 * x", [](Variable x, O) { return 2 * std::move(x); }},
      {"x / 3", [](Variable x, O) { return std::move(x) / 3; }},
      {"-x", [](Variable x, O) { return -std::move(x); }},
      {"pow(x, 2)", [](Variable x, O) { return pow(std::move(x), 2); }},
      {"pow(x, 3)", [](Variable x, O) { return pow(std::move(x), 3); }},
      {"pow(2, x)", [](Variable x, O) { return pow(2, std::move(x)); }},
      {"maximum(x, 0.1)", [](Variable x, O) { return maximum(std::move(x), 0.1); }},
      {"minimum(0.1, x)", [](Variable x, O) { return minimum(0.1, std::move(x)); }},
      {"fmod(x, 0.7)", [](Variable x, O) { return fmod(std::move(x), 0.7); }},
      {"remainder(x, 0.7)", [](Variable x, O) { return remainder(std::move(x), 0.7); }},
      {"x + full", [](Variable x, O o) { return std::move(x) + o.full; }},
      {"full - x", [](Variable x, O o) { return o.full - std::move(x); }},
      {"x * full", [](Variable x, O o) { return std::move(x) * o.full; }},
      {"x / positive", [](Variable x, O o) { return std::move(x) / o.positive; }},
      {"x * row", [](Variable x, O o) { return std::move(x) * o.row; }},
      {"row - x", [](Variable x, O o) { return o.row - std::move(x); }},
      {"logaddexp(row, x)", [](Variable x, O o) { return logaddexp(o.row, std::move(x)); }},
      {"atan2(x, positive)", [](Variable x, O o) { return atan2(std::move(x), o.positive); }},
      {"hypot(x, positive)", [](Variable x, O o) { return hypot(std::move(x), o.positive); }},
      {"x * number", [](Variable x, O o) { return std::move(x) * o.number; }},
      {"x + whole", [](Variable x, O o) { return std::move(x) + o.whole; }},
      {"lerp(x, full, row)", [](Variable x, O o) { return lerp(std::move(x), o.full, o.row); }},
      {"lerp(full, x, 0.3)", [](Variable x, O o) { return lerp(o.full, std::move(x), 0.3); }},
      {"addcmul(x, full, row)",
       [](Variable x, O o) { return addcmul(std::move(x), o.full, o.row, 0.5); }},
      {"where(mask, x, row)", [](Variable x, O o) { return where(o.mask, std::move(x), o.row); }},
      {"where(mask, 0.5, x)", [](Variable x, O o) { return where(o.mask, 0.5, std::move(x)); }},
      {"masked_fill", [](Variable x, O o) { return masked_fill(std::move(x), o.mask, 0.25); }},
      {"x.tanh()", [](Variable x, O) { return std::move(x).tanh(); }},
      {"x.mul(row)", [](Variable x, O o) { return std::move(x).mul(o.row); }},
      {"x.pow(2)", [](Variable x, O) { return std::move(x).pow(2); }},
      {"dropout",
       [](Variable x, O) {
         RandomGenerator generator(7);
         return dropout(std::move(x), 0.3, true, generator);
       }},
  };
  return steps;
}

}  // namespace tapegrad
