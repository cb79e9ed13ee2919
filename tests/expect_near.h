// Comparison of all elements with expected numbers.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "core/tape/variable.h"

namespace tapegrad::testing {

inline void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                        double tolerance = 1e-14) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
}
inline void expect_near(const Variable& got, const std::vector<double>& expected,
                        double tolerance = 1e-14) {
  expect_near(got.to_vector<double>(), expected, tolerance);
}

}  // namespace tapegrad::testing
