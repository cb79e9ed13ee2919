// Elementwise operators.
#include <cmath>
#include <limits>

#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/create.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {
namespace {

using N = const Node&;

/// Converts int8 and int16, which have no arithmetic, to int32.
Variable computed(const Variable& x) { return x.dtype() == i8 || x.dtype() == i16 ? x.to(i32) : x; }

/// Applies f to the first two inputs in a type with arithmetic, and converts the result to the type
/// of the first input.
std::function<Variable(N)> arithmetic(Variable (*f)(Operand, Operand)) {
  return [f](N n) { return f(computed(n[0]), computed(n[1])).to(n[0].dtype()); };
}
std::function<Variable(N)> predicate(Variable (*f)(const Operand&, const Operand&)) {
  return [f](N n) { return f(computed(n[0]), computed(n[1])); };
}
/// Applies f to all inputs from left to right.
std::function<Variable(N)> folded(Variable (*f)(Operand, Operand)) {
  return [f](N n) {
    Variable y = computed(n[0]);
    for (size_t i = 1; i < n.inputs.size(); ++i) y = f(y, computed(n[i]));
    return y.to(n[0].dtype());
  };
}

template <typename F>
std::function<Variable(N)> unary(F f) {
  return [f](N n) { return f(computed(n[0])).to(n[0].dtype()); };
}

Variable clipped(N n) {
  Variable y = computed(n[0]);
  const auto bound = [&](size_t input, const char* name) -> Variable {
    if (n.has(input)) return computed(n[input]);
    return n.has(name) ? scalar(n.real(name, 0), {.dtype = y.dtype()}) : Variable();
  };
  if (const Variable low = bound(1, "min"); low.defined()) y = maximum(y, low);
  if (const Variable high = bound(2, "max"); high.defined()) y = minimum(y, high);
  return y.to(n[0].dtype());
}

Variable is_infinite(N n) {
  const double inf = std::numeric_limits<double>::infinity();
  Variable y = full(n[0].shape(), 0, {.dtype = boolean});
  if (n.flag("detect_positive", true)) y = logical_or(y, n[0] == inf);
  if (n.flag("detect_negative", true)) y = logical_or(y, n[0] == -inf);
  return y;
}

void add_activations(Operators& table) {
  add(table, "Relu", unary([](const Variable& x) { return relu(x); }));
  add(table, "Sigmoid", unary([](const Variable& x) { return sigmoid(x); }));
  add(table, "Softplus", unary([](const Variable& x) { return softplus(x); }));
  add(table, "Softsign", unary([](const Variable& x) { return softsign(x); }));
  add(table, "HardSwish", unary([](const Variable& x) { return hardswish(x); }));
  add(table, "Elu", [](N n) { return elu(n[0], n.real("alpha", 1)); });
  add(table, "Celu", [](N n) { return celu(n[0], n.real("alpha", 1)); });
  add(table, "LeakyRelu", [](N n) { return leaky_relu(n[0], n.real("alpha", 0.01)); });
  add(table, "Selu", [](N n) {
    return elu(n[0], n.real("alpha", 1.67326319217681884765625)) *
           n.real("gamma", 1.05070102214813232421875);
  });
  add(table, "HardSigmoid", [](N n) {
    return clamp(n[0] * n.real("alpha", 0.2) + n.real("beta", 0.5), {.min = 0.0, .max = 1.0});
  });
  add(table, "ThresholdedRelu", [](N n) { return threshold(n[0], n.real("alpha", 1), 0.0); });
  add(table, "PRelu", [](N n) { return where(n[0] < 0.0, n[0] * n[1], n[0]); });
  add(table, "Shrink", [](N n) {
    const double lambd = n.real("lambd", 0.5), bias = n.real("bias", 0);
    return where(n[0] < -lambd, n[0] + bias, where(n[0] > lambd, n[0] - bias, 0.0));
  });
}

}  // namespace

void add_elementwise(Operators& table) {
  add(table, "Abs", unary([](const Variable& x) { return abs(x); }));
  add(table, "Acos", unary([](const Variable& x) { return acos(x); }));
  add(table, "Acosh", unary([](const Variable& x) { return acosh(x); }));
  add(table, "Asin", unary([](const Variable& x) { return asin(x); }));
  add(table, "Asinh", unary([](const Variable& x) { return asinh(x); }));
  add(table, "Atan", unary([](const Variable& x) { return atan(x); }));
  add(table, "Atanh", unary([](const Variable& x) { return atanh(x); }));
  add(table, "Ceil", unary([](const Variable& x) { return ceil(x); }));
  add(table, "Cos", unary([](const Variable& x) { return cos(x); }));
  add(table, "Cosh", unary([](const Variable& x) { return cosh(x); }));
  add(table, "Erf", unary([](const Variable& x) { return erf(x); }));
  add(table, "Exp", unary([](const Variable& x) { return exp(x); }));
  add(table, "Floor", unary([](const Variable& x) { return floor(x); }));
  add(table, "Log", unary([](const Variable& x) { return log(x); }));
  add(table, "Neg", unary([](const Variable& x) { return neg(x); }));
  add(table, "Reciprocal", unary([](const Variable& x) { return reciprocal(x); }));
  add(table, "Round", unary([](const Variable& x) { return round(x); }));
  add(table, "Sign", unary([](const Variable& x) { return sign(x); }));
  add(table, "Sin", unary([](const Variable& x) { return sin(x); }));
  add(table, "Sinh", unary([](const Variable& x) { return sinh(x); }));
  add(table, "Sqrt", unary([](const Variable& x) { return sqrt(x); }));
  add(table, "Tan", unary([](const Variable& x) { return tan(x); }));
  add(table, "Tanh", unary([](const Variable& x) { return tanh(x); }));
  add(table, "Identity", [](N n) { return n[0]; });
  add(table, "Not", [](N n) { return logical_not(n[0]); });
  add(table, "IsNaN", [](N n) { return isnan(n[0]); });
  add(table, "IsInf", is_infinite);
  add(table, "Clip", clipped);

  add(table, "Add", arithmetic(tapegrad::add));
  add(table, "Sub", arithmetic(sub));
  add(table, "Mul", arithmetic(mul));
  add(table, "Pow", arithmetic(pow));
  add(table, "Div", [](N n) {
    const Variable a = computed(n[0]), b = computed(n[1]);
    if (is_float(a.dtype())) return a / b;
    const Variable exact = (a - fmod(a, b)) / b;  // rounds towards 0
    return exact.to(n[0].dtype());
  });
  add(table, "Mod", [](N n) {
    const Variable a = computed(n[0]), b = computed(n[1]);
    return (n.flag("fmod", false) ? fmod(a, b) : remainder(a, b)).to(n[0].dtype());
  });
  add(table, "Max", folded(maximum));
  add(table, "Min", folded(minimum));
  add(table, "Sum", folded(tapegrad::add));
  add(table, "Mean", [](N n) { return folded(tapegrad::add)(n) / double(n.inputs.size()); });
  add(table, "And", predicate(logical_and));
  add(table, "Or", predicate(logical_or));
  add(table, "Xor", predicate(logical_xor));
  add(table, "Equal", predicate(eq));
  add(table, "Less", predicate(lt));
  add(table, "LessOrEqual", predicate(le));
  add(table, "Greater", predicate(gt));
  add(table, "GreaterOrEqual", predicate(ge));
  add(table, "Where", [](N n) { return where(n[0], n[1], n[2]); });
  add(table, "BitShift", [](N n) {
    return n.text("direction", "") == "LEFT" ? bitwise_left_shift(n[0], n[1])
                                             : bitwise_right_shift(n[0], n[1]);
  });
  add(table, "Cast", [](N n) { return n[0].to(dtype_of(n.integer("to", 0))); });
  add(table, "CastLike", [](N n) { return n[0].to(n[1].dtype()); });
  add_activations(table);
}

}  // namespace tapegrad::onnx_conformance
