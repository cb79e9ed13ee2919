// Mean and variance of a row, for layer_norm and group_norm.
#pragma once

#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/reduce_block.h"
#include "backends/cpu/tools/reducers.h"

namespace tapegrad::backends::cpu {

struct Moments {
  double mean, var;
};

/// The sum of deviations from the centre.
template <typename T>
struct DistanceOf : SumOf<T, double> {
  static constexpr bool kCentred = true;
  double add(double part, Compute<T> value, double centre) const {
    return part + (double(value) - centre);
  }
  static Doubles add(Doubles part, Doubles values, double centre) {
    return part + (values - centre);
  }
};

/// The sum of the deviations of n numbers from a centre, and the sum of their squares.
struct Distances {
  double sum = 0, squares = 0;
};

/// Adds four vectors at a time in float, and their sums in double.
inline Distances distances(const float* x, int64_t n, float centre) {
  WideSum sum, squares;
  const auto away = [&](int64_t i) { return load_vector<Floats>(x + i) - centre; };
  int64_t i = 0;
  for (; i + 4 * kFloats <= n; i += 4 * kFloats) {
    const Floats a = away(i), b = away(i + kFloats), c = away(i + 2 * kFloats),
                 d = away(i + 3 * kFloats);
    sum.add((a + b) + (c + d));
    squares.add((a * a + b * b) + (c * c + d * d));
  }
  for (; i + kFloats <= n; i += kFloats) {
    const Floats a = away(i);
    sum.add(a);
    squares.add(a * a);
  }
  Distances all{sum.total(), squares.total()};
  for (; i < n; ++i) {
    const float a = x[i] - centre;
    all.sum += double(a);
    all.squares += double(a * a);
  }
  return all;
}

/// Returns the mean of a row; sum_of() returns the sum of a part.
template <typename T, typename Sum>
double mean_of(const T* x, int64_t n, const Sum& sum_of) {
  alignas(64) Compute<T> buffer[kBlock];
  double sum = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    sum += sum_of(load_values(x + i, 1, count, buffer), count);
  }
  return sum / double(n);
}

/// Mean and variance by two passes in double. The mean of equal elements is exactly their value: a
/// sum of floats is exact, and a sum of doubles is corrected by its residual.
template <typename T>
Moments exact_moments(const T* x, int64_t n) {
  const auto total = [&](const auto& reducer, double centre) {
    return mean_of(x, n, [&](const auto* values, int64_t count) {
      return reduce_block(reducer, values, count, centre);
    });
  };
  double mean = total(WideSumOf<T>{}, 0);
  if constexpr (std::is_same_v<T, double>) mean += total(DistanceOf<T>{}, mean);
  return {mean, total(SquaresOf<T>{}, mean)};
}

/// Mean and variance, accurate to a few ulp of a float, by one pass around the mean of the first
/// four elements. Falls back to exact_moments() if this centre is so far from the mean that the
/// difference of squares would lose digits, or if squares underflow or overflow in float.
template <typename T>
Moments moments_of(const T* x, int64_t n) {
  if constexpr (!std::is_same_v<T, double>) {
    alignas(64) Compute<T> buffer[kBlock];
    float centre = 0;
    if (n >= 4) centre = ((float(x[0]) + float(x[1])) + (float(x[2]) + float(x[3]))) * 0.25f;
    Distances all;
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      const Distances part = distances(load_values(x + i, 1, count, buffer), count, centre);
      all.sum += part.sum, all.squares += part.squares;
    }
    const double away = all.sum / double(n), var = all.squares / double(n) - away * away;
    if (away * away < 16 * var && var > 0x1p-100 && var < 0x1p+100)
      return {double(centre) + away, var};
  }
  return exact_moments(x, n);
}

}  // namespace tapegrad::backends::cpu
