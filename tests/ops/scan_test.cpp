#include "ops/scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::expect_values;
using testing::Ints;
using testing::ints;
using testing::make;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Doubles = std::vector<double>;

TEST(Scan, CumprodGradientWithZeros) {
  // By hand: d/dx of x, x y, x y z at (2, 0, 3) with weights 1.
  const Variable x = make({2, 0, 3}).requires_grad_();
  sum(cumprod(x, 0)).backward();
  expect_values(x.grad(), {1, 8, 0});
  const Variable zeros = make({0, 0, 3}).requires_grad_();
  sum(cumprod(zeros, 0)).backward();
  expect_values(zeros.grad(), {1, 0, 0});
}

TEST(Scan, RunningExtremesTakeTheLastOfEqualOnes) {  // as in PyTorch
  const auto up = cummax(make({1, 1, 0, kNaN, 5}), 0);
  expect_values(up.values, {1, 1, 1, kNaN, kNaN});
  EXPECT_EQ(ints(up.indices), (Ints{0, 1, 1, 3, 3}));
  EXPECT_EQ(ints(cummin(make({1, 1, 2}), 0).indices), (Ints{0, 1, 1}));
}

// Rows are searched in blocks, columns side by side.
TEST(Scan, RunningExtremesOfLongRows) {
  const int64_t n = 400;
  std::vector<float> x(size_t(3 * n));
  for (int64_t i = 0; i < 3 * n; ++i) x[size_t(i)] = float((i * 7919) % 1013 / 3);
  for (int64_t i = n; i < 2 * n; ++i) x[size_t(i)] = float(i);  // each is a new maximum
  x[size_t(2 * n + 150)] = float(kNaN);
  x[size_t(2 * n + 260)] = float(kNaN);
  const Variable rows(Tensor::from<float>(x, {3, n}));
  for (bool largest : {true, false})
    for (bool columns : {false, true}) {
      const Variable input = columns ? transpose(rows, 0, 1).contiguous() : rows;
      const int dim = columns ? 0 : 1;
      ValuesIndices got = largest ? cummax(input, dim) : cummin(input, dim);
      const Variable indices = columns ? transpose(got.indices, 0, 1) : got.indices;
      const Variable values = columns ? transpose(got.values, 0, 1) : got.values;
      const Ints at = ints(indices.contiguous());
      const Doubles best = values.contiguous().to_vector<double>();
      for (int64_t row = 0; row < 3; ++row) {
        int64_t where = 0;
        for (int64_t i = 0; i < n; ++i) {
          const float value = x[size_t(row * n + i)], held = x[size_t(row * n + where)];
          const bool worse = largest ? value < held : held < value;
          if (!worse && !(std::isnan(held) && !std::isnan(value))) where = i;
          ASSERT_EQ(at[size_t(row * n + i)], where) << row << ' ' << i;
          const double expected = double(x[size_t(row * n + where)]);
          const double element = best[size_t(row * n + i)];
          ASSERT_TRUE(element == expected || (std::isnan(element) && std::isnan(expected)));
        }
      }
    }
}

TEST(Scan, LogCumSumExpDoesNotOverflow) {
  const Variable x = make({-kInf, 1000, 1000, -kInf}).requires_grad_();
  const Variable y = logcumsumexp(x, 0);
  const double both = 1000 + std::log(2.0);
  expect_values(y, {-kInf, 1000, both, both});
  y.backward(make({0, 0, 1, 0}));
  const Doubles dx = x.grad().to_vector<double>();
  EXPECT_EQ(dx[0], 0);
  EXPECT_NEAR(dx[1], 0.5, 1e-12);
  EXPECT_NEAR(dx[2], 0.5, 1e-12);
  EXPECT_EQ(dx[3], 0);
  EXPECT_THROW(logcumsumexp(tensor({1}), 0), DTypeError);
}

TEST(Scan, LogCumSumExpKeepsNan) {
  for (const double after : {-kInf, 1.0, kInf})
    expect_values(logcumsumexp(make({0, kNaN, after, 2}), 0), {0, kNaN, kNaN, kNaN});
}

TEST(Scan, NoDifferenceIsTheInput) {
  const Variable x = make({1, 3, 2});
  expect_values(diff(x, 0, -1, make({5}), make({6})), {1, 3, 2});
}

TEST(Scan, DifferencesWithValuesAtBothEnds) {
  const Variable x = make({1, 3, 2});  // of 5, 1, 3, 2, 6, 7: -4, 2, -1, 4, 1
  expect_values(diff(x, {.prepend = make({5}), .append = make({6, 7})}), {-4, 2, -1, 4, 1});
  expect_values(diff(x, {.n = 2, .prepend = make({5}), .append = make({6, 7})}), {6, -3, 5, -3});
}

TEST(Scan, DifferencesOfBools) {
  EXPECT_EQ(ints(diff(tensor<bool>({true, true, false}))), (Ints{0, 1}));
  EXPECT_EQ(diff(make({1, 2}), 5).shape(), (Shape{0}));
  EXPECT_EQ(diff(make({1, 4, 9}), 0).to_vector<double>(), (Doubles{1, 4, 9}));
  EXPECT_THROW(diff(make({1}), -1), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
