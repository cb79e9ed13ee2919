// Rearranged and padded images: exact values, errors and corner cases.
#include "ops/image.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::leaf;
using testing::values;

using Doubles = std::vector<double>;

TEST(Image, ShufflesAndBack) {
  const Variable x = reshape(arange(2 * 18 * 2 * 3), {2, 18, 2, 3});
  EXPECT_EQ(pixel_shuffle(x, 3).shape(), (Shape{2, 2, 6, 9}));
  EXPECT_EQ(values(pixel_unshuffle(pixel_shuffle(x, 3), 3)), values(x));
  EXPECT_EQ(values(channel_shuffle(channel_shuffle(x, 3), 6)), values(x));
  EXPECT_EQ(values(channel_shuffle(reshape(arange(6), {1, 6}), 2)), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_THROW(pixel_shuffle(x, 2), ShapeError);
  EXPECT_THROW(pixel_shuffle(x, 0), ArgumentError);
  EXPECT_THROW(pixel_unshuffle(x, 2), ShapeError);
  EXPECT_THROW(pixel_unshuffle(ones({2, 2}), 1), ShapeError);
  EXPECT_THROW(channel_shuffle(x, 4), ArgumentError);
}

TEST(Image, PadModes) {
  const Variable x = leaf({1, 2, 3}, {3});
  EXPECT_EQ(values(pad(x, {2, 2}, PadMode::kReflect)), (Doubles{3, 2, 1, 2, 3, 2, 1}));
  EXPECT_EQ(values(pad(x, {2, 1}, PadMode::kReplicate)), (Doubles{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(values(pad(x, {2, 3}, PadMode::kCircular)), (Doubles{2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(values(pad(x, {-1, 1}, PadMode::kCircular)), (Doubles{2, 3, 2}));
  EXPECT_EQ(values(pad(x, {1, -1}, PadMode::kCircular)), (Doubles{2, 1, 2}));
  EXPECT_THROW(pad(x, {-1, 3}, PadMode::kCircular), ShapeError);  // 2 elements are left
  EXPECT_EQ(values(pad(x, {1, 0}, PadMode::kConstant, 7)), (Doubles{7, 1, 2, 3}));
  EXPECT_EQ(values(pad(x, {-1, 1}, PadMode::kReflect)), (Doubles{2, 3, 2}));
  EXPECT_THROW(pad(x, {3, 0}, PadMode::kReflect), ShapeError);
  EXPECT_THROW(pad(x, {0, 4}, PadMode::kCircular), ShapeError);
  EXPECT_THROW(pad(x, {-2, -2}, PadMode::kReplicate), ShapeError);
  EXPECT_THROW(pad(zeros({0}), {1, 0}, PadMode::kReplicate), ShapeError);
  // overflow of the number of bytes and of elements
  for (const int64_t many : {int64_t(1) << 62, INT64_MAX})
    EXPECT_THROW(pad(x, {many, many}, PadMode::kReplicate), ShapeError);
  EXPECT_THROW(pad(x, {0, int64_t(1) << 62}, PadMode::kReplicate), ShapeError);
  EXPECT_THROW(pad(x, {1, 0, 1, 0}, PadMode::kReflect), ArgumentError);
  const Variable same = pad(x, {0, 0}, PadMode::kReflect);
  EXPECT_FALSE(same.value().shares_storage(x.value()));
  const Variable y = pad(x, {2, 2}, PadMode::kReflect);
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{2, 3, 2}));
}

}  // namespace
}  // namespace tapegrad
