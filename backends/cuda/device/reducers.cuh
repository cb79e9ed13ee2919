// Reducers for reduce_frame.cuh, which explains their interface.
#pragma once

#include <limits>

#include "backends/cuda/device/numeric.cuh"

namespace tapegrad::backends::cuda {

/// The type of sums: float, double for float64, and 64 bits with wrap-around for integers.
template <typename T>
using Accumulator = std::conditional_t<kIsFloat<T>, Compute<T>, uint64_t>;
/// The dtype of the result of a sum or product of T.
template <typename T>
using SumType = std::conditional_t<kIsFloat<T>, T, int64_t>;

template <typename T, typename Out = SumType<T>>
struct SumOf {
  using Part = Accumulator<T>;
  const T* x;
  Out* y;
  double divisor;

  __device__ static Part first() { return 0; }
  __device__ Part add(Part part, int64_t at, int64_t) const { return part + Part(widen(x[at])); }
  __device__ static Part merge(Part a, Part b) { return a + b; }
  __device__ void finish(int64_t output, Part part) const {
    if constexpr (kIsFloat<T>)
      y[output] = narrow<Out>(part / Part(divisor));
    else
      y[output] = Out(part);
  }
};

template <typename T>
struct ProductOf {
  using Part = Accumulator<T>;
  const T* x;
  SumType<T>* y;

  __device__ static Part first() { return 1; }
  __device__ Part add(Part part, int64_t at, int64_t) const { return part * Part(widen(x[at])); }
  __device__ static Part merge(Part a, Part b) { return a * b; }
  __device__ void finish(int64_t output, Part part) const { y[output] = narrow<SumType<T>>(part); }
};

/// Returns whether a is at least as extreme as b, where NaN is the most extreme.
template <bool kLargest, typename V>
__device__ bool holds_against(V a, V b) {
  return (kLargest ? a >= b : a <= b) || a != a;
}

template <bool kLargest, typename V>
__device__ V least_extreme() {
  using Limits = std::numeric_limits<V>;
  if constexpr (std::is_floating_point_v<V>)
    return kLargest ? -Limits::infinity() : Limits::infinity();
  else
    return kLargest ? Limits::lowest() : Limits::max();
}

/// V in words of at least four bytes, as lanes exchange it.
template <typename V>
using Lane = std::conditional_t<sizeof(V) >= 4, V, int32_t>;

template <typename T, bool kLargest>
struct ExtremeOf {
  using Part = Lane<Compute<T>>;
  const T* x;
  T* y;

  __device__ static Part first() { return least_extreme<kLargest, Part>(); }
  __device__ Part add(Part part, int64_t at, int64_t) const { return merge(part, widen(x[at])); }
  /// Commutative, even for NaN and zeros, except for the payload of NaN and the sign of zero.
  __device__ static Part merge(Part a, Part b) { return holds_against<kLargest>(a, b) ? a : b; }
  __device__ void finish(int64_t output, Part part) const { y[output] = narrow<T>(part); }
};

template <typename T>
struct Contains {
  using Part = int32_t;
  const T* x;
  bool* y;
  bool zero, yes;

  __device__ static Part first() { return 0; }
  __device__ Part add(Part part, int64_t at, int64_t) const {
    return part | int32_t((widen(x[at]) == Compute<T>(0)) == zero);
  }
  __device__ static Part merge(Part a, Part b) { return a | b; }
  __device__ void finish(int64_t output, Part part) const { y[output] = (part != 0) == yes; }
};

/// (sum |x|^p)^(1/p); for p = 0 the number of nonzero elements.
template <typename T>
struct NormOf {
  using Part = Compute<T>;
  const T* x;
  T* y;
  double p;

  __device__ static Part first() { return 0; }
  __device__ Part add(Part part, int64_t at, int64_t) const {
    const Part value = std::fabs(widen(x[at]));
    if (p == 1) return part + value;
    if (p == 2) return part + value * value;
    if (p == 0) return part + Part(value != 0);
    return part + std::pow(value, Part(p));
  }
  __device__ static Part merge(Part a, Part b) { return a + b; }
  __device__ void finish(int64_t output, Part part) const {
    const Part root = p == 2 ? std::sqrt(part) : std::pow(part, Part(1 / p));
    y[output] = narrow<T>(p == 0 || p == 1 ? part : root);
  }
};

/// Count, mean and sum of squared deviations; merged by the formula of Chan, Golub and LeVeque
/// (1979).
template <typename V>
struct Moments {
  V count, mean, squares;
};

template <typename T>
struct MomentsOf {
  using V = Compute<T>;
  using Part = Moments<V>;
  const T* x;

  __device__ static Part first() { return {0, 0, 0}; }
  __device__ Part add(Part part, int64_t at, int64_t) const {
    const V value = widen(x[at]), count = part.count + V(1), distance = value - part.mean;
    const V mean = part.mean + distance / count;
    return {count, mean, part.squares + distance * (value - mean)};
  }
  /// Commutative, because the mean is weighted symmetrically.
  __device__ static Part merge(Part a, Part b) {
    if (a.count == V(0)) return b;
    if (b.count == V(0)) return a;
    const V count = a.count + b.count, distance = b.mean - a.mean;
    return {count, (a.mean * a.count + b.mean * b.count) / count,
            a.squares + b.squares + distance * distance * (a.count * b.count / count)};
  }
};

/// The variance or the standard deviation.
template <typename T>
struct VarianceOf : MomentsOf<T> {
  using V = Compute<T>;
  T* y;
  double divisor;
  bool root;

  __device__ void finish(int64_t output, Moments<V> part) const {
    const V var = part.squares / V(divisor);
    y[output] = narrow<T>(root ? std::sqrt(var) : var);
  }
};

}  // namespace tapegrad::backends::cuda
