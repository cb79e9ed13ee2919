// T73: a whole number that an integer type cannot hold is an ArgumentError, nothing wraps around.
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/base/number.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/scatter.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

constexpr int64_t kLarge = int64_t(1) << 40;

struct Range {
  DType dtype;
  int64_t low, high;
};
constexpr Range kRanges[] = {{i8, INT8_MIN, INT8_MAX},
                             {i16, INT16_MIN, INT16_MAX},
                             {i32, INT32_MIN, INT32_MAX},
                             {u8, 0, UINT8_MAX}};

TEST(HostileNumbers, T73_WhatFillsATensor) {
  for (const auto& [dtype, low, high] : kRanges) {
    SCOPED_TRACE(name(dtype));
    const Variable mask = ones({3}, {.dtype = boolean});
    const Variable index = make<int64_t>({0, 1, 2});
    Variable x = zeros({3}, {.dtype = dtype});
    for (const int64_t value : {low, high, int64_t(1)}) {
      const Values want(3, double(value));
      EXPECT_EQ(values(full({3}, value, {.dtype = dtype})), want);
      EXPECT_EQ(values(full_like(x, value)), want);
      EXPECT_EQ(values(masked_fill(x, mask, value)), want);
      EXPECT_EQ(values(scatter(x, 0, index, value)), want);
      Variable y = clone(x);
      EXPECT_EQ(values(fill_(y, value)), want);
    }
    for (const int64_t value : {low - 1, high + 1, kLarge, -kLarge, INT64_MAX, INT64_MIN}) {
      EXPECT_THROW(full({3}, value, {.dtype = dtype}), ArgumentError);
      EXPECT_THROW(full({}, value, {.dtype = dtype}), ArgumentError);
      EXPECT_THROW(full_like(x, value), ArgumentError);
      EXPECT_THROW(Tensor::full({3}, value, dtype), ArgumentError);
      EXPECT_THROW(Tensor::full({}, value, dtype), ArgumentError);
      EXPECT_THROW(masked_fill(x, mask, value), ArgumentError);
      EXPECT_THROW(masked_fill_(x, mask, value), ArgumentError);
      EXPECT_THROW(scatter(x, 0, index, value), ArgumentError);
      EXPECT_THROW(fill_(x, value), ArgumentError);
      EXPECT_EQ(values(x), Values(3, 0));
    }
    for (const double value : {1e30, -1e30, double(INFINITY), double(NAN)}) {
      EXPECT_THROW(full({3}, value, {.dtype = dtype}), ArgumentError) << value;
      EXPECT_THROW(fill_(x, value), ArgumentError) << value;
      EXPECT_THROW(masked_fill(x, mask, value), ArgumentError) << value;
    }
    EXPECT_EQ(values(full({1}, 2.5, {.dtype = dtype})), Values{2});  // a fraction is truncated
  }
}

TEST(HostileNumbers, T73_Uint64) {
  const uint64_t largest = std::numeric_limits<uint64_t>::max();
  EXPECT_THROW(Number{largest}, ArgumentError);
  EXPECT_THROW(full({1}, largest), ArgumentError);
  EXPECT_THROW(make<int64_t>({1}) + largest, ArgumentError);
  EXPECT_THROW(make({1}) * largest, ArgumentError);
  EXPECT_EQ(Number(uint64_t(INT64_MAX)).to<int64_t>(), INT64_MAX);
}

TEST(HostileNumbers, T73_WhatIsReadAsAnotherType) {
  const Variable minus = scalar(-1), large = scalar(kLarge);
  EXPECT_THROW(minus.item<unsigned>(), ArgumentError);
  EXPECT_THROW(minus.item<size_t>(), ArgumentError);
  EXPECT_THROW(minus.item<uint8_t>(), ArgumentError);
  EXPECT_THROW(large.item<int>(), ArgumentError);
  EXPECT_THROW(large.item<uint32_t>(), ArgumentError);
  EXPECT_EQ(large.item<size_t>(), size_t(kLarge));
  EXPECT_EQ(minus.item<long long>(), -1);
  EXPECT_THROW(tensor(std::vector<uint64_t>{UINT64_MAX}), ArgumentError);
  EXPECT_EQ(tensor(std::vector<uint64_t>{5}).dtype(), i64);
}

TEST(HostileNumbers, T73_BoundsMayLieOutside) {
  const Variable x = full({2}, 200, {.dtype = u8});
  EXPECT_EQ(values(clamp(x, {.min = -5, .max = 300})), (Values{200, 200}));
  EXPECT_EQ(values(clamp(x, {.min = 0, .max = 100})), (Values{100, 100}));
}

}  // namespace
}  // namespace tapegrad::testing
