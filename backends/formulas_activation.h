// Formulas of ops/activation.h and their gradients dx, computed from dy and x or y.
#pragma once

#include "backends/formulas.h"
#include "backends/functions.h"

namespace tapegrad::formulas {

struct Sigmoid {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::sigmoid(x);
  }
};
struct SigmoidBackward {
  template <typename V>
  TG_HD V operator()(V dy, V y) const {
    return Functions<V>::normal_or_zero(dy * (y * (V(1) - y)));
  }
};

/// Gradient of log(sigmoid(x)).
struct LogSigmoidBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return dy * Functions<V>::sigmoid(Functions<V>::negative(x));
  }
};

struct Relu {
  template <typename V>
  TG_HD V operator()(V x) const {  // NaN stays NaN, -0 becomes 0
    return select(x <= V(0), V(0), x);
  }
};
struct ReluBackward {
  template <typename V>
  TG_HD V operator()(V dy, V y) const {
    return select(y <= V(0), V(0), dy);
  }
};

struct LeakyRelu {
  double slope;
  template <typename V>
  TG_HD V operator()(V x) const {
    return select(x > V(0), x, x * V(slope));
  }
};

struct Elu {
  double alpha, scale;
  template <typename V>
  TG_HD V operator()(V x) const {
    const V low = select(x > V(0), V(0), x);  // NaN stays NaN
    return V(scale) * select(x > V(0), x, V(alpha) * Functions<V>::expm1(low));
  }
};
struct EluBackward {
  double alpha, scale;
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    const V low = select(x > V(0), V(0), x);
    return dy * (V(scale) * select(x > V(0), V(1), V(alpha) * Functions<V>::exp(low)));
  }
};

/// x times the normal cumulative distribution at x; 0 at -inf, its limit.
struct GeluErf {
  template <typename V>
  TG_HD V operator()(V x) const {
    const Normal<V> normal = Functions<V>::normal(x);
    return select(x < V(0), V(0), x) - normal.size * normal.tail;
  }
};
struct GeluErfBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    const Normal<V> normal = Functions<V>::normal(x);
    const V below = select(x > V(0), V(1) - normal.tail, normal.tail);
    const V bend = select(x > V(0), normal.size, -normal.size) * normal.density;
    return Functions<V>::normal_or_zero(dy * (below + bend));
  }
};

inline constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;

struct GeluTanh {
  template <typename V>
  TG_HD V operator()(V x) const {
    const V inner = V(kGeluScale) * (x + V(kGeluCubic) * (x * x * x));
    const V below = V(1) + Functions<V>::tanh(inner);
    return select(below == V(0), V(0), V(0.5) * x * below);
  }
};
struct GeluTanhBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    const V square = x * x;
    const V t = Functions<V>::tanh(V(kGeluScale) * (x + V(kGeluCubic) * (square * x)));
    const V flat = V(1) - t * t;
    const V slope = V(kGeluScale) * (V(1) + V(3 * kGeluCubic) * square);
    const V bend = select(flat == V(0), V(0), V(0.5) * x * flat * slope);
    return dy * (V(0.5) + V(0.5) * t + bend);
  }
};

/// x sigmoid(x); 0 at -inf, its limit.
struct Silu {
  template <typename V>
  TG_HD V operator()(V x) const {
    const V s = Functions<V>::sigmoid(x);
    return select(s == V(0), V(0), x * s);
  }
};
struct SiluBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    const V s = Functions<V>::sigmoid(x), rest = s * (V(1) - s);
    return Functions<V>::normal_or_zero(dy * (s + select(rest == V(0), V(0), x * rest)));
  }
};

/// tanh(softplus(x)) = n / (n + 2) with n = e (e + 2) and e = exp(x), which needs no logarithm.
/// Above x = 20 the gate is 1.
struct Mish {
  template <typename V>
  TG_HD static V gate(V x) {
    const V e = Functions<V>::exp(select(x > V(20), V(20), x));
    const V n = e * (e + V(2));
    return n / (n + V(2));
  }
  template <typename V>
  TG_HD V operator()(V x) const {
    const V t = gate(x);
    return select(t == V(0), V(0), x * t);
  }
};
struct MishBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    const V t = Mish::gate(x);
    const V rest = Functions<V>::sigmoid(x) * (V(1) - t * t);
    return dy * (t + select(rest == V(0), V(0), x * rest));
  }
};

/// log(1 + exp(z)) = max(z, 0) + log(1 + exp(-|z|)) for z = beta x.
struct Softplus {
  double beta, threshold;
  template <typename V>
  TG_HD V operator()(V x) const {
    const V z = x * V(beta);
    const V tail = Functions<V>::log1p_of_fraction(
        Functions<V>::exp(Functions<V>::negative(Functions<V>::abs(z))));
    const V y = select(z > V(0), z, V(0)) + tail;
    return select(z > V(threshold), x, beta == 1 ? y : y / V(beta));
  }
};
struct SoftplusBackward {
  double beta, threshold;
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    const V z = x * V(beta);
    return select(z > V(threshold), dy, dy * Functions<V>::sigmoid(z));
  }
};

struct Hardsigmoid {
  template <typename V>
  TG_HD V operator()(V x) const {
    const V y = (x + V(3)) / V(6);
    return select(x <= V(-3), V(0), select(x >= V(3), V(1), y));
  }
};
struct Hardswish {
  template <typename V>
  TG_HD V operator()(V x) const {
    return select(x <= V(-3), V(0), select(x >= V(3), x, x * (x + V(3)) / V(6)));
  }
};
struct HardswishBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    const V slope = x / V(3) + V(0.5);
    return select(x <= V(-3), V(0), select(x >= V(3), dy, dy * slope));
  }
};

template <typename S>
struct Threshold {
  S bound, value;
  template <typename V>
  TG_HD V operator()(V x) const {  // NaN stays NaN
    return select(x <= V(bound), V(value), x);
  }
};
template <typename S>
struct Hardshrink {
  S lambd;
  template <typename V>
  TG_HD V operator()(V x) const {
    return select(Functions<V>::abs(x) <= V(lambd), V(0), x);
  }
};
template <typename S>
struct Softshrink {
  S lambd;
  template <typename V>
  TG_HD V operator()(V x) const {
    const V y = select(x < V(-lambd), V(-lambd), x);
    return x - select(y > V(lambd), V(lambd), y);
  }
};
/// (x - target)^2
struct Mse {
  template <typename V>
  TG_HD V operator()(V x, V target) const {
    const V d = x - target;
    return d * d;
  }
};
struct MseBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x, V target) const {
    return dy * ((x - target) * V(2));
  }
};
/// -t log(sigmoid(x)) - (1 - t) log(sigmoid(-x)) = max(x, 0) - t x + log(1 + exp(-|x|)).
struct BceWithLogits {
  template <typename V>
  TG_HD V operator()(V x, V target) const {
    const V tail = Functions<V>::log1p_of_fraction(
        Functions<V>::exp(Functions<V>::negative(Functions<V>::abs(x))));
    // An infinite x gives its limit, or NaN if its product with 0 is needed.
    return x * (select(x <= V(0), V(0), V(1)) - target) + tail;
  }
};
/// dy ((1 - t) sigmoid(x) - t sigmoid(-x)), which keeps its digits for targets 0 and 1.
struct BceWithLogitsBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x, V target) const {
    const V positive = Functions<V>::sigmoid(x);
    const V negative = Functions<V>::sigmoid(Functions<V>::negative(x));
    const V above = select(positive == V(0), V(0), (V(1) - target) * positive);
    const V below = select(negative == V(0), V(0), target * negative);
    return Functions<V>::normal_or_zero(dy * (above - below));
  }
};
/// scale * d^2 / 2 for |d| <= bound and d = x - target, continued by its tangents.
template <typename S>
struct Huber {
  S bound, scale;
  template <typename V>
  TG_HD V clamped(V d) const {
    const V low = select(d < V(-bound), V(-bound), d);
    return select(low > V(bound), V(bound), low);
  }
  template <typename V>
  TG_HD V operator()(V x, V target) const {
    const V d = x - target, near = clamped(d);
    return near * V(scale) * (d - V(0.5f) * near);
  }
};
template <typename S>
struct HuberBackward {
  Huber<S> huber;
  template <typename V>
  TG_HD V operator()(V dy, V x, V target) const {
    return dy * (huber.clamped(x - target) * V(huber.scale));
  }
};
template <typename S>
struct ShrinkBackward {
  S lambd;
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return select(Functions<V>::abs(x) <= V(lambd), V(0), dy);
  }
};

struct Celu {
  double alpha;
  template <typename V>
  TG_HD V operator()(V x) const {
    const V low = select(x > V(0), V(0), x);  // NaN stays NaN
    return select(x > V(0), x, Functions<V>::expm1(low / V(alpha)) * V(alpha));
  }
};
struct CeluBackward {
  double alpha;
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    const V low = select(x > V(0), V(0), x);
    return select(x > V(0), dy, dy * Functions<V>::exp(low / V(alpha)));
  }
};

struct Prelu {
  template <typename V>
  TG_HD V operator()(V x, V weight) const {
    return select(x > V(0), x, weight * x);
  }
};
struct PreluBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x, V weight) const {
    return select(x > V(0), dy, weight * dy);
  }
};
struct PreluBackwardWeight {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return select(x > V(0), V(0), x * dy);
  }
};

struct Glu {
  template <typename V>
  TG_HD V operator()(V a, V gate) const {
    return Functions<V>::normal_or_zero(a * Functions<V>::sigmoid(gate));
  }
};
struct GluBackwardGate {
  template <typename V>
  TG_HD V operator()(V dy, V a, V gate) const {
    const V s = Functions<V>::sigmoid(gate);
    return Functions<V>::normal_or_zero(dy * a * (s * (V(1) - s)));
  }
};

}  // namespace tapegrad::formulas
