// Functions<V>: the mathematical functions that formulas call, for a device's value type V. Scalars
// use the C library or CUDA; backends/cpu/tools/functions.h specializes Functions for batches.
#pragma once

#include <cmath>
#include <limits>

#include "core/base/host_device.h"

namespace tapegrad::formulas {

/// The standard normal distribution at x. size: |x|, limited to 40, where the tail is 0 in every
/// float type; tail: the probability beyond size, or 0 instead of a subnormal number, with which
/// some processors are slow; density: the density at x.
template <typename V>
struct Normal {
  V size, tail, density;
};

template <typename V>
struct Functions {
  TG_HD static V exp(V x) { return std::exp(x); }
  TG_HD static V exp2(V x) { return std::exp2(x); }
  TG_HD static V expm1(V x) { return std::expm1(x); }
  TG_HD static V log(V x) { return std::log(x); }
  TG_HD static V log1p(V x) { return std::log1p(x); }
  /// Returns log(1 + x) for x in [0, 1].
  TG_HD static V log1p_of_fraction(V x) { return std::log1p(x); }
  TG_HD static V log2(V x) { return std::log2(x); }
  TG_HD static V log10(V x) { return std::log10(x); }
  TG_HD static V sin(V x) { return std::sin(x); }
  TG_HD static V cos(V x) { return std::cos(x); }
  TG_HD static V tan(V x) { return std::tan(x); }
  TG_HD static V tanh(V x) { return std::tanh(x); }
  TG_HD static V erf(V x) { return std::erf(x); }
  TG_HD static Normal<V> normal(V x) {
    const V size = abs(x) > V(40) ? V(40) : abs(x);
    const V tail = V(0.5) * std::erfc(size * V(0.70710678118654752440));
    return {size, tail < V(sizeof(V) == sizeof(float) ? 0x1p-126 : 0x1p-1022) ? V(0) : tail,
            V(0.39894228040143267794) * std::exp(V(-0.5) * (size * size))};
  }
  /// Returns 1 / (1 + exp(-x)), using the exponential that does not overflow.
  TG_HD static V sigmoid(V x) {
    const V e = std::exp(-std::abs(x));
    return (x < V(0) ? e : V(1)) / (V(1) + e);
  }
  TG_HD static V sqrt(V x) { return std::sqrt(x); }
  TG_HD static V abs(V x) { return x < V(0) || x == V(0) ? V(0) - x : x; }
  TG_HD static V negative(V x) { return -x; }
  /// Returns x, or 0 instead of a subnormal number, with which some processors are slow.
  TG_HD static V normal_or_zero(V x) {
    return std::abs(x) < std::numeric_limits<V>::min() ? V(0) : x;
  }
  /// Returns |size| with the sign of `sign`.
  TG_HD static V copysign(V size, V sign) { return std::copysign(size, sign); }
  TG_HD static V floor(V x) { return std::floor(x); }
  TG_HD static V ceil(V x) { return std::ceil(x); }
  TG_HD static V trunc(V x) { return std::trunc(x); }
  TG_HD static V round(V x) { return std::nearbyint(x); }
};

/// Further functions. Those of one operand are computed in double and rounded once;
/// backends/cpu/tools/functions_special.h specializes them for batches.
template <typename V>
struct SpecialFunctions {
  TG_HD static V sinh(V x) { return V(::sinh(double(x))); }
  TG_HD static V cosh(V x) { return V(::cosh(double(x))); }
  TG_HD static V asin(V x) { return V(::asin(double(x))); }
  TG_HD static V acos(V x) { return V(::acos(double(x))); }
  TG_HD static V atan(V x) { return V(::atan(double(x))); }
  TG_HD static V asinh(V x) { return V(::asinh(double(x))); }
  TG_HD static V acosh(V x) { return V(::acosh(double(x))); }
  TG_HD static V atanh(V x) { return V(::atanh(double(x))); }
  TG_HD static V erfc(V x) { return V(::erfc(double(x))); }
  TG_HD static V atan2(V y, V x) { return std::atan2(y, x); }
  TG_HD static V fmod(V a, V b) { return std::fmod(a, b); }
  TG_HD static V hypot(V a, V b) { return std::hypot(a, b); }
  TG_HD static V pow(V a, V b) { return std::pow(a, b); }
};

}  // namespace tapegrad::formulas
