#include "ops/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::expect_error;
using testing::make;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

TEST(Statistics, NanIsLeftOut) {
  const Variable x = make({1, kNaN, 3, kNaN}, {2, 2}).requires_grad_();
  EXPECT_EQ(nansum(x).item(), 4);
  const Variable means = nanmean(x, {0});
  EXPECT_EQ(select(means, 0, 0).item(), 2);
  EXPECT_TRUE(std::isnan(select(means, 0, 1).item()));
  nanmean(x).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{0.5, 0, 0.5, 0}));
  EXPECT_EQ(count_nonzero(x).item(), 4);
  EXPECT_EQ(nanmean(full({4}, 60000, {.dtype = f16})).item(),
            full({}, 60000, {.dtype = f16}).item());
}

TEST(Statistics, Histc) {
  // As in PyTorch: both ends are included; NaN and values outside are not.
  const Variable x = make({0, 0.5, 1, 2, 3, -1, kNaN});
  EXPECT_EQ(histc(x, 2, 0, 2).to_vector<double>(), (Doubles{2, 2}));
  EXPECT_EQ(histc(make({1, 1, 1}), 2).to_vector<double>(), (Doubles{0, 3}));
  expect_error<ArgumentError>("no range", [&] { histc(x, 2); });
  for (int64_t bins : {int64_t(0), std::numeric_limits<int64_t>::max()})
    expect_error<ArgumentError>("bins must be from 1 to 2^31 - 1", [&] { histc(x, bins, 0, 1); });
}

TEST(Statistics, Bincount) {
  EXPECT_EQ(bincount(tensor({1, 3, 1})).to_vector<int64_t>(), (Ints{0, 2, 0, 1}));
  EXPECT_EQ(bincount(tensor({1, 3, 1}), tensor({2, 5, 7})).dtype(), f64);
  EXPECT_EQ(bincount(empty({0}, {.dtype = i64})).shape(), (Shape{0}));
  expect_error<ArgumentError>("a number is -2", [] { bincount(tensor({1, -2})); });
  for (int64_t end : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()})
    expect_error<ArgumentError>("a number is " + std::to_string(end), [&] {
      bincount(tensor({int64_t(1), end}));
    });
}

TEST(Statistics, CorrelationOfOneVariable) {
  EXPECT_EQ(corrcoef(make({1, 2, 4})).item(), 1);
  EXPECT_TRUE(std::isnan(cov(make({5})).item()));  // 0 / 0, as in PyTorch
}

}  // namespace
}  // namespace tapegrad
