#include "ops/view.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/gradcheck.h"
#include "core/tape.h"
#include "core/view.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad {
namespace {

using Doubles = std::vector<double>;
Doubles values(const Variable& x) { return x.to_vector<double>(); }
/// 0, 1, 2, ... of a shape.
Variable counted(const Shape& shape, DType dtype = f64) {
  return reshape(arange(numel(shape), {.dtype = dtype}), shape);
}
bool shares(const Variable& a, const Variable& b) { return a.value().shares_storage(b.value()); }

TEST(View, ReshapeCompletesOneSize) {
  const Variable x = counted({2, 6});
  EXPECT_EQ(reshape(x, {3, -1}).shape(), (Shape{3, 4}));
  EXPECT_EQ(reshape(x, {-1}).shape(), Shape{12});
  EXPECT_EQ(reshape(counted({1}), {}).rank(), 0);
  EXPECT_EQ(reshape(zeros({2, 0}), {0, 5}).shape(), (Shape{0, 5}));
  EXPECT_EQ(reshape(zeros({0}), {-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_TRUE(shares(x, reshape(x, {4, 3})));
}

TEST(View, T04_ReshapeErrors) {
  const Variable x = counted({2, 6});
  EXPECT_THROW(reshape(zeros({0}), {-1, 0}), ArgumentError);
  EXPECT_THROW(reshape(x, {-1, 0}), ArgumentError);
  EXPECT_THROW(reshape(x, {-1, -1}), ArgumentError);
  EXPECT_THROW(reshape(x, {-2, 6}), ArgumentError);
  EXPECT_THROW(reshape(x, {5, -1}), ArgumentError);
  EXPECT_THROW(reshape(x, {3, 5}), ShapeError);
  EXPECT_THROW(reshape(x, {int64_t(1) << 40, int64_t(1) << 40}), ShapeError);
  try {
    reshape(x, {3, 5});
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "reshape: the number of elements differs: [2, 6] to [3, 5]");
  }
}

TEST(View, PermutedAndSliced) {
  const Variable x = counted({2, 3});
  EXPECT_EQ(values(transpose(x, 0, 1)), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(permute(x, {-1, 0})), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(slice(x, 1, 0, kEnd, 2)), (Doubles{0, 2, 3, 5}));
  EXPECT_EQ(values(slice(x, -1, -1)), (Doubles{2, 5}));
  EXPECT_EQ(values(expand(slice(x, 1, 1, 2), {2, 2, 2})), (Doubles{1, 1, 4, 4, 1, 1, 4, 4}));
  EXPECT_EQ(values(cat({x, x}, 1)), (Doubles{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
}

}  // namespace
}  // namespace tapegrad
