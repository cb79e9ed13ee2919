// Formulas of ops/unary.h. backends/formulas.h explains how formulas are written.
#pragma once

#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include "backends/formulas.h"
#include "backends/functions.h"

namespace tapegrad::formulas {

struct Neg {
  template <typename V>
  TG_HD V operator()(V x) const {
    if constexpr (std::is_integral_v<V>)
      return V(0u - std::make_unsigned_t<V>(x));  // wraps around
    else
      return Functions<V>::negative(x);
  }
};
struct Abs {
  template <typename V>
  TG_HD V operator()(V x) const {
    if constexpr (std::is_integral_v<V>)
      return x < V(0) ? Neg{}(x) : x;
    else
      return Functions<V>::abs(x);
  }
};
struct Sign {
  template <typename V>
  TG_HD V operator()(V x) const {  // NaN stays NaN
    return select(x > V(0), V(1), select(x < V(0), V(-1), x));
  }
};
struct Cube {
  template <typename V>
  TG_HD V operator()(V x) const {
    return x * x * x;
  }
};
struct Square {
  template <typename V>
  TG_HD V operator()(V x) const {
    if constexpr (std::is_integral_v<V>)
      return V(std::make_unsigned_t<V>(x) * std::make_unsigned_t<V>(x));  // wraps around
    else
      return x * x;
  }
};
struct Reciprocal {
  template <typename V>
  TG_HD V operator()(V x) const {
    return V(1) / x;
  }
};
struct Sqrt {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::sqrt(x);
  }
};
struct Rsqrt {
  template <typename V>
  TG_HD V operator()(V x) const {
    return V(1) / Functions<V>::sqrt(x);
  }
};
struct Exp {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::exp(x);
  }
};
struct Expm1 {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::expm1(x);
  }
};
struct Log {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::log(x);
  }
};
struct Log1p {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::log1p(x);
  }
};
struct Log2 {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::log2(x);
  }
};
struct Log10 {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::log10(x);
  }
};
struct Sin {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::sin(x);
  }
};
struct Cos {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::cos(x);
  }
};
struct Tan {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::tan(x);
  }
};
struct Tanh {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::tanh(x);
  }
};
struct Erf {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::erf(x);
  }
};

// Gradients dx of dy. y is the result of the function of x.

struct AbsBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return dy * Sign{}(x);
  }
};
struct SquareBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return dy * (x * V(2));
  }
};
struct CubeBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return dy * (x * x * V(3));
  }
};
struct Expm1Backward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return dy * Functions<V>::exp(x);
  }
};
struct Log1pBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return dy / (x + V(1));
  }
};
struct SqrtBackward {
  template <typename V>
  TG_HD V operator()(V dy, V y) const {
    return dy / (y * V(2));
  }
};
struct RsqrtBackward {
  template <typename V>
  TG_HD V operator()(V dy, V y) const {
    return dy * (y * y * y * V(-0.5));
  }
};
struct ReciprocalBackward {
  template <typename V>
  TG_HD V operator()(V dy, V y) const {
    return -(dy * (y * y));
  }
};
struct SinBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return dy * Functions<V>::cos(x);
  }
};
struct CosBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return -(dy * Functions<V>::sin(x));
  }
};
struct TanBackward {
  template <typename V>
  TG_HD V operator()(V dy, V y) const {
    return dy * (y * y + V(1));
  }
};
struct TanhBackward {
  template <typename V>
  TG_HD V operator()(V dy, V y) const {
    return dy * (V(1) - y * y);
  }
};
struct ErfBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    return dy * (Functions<V>::exp(-(x * x)) * V(2 * std::numbers::inv_sqrtpi));
  }
};

struct Floor {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::floor(x);
  }
};
struct Ceil {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::ceil(x);
  }
};
struct Round {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::round(x);
  }
};
struct Trunc {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::trunc(x);
  }
};
struct Step {
  template <typename V>
  TG_HD V operator()(V x) const {
    return select(x > V(0), V(1), V(0));
  }
};
struct Exp2 {
  template <typename V>
  TG_HD V operator()(V x) const {
    return Functions<V>::exp2(x);
  }
};
struct Frac {
  template <typename V>
  TG_HD V operator()(V x) const {
    return x - Functions<V>::trunc(x);
  }
};
template <typename S>
struct Logit {
  S low, high;
  template <typename V>
  TG_HD V operator()(V x) const {
    const V p = select(x < V(low), V(low), select(x > V(high), V(high), x));
    return Functions<V>::log(p / (V(1) - p));
  }
};
template <typename S>
struct LogitBackward {
  S low, high;
  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    const V p = x * (V(1) - x);  // negative outside of [0, 1], where the logarithm is NaN
    const V known = select(p < V(0), V(std::numeric_limits<S>::quiet_NaN()), p);
    return select((x < V(low)) | (x > V(high)), V(0), dy / known);
  }
};
struct LogicalNot {
  template <typename V>
  TG_HD bool operator()(V x) const {
    return x == V(0);
  }
};
/// Negation of a bool that is stored in a byte. Vectorises, in contrast to a negation of bools.
struct FlipBool {
  TG_HD uint8_t operator()(uint8_t x) const { return uint8_t(x ^ 1u); }
};
struct SignBit {
  template <typename V>
  TG_HD bool operator()(V x) const {  // g++ 12 fails to vectorise signbit()
    return std::copysign(V(1), x) < V(0);
  }
};
struct IsNan {
  template <typename V>
  TG_HD bool operator()(V x) const {
    return x != x;
  }
};
struct IsFinite {
  template <typename V>
  TG_HD bool operator()(V x) const {
    if constexpr (std::is_integral_v<V>)
      return true;
    else
      return x - x == V(0);
  }
};

/// NaN stays NaN; low > high gives high.
template <typename S>
struct Clamp {
  S low, high;

  template <typename V>
  TG_HD V operator()(V x) const {
    const V y = select(x < V(low), V(low), x);
    return select(y > V(high), V(high), y);
  }
};

/// dy times a factor that is constant below, between and above two bounds. A factor of 0 gives 0
/// for any dy. NaN counts as between.
template <typename S>
struct Piecewise {
  S low, high, below, between, above;
  bool closed;  // whether the bounds belong to `between`

  template <typename V>
  TG_HD V operator()(V dy, V x) const {
    const auto is_below = closed ? x < V(low) : x <= V(low);
    const auto is_above = closed ? x > V(high) : x >= V(high);
    const V factor = select(is_below, V(below), select(is_above, V(above), V(between)));
    return select(factor == V(0), V(0), dy * factor);
  }
};

}  // namespace tapegrad::formulas
