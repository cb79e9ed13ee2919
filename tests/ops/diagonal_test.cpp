#include "ops/diagonal.h"

#include <gtest/gtest.h>

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

Variable count(const Shape& shape) { return testing::counted(shape, 1.0); }

TEST(Diagonal, IsAView) {
  Variable x = count({3, 3});
  Variable view = diagonal(x);
  fill_(view, 0);
  EXPECT_EQ(x.to_vector<double>(), (Doubles{0, 2, 3, 4, 0, 6, 7, 8, 0}));
  EXPECT_EQ(diagonal(x, 5).shape(), (Shape{0}));
  expect_error<ArgumentError>("dim1 and dim2 are both 1", [&] { diagonal(x, 0, 1, -1); });
}

TEST(Diagonal, OffsetsOfAnySize) {
  const Variable x = count({3, 3});
  for (int64_t offset :
       {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(diagonal(x, offset).shape(), (Shape{0}));
    EXPECT_EQ(diag(x, offset).shape(), (Shape{0}));
    EXPECT_EQ(sum(tril(x, offset)).item(), offset > 0 ? 45 : 0);
    EXPECT_EQ(sum(triu(x, offset)).item(), offset > 0 ? 0 : 45);
    expect_error<ArgumentError>("below 2^31 either way", [&] { diag_embed(x, offset); });
    expect_error<ArgumentError>("below 2^31 either way", [&] { diag(count({3}), offset); });
  }
}

TEST(Diagonal, OfNoRowsOfAnyLength) {
  EXPECT_EQ(diagonal(zeros({0, std::numeric_limits<int64_t>::max()}), 1).shape(), (Shape{0}));
}

TEST(Diagonal, WhatIsDroppedMayBeAnything) {
  EXPECT_EQ(tril(make({1, kNaN, 3, 4}, {2, 2})).to_vector<double>(), (Doubles{1, 0, 3, 4}));
  EXPECT_EQ(trace(tensor({1, 2, 3, 4}, {2, 2})).dtype(), i64);
}

TEST(Diagonal, PowersOfWholeNumbers) {
  EXPECT_EQ(vander(reshape(arange(6), {2, 3})).to_vector<int64_t>(),
            (std::vector<int64_t>{0, 0, 1, 1, 1, 1, 4, 2, 1, 9, 3, 1, 16, 4, 1, 25, 5, 1}));
}

}  // namespace
}  // namespace tapegrad
