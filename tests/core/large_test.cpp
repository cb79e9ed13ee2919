// Tensors of more than 2^31 elements: sizes, strides and offsets need 64 bits. Needs about 5 GB of
// memory and runs only with `ctest -C large -L large`.
#include <gtest/gtest.h>

#include "core/base/allocator.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

constexpr int64_t kCount = (int64_t(1) << 31) + 5;

class Large : public ::testing::Test {
 protected:
  void SetUp() override { set_memory_limit(int64_t(6) << 30); }
  void TearDown() override {
    set_memory_limit(-1);
    empty_cache();
  }
  /// Returns zeros that end with 1, 2, 3.
  static Variable bytes() {
    Variable x = zeros({kCount}, {.dtype = u8});
    for (int64_t i = 1; i <= 3; ++i) {
      Variable place = narrow(x, 0, kCount - 4 + i, 1);
      fill_(place, i);
    }
    return x;
  }
  const NoGrad off_;
};

TEST_F(Large, FillReadAndSlice) {
  const Variable x = bytes();
  EXPECT_EQ(x.numel(), kCount);
  EXPECT_EQ(select(x, 0, -1).item(), 3);
  EXPECT_EQ(select(x, 0, kCount - 4).item(), 0);
  EXPECT_EQ(narrow(x, 0, kCount - 4, 4).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 1, 2, 3}));
  const Variable odd = slice(x, 0, 0, kCount, 2);
  EXPECT_EQ(odd.numel(), kCount / 2 + 1);
  EXPECT_EQ(select(odd, 0, -1).item(), 3);
}

TEST_F(Large, CopyAndAdd) {
  const Variable x = bytes();
  const Variable y = x + x;
  EXPECT_EQ(narrow(y, 0, kCount - 4, 4).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 2, 4, 6}));
}

TEST_F(Large, TransposedCopy) {
  const Variable x = narrow(bytes(), 0, 5, kCount - 5);  // 2^31 elements
  const Variable y = clone(transpose(reshape(x, {2, -1}), 0, 1));
  EXPECT_EQ(narrow(reshape(y, {-1}), 0, x.numel() - 6, 6).to_vector<uint8_t>(),
            (std::vector<uint8_t>{0, 1, 0, 2, 0, 3}));
}

TEST_F(Large, PositionsBeyondThe31stBit) {
  const Variable x = bytes();
  EXPECT_EQ(argmax(x, 0).item(), double(kCount - 1));
  const Variable last = tensor({kCount - 2, int64_t(0), kCount - 1});
  EXPECT_EQ(index_select(x, 0, last).to_vector<uint8_t>(), (std::vector<uint8_t>{2, 0, 3}));
}

TEST_F(Large, T40_Reductions) {
  const Variable x = bytes();
  EXPECT_EQ(amax(x).item(), 3);
  EXPECT_EQ(sum(x).item(), 6);
  EXPECT_EQ(sum(expand(ones({1}, {.dtype = u8}), {kCount})).item(), double(kCount));
}

}  // namespace
}  // namespace tapegrad
