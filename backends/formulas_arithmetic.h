// Formulas of ops/arithmetic.h. backends/formulas.h explains how formulas are written.
#pragma once

#include <limits>
#include <numeric>
#include <type_traits>

#include "backends/formulas.h"
#include "backends/functions.h"

namespace tapegrad::formulas {

struct Xlogy {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    const V y = a * Functions<V>::log(b);
    return select((a == V(0)) & (b == b), V(0), y);
  }
};

/// max + log(1 + exp(-|a - b|)); two equal infinities give this infinity.
struct LogAddExp {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    using F = Functions<V>;
    const V larger = Maximum{}(a, b);
    const V y = larger + F::log1p_of_fraction(F::exp(F::negative(F::abs(a - b))));
    return select((a == b) & !(a - b == V(0)), a, y);
  }
};

/// Gradient of logaddexp(a, b) in a.
struct LogAddExpBackward {
  template <typename V>
  TG_HD V operator()(V dy, V a, V b) const {
    return dy / (Functions<V>::exp(b - a) + V(1));
  }
};

struct LogAddExp2 {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    using F = Functions<V>;
    const V larger = Maximum{}(a, b), log2_e(1.44269504088896340736);
    const V y = larger + F::log1p_of_fraction(F::exp2(F::negative(F::abs(a - b)))) * log2_e;
    return select((a == b) & !(a - b == V(0)), a, y);
  }
};

/// The gradient of y = logsumexp(x). If all of a row of x is -inf, y is too.
struct LogSumExpBackward {
  template <typename V>
  TG_HD V operator()(V dy, V x, V y) const {
    const V finite = select(y == V(-std::numeric_limits<double>::infinity()), V(0), y);
    // A share is 0 if its product with a small gradient, such as that of a mean, is subnormal.
    const V share = Functions<V>::exp(x - finite);
    const V scaled = Functions<V>::normal_or_zero(share * V(0x1p-12));
    return select(scaled == V(0), V(0), share) * dy;
  }
};

/// 0, b or 1 by the sign of a; NaN stays NaN.
struct Heaviside {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    const V sign = select(a > V(0), V(1), select(a < V(0), V(0), a));
    return select(a == V(0), b, sign);
  }
};

struct NextAfter {
  static constexpr bool kScalar = true;
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    return std::nextafter(a, b);
  }
};

struct Hypot {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    return SpecialFunctions<V>::hypot(a, b);
  }
};

/// Gradient of y = hypot(a, b) in a.
struct HypotBackward {
  template <typename V>
  TG_HD V operator()(V dy, V a, V y) const {
    return dy * (a / select(y == V(0), V(1), y));
  }
};

/// Returns whether rest, which has the sign of a, is not 0 and b has the other sign.
template <typename V>
TG_HD auto is_opposite(V rest, V b) {
  return ((rest < V(0)) & (b > V(0))) | ((rest > V(0)) & (b < V(0)));
}

/// The result has the sign of b.
struct Remainder {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    const V rest = Fmod{}(a, b);
    return select(is_opposite(rest, b), V(rest + b), rest);
  }
};

/// (a - fmod(a, b)) / b is an integer except for rounding; subtract 1 if the signs differ.
struct FloorDivide {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    if constexpr (std::is_integral_v<V>) {
      if (b == V(0)) return V(0);
      if (std::is_signed_v<V> && b == V(-1)) return V(0u - std::make_unsigned_t<V>(a));
      const V quotient = a / b;
      return a % b != 0 && (a < V(0)) != (b < V(0)) ? V(quotient - 1) : quotient;
    } else {
      const V rest = Fmod{}(a, b), ratio = a / b;
      V quotient = Functions<V>::round((a - rest) / b);
      quotient = select(is_opposite(rest, b), quotient - V(1), quotient);
      // 0 with the sign of the ratio
      quotient = select(quotient == V(0), ratio * V(0), quotient);
      return select(b == V(0), ratio, quotient);
    }
  }
};

/// If just one operand is NaN, the result is the other one.
struct Fmax {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    return select((a > b) | !(b == b), a, b);
  }
};
struct Fmin {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    return select((a < b) | !(b == b), a, b);
  }
};

/// a * 2^b. 2^largest and 2^-largest are normal numbers. Three such factors lead from the smallest
/// number beyond the largest. The largest factor comes last, so that a result is rounded once.
struct Ldexp {
  double largest;

  template <typename V>
  TG_HD V operator()(V a, V b) const {
    if (!any(!(Functions<V>::abs(b) <= V(largest)))) return a * Functions<V>::exp2(b);
    const V first = within(b), rest = b - first;
    const V second = within(rest), third = within(rest - second);
    a = a * Functions<V>::exp2(third) * Functions<V>::exp2(second);
    return a * Functions<V>::exp2(first);
  }

 private:
  template <typename V>
  TG_HD V within(V exponent) const {
    const V low = select(exponent < V(-largest), V(-largest), exponent);
    return select(low > V(largest), V(largest), low);
  }
};

struct BitwiseAnd {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    return V(a & b);
  }
};
struct BitwiseOr {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    return V(a | b);
  }
};
struct BitwiseXor {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    return V(a ^ b);
  }
};
struct LeftShift {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    constexpr V kBits = V(sizeof(V) * 8);
    return b < V(0) || b >= kBits ? V(0) : V(std::make_unsigned_t<V>(a) << b);
  }
};
struct RightShift {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    constexpr V kBits = V(sizeof(V) * 8);
    return b < V(0) || b >= kBits ? V(a < V(0) ? -1 : 0) : V(a >> b);
  }
};
/// Computed from magnitudes; the magnitude of the lowest integer wraps around.
struct Gcd {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    uint64_t x = a < V(0) ? 0u - uint64_t(a) : uint64_t(a);
    uint64_t y = b < V(0) ? 0u - uint64_t(b) : uint64_t(b);
    while (y != 0) {
      const uint64_t rest = x % y;
      x = y;
      y = rest;
    }
    return V(x);
  }
};

/// The result wraps around.
struct Lcm {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    const V divisor = Gcd{}(a, b);
    if (divisor == V(0)) return V(0);
    const V product = V(uint64_t(a) * uint64_t(b / divisor));
    return product < V(0) ? V(0u - uint64_t(product)) : product;
  }
};

struct Copysign {
  template <typename V>
  TG_HD V operator()(V a, V b) const {
    return Functions<V>::copysign(a, b);
  }
};

struct Addcmul {
  double value;
  template <typename V>
  TG_HD V operator()(V x, V a, V b) const {
    return x + a * b * V(value);
  }
};
struct Addr {
  double beta, alpha;
  template <typename V>
  TG_HD V operator()(V x, V a, V b) const {
    return x * V(beta) + a * b * V(alpha);
  }
};
struct Addcdiv {
  double value;
  template <typename V>
  TG_HD V operator()(V x, V a, V b) const {
    return x + a / b * V(value);
  }
};

/// Computed from the nearer end, so that both ends are exact.
struct Lerp {
  template <typename V>
  TG_HD V operator()(V start, V end, V weight) const {
    const V range = end - start;
    return select(Functions<V>::abs(weight) < V(0.5), start + weight * range,
                  end - range * (V(1) - weight));
  }
};

}  // namespace tapegrad::formulas
