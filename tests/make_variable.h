// Short ways to make variables and to read their values.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "core/tape/variable.h"
#include "tests/error_message.h"

namespace tapegrad::testing {

template <typename T = double>
Variable make(const std::vector<T>& values, const Shape& shape) {
  return Variable(Tensor::from<T>(values, shape));
}
template <typename T = double>
Variable make(const std::vector<T>& values) {
  return make<T>(values, {int64_t(values.size())});
}
/// Variables that require a gradient.
template <typename T = double>
Variable leaf(const std::vector<T>& values, const Shape& shape) {
  return make<T>(values, shape).requires_grad_();
}
template <typename T = double>
Variable leaf(const std::vector<T>& values) {
  return make<T>(values).requires_grad_();
}

/// Returns first, first + 1, ... in row-major order.
template <typename T = double>
Variable counted(const Shape& shape, T first) {
  std::vector<T> numbers(size_t(numel(shape)));
  std::iota(numbers.begin(), numbers.end(), first);
  return make<T>(numbers, shape);
}

using Values = std::vector<double>;
using Ints = std::vector<int64_t>;
inline Values values(const Variable& x) { return x.to_vector<double>(); }
inline Ints ints(const Variable& x) { return x.to_vector<int64_t>(); }
/// Expects equal values; NaN equals NaN.
inline void expect_values(const Variable& got, const Values& expected) {
  const Values values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i])))
        << i << ": " << values[i];
}

}  // namespace tapegrad::testing
