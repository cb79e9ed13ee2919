// Inputs and references that several families of cases share.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {

/// Returns an input of indices in [0, bound).
inline Input indices(const Shape& shape, int64_t bound) {
  return {.shape = shape, .fill = Fill::kIndices, .bound = bound};
}

/// Returns the first input's elements in another shape.
inline Reference reshaped(const Shape& to) {
  return [to](const std::vector<Array>& in) { return Array{to, in[0].values}; };
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Sums in long double, since hundreds of drawn terms may cancel to less than one.
inline double total(const std::vector<double>& x) {
  long double y = 0;
  for (double value : x) y += value;
  return double(y);
}
inline double product(const std::vector<double>& x) {
  double y = 1;
  for (double value : x) y *= value;
  return y;
}
inline double mean(const std::vector<double>& x) { return total(x) / double(x.size()); }
inline double largest(const std::vector<double>& x) {
  return *std::max_element(x.begin(), x.end());
}
inline double smallest(const std::vector<double>& x) {
  return *std::min_element(x.begin(), x.end());
}

}  // namespace tapegrad::testing
