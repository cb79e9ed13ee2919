// Numbers of distributions in float64, compared with those of PyTorch.
#pragma once

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "core/tape/variable.h"
#include "ops/create.h"

namespace tapegrad::distributions {

using Doubles = std::vector<double>;

inline Variable t(const Doubles& values) { return tensor(values, {.dtype = f64}); }
inline Variable t(const Doubles& values, const Shape& shape) {
  return tensor(values, shape, {.dtype = f64});
}

/// Expects equal numbers, up to 1e-12; infinities and NaN must be equal.
inline void expect(const Variable& found, const Doubles& expected) {
  const auto values = found.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(expected[i]))
      EXPECT_NEAR(values[i], expected[i], 1e-12 * std::max(1.0, std::abs(expected[i]))) << i;
    else
      EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(values[i]) : values[i] == expected[i]) << i;
  }
}

}  // namespace tapegrad::distributions
