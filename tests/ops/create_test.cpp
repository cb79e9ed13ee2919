#include "ops/create.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "tests/error_message.h"

namespace tapegrad {
namespace {

std::vector<double> values(const Variable& x) { return x.to_vector<double>(); }
using Doubles = std::vector<double>;

TEST(Create, TensorTakesTheTypeOfItsValues) {
  EXPECT_EQ(tensor({1.0, 2.0}).dtype(), f32);
  EXPECT_EQ(tensor({1.0f}).dtype(), f32);
  EXPECT_EQ(tensor({1, 2, 3}).dtype(), i64);
  EXPECT_EQ(tensor(std::vector<long long>{1}).dtype(), i64);
  EXPECT_EQ(tensor({true, false, true}).dtype(), boolean);
  EXPECT_EQ(tensor(std::vector<uint8_t>{255}).dtype(), u8);
  EXPECT_EQ(tensor(std::vector<int8_t>{-3}).dtype(), i8);
  EXPECT_EQ(tensor(std::vector<int16_t>{-3}).dtype(), i16);
  EXPECT_EQ(tensor({float16(0.5f)}).dtype(), f16);
  EXPECT_EQ(tensor({bfloat16(0.5f)}).dtype(), bf16);
  EXPECT_EQ(values(tensor({true, false, true})), (Doubles{1, 0, 1}));
  EXPECT_EQ(values(tensor({1, 2, 3, 4, 5, 6}, {2, 3})), (Doubles{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor({1, 2, 3, 4, 5, 6}, {2, 3}).shape(), (Shape{2, 3}));
  EXPECT_EQ(tensor({1.5, 2.5}, {.dtype = i32}).to_vector<int32_t>(), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(tensor({0.1}, {.dtype = f64}).item(), 0.1);
  EXPECT_EQ(tensor(std::vector<float>{}).shape(), Shape{0});
  EXPECT_THROW(tensor({1.0, 2.0, 3.0}, {2, 2}), ShapeError);
}

// PyTorch 2.15 refuses the same values, and cuts fractions off.
TEST(Create, IntegersThatDoNotFitThrow) {
  EXPECT_THROW(tensor(std::vector<double>{1, NAN}, {.dtype = i64}), ArgumentError);
  EXPECT_THROW(tensor({1e30}, {.dtype = i64}), ArgumentError);
  EXPECT_THROW(tensor({3e9f}, {.dtype = i32}), ArgumentError);
  EXPECT_THROW(tensor({1, 300}, {.dtype = i8}), ArgumentError);
  EXPECT_THROW(tensor({{1, -1}}, {.dtype = u8}), ArgumentError);
  EXPECT_EQ(tensor({1.5, -2.5}, {.dtype = i32}).to_vector<int64_t>(),
            (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(tensor({255, 0}, {.dtype = u8}).to_vector<int64_t>(), (std::vector<int64_t>{255, 0}));
  testing::expect_error<ArgumentError>("300 is not a value of int8", [] {
    tensor({1, 300}, {.dtype = i8});
  });
}

TEST(Create, ScalarsHaveNoDimensions) {
  EXPECT_EQ(scalar(2.5).dtype(), f32);
  EXPECT_EQ(scalar(3).dtype(), i64);
  EXPECT_EQ(scalar(true).dtype(), boolean);
  EXPECT_EQ(scalar(2.5).rank(), 0);
  EXPECT_EQ(scalar(2.5).item(), 2.5);
}

TEST(Create, FilledTensors) {
  EXPECT_EQ(values(zeros({2, 2})), (Doubles{0, 0, 0, 0}));
  EXPECT_EQ(values(ones({3})), (Doubles{1, 1, 1}));
  EXPECT_EQ(full({2}, 7).dtype(), i64);
  EXPECT_EQ(full({2}, 7.5).dtype(), f32);
  EXPECT_EQ(full({2}, true).dtype(), boolean);
  EXPECT_EQ(values(full({2}, 7.5, {.dtype = f16})), (Doubles{7.5, 7.5}));
  EXPECT_EQ(empty({2, 0, 3}).numel(), 0);
  const Variable x = full({2, 3}, 4, {.dtype = u8});
  for (const Variable& y : {zeros_like(x), ones_like(x), full_like(x, 9), empty_like(x)}) {
    EXPECT_EQ(y.dtype(), u8);
    EXPECT_EQ(y.shape(), x.shape());
  }
  EXPECT_EQ(full_like(x, 9).to_vector<uint8_t>(), std::vector<uint8_t>(6, 9));
}

TEST(Create, DefaultDType) {
  set_default_dtype(f64);
  EXPECT_EQ(tensor({0.1}).item(), 0.1);
  EXPECT_EQ(zeros({1}).dtype(), f64);
  EXPECT_EQ(scalar(0.5).dtype(), f64);
  EXPECT_EQ(arange(0.0, 1.0, 0.25).dtype(), f64);
  EXPECT_EQ(linspace(0, 1, 3).dtype(), f64);
  EXPECT_EQ(eye(2).dtype(), f64);
  EXPECT_EQ(tensor({0.5f}).dtype(), f32);
  EXPECT_EQ(arange(3).dtype(), i64);
  set_default_dtype(f32);
  EXPECT_EQ(zeros({1}).dtype(), f32);
}

TEST(Create, DefaultDevice) {
  EXPECT_EQ(zeros({2}).device(), default_device());
  EXPECT_EQ(tensor({1.0}, {.device = cpu}).device(), cpu);
  EXPECT_THROW(zeros({2}, {.device = Device{DeviceType::kPrivate1, 0}}), DeviceError);
}

TEST(Create, RequiresGrad) {
  EXPECT_TRUE(zeros({2}, {.requires_grad = true}).requires_grad());
  EXPECT_TRUE(tensor({1.0}, {.requires_grad = true}).is_leaf());
  EXPECT_FALSE(zeros({2}).requires_grad());
  EXPECT_THROW(tensor({1, 2}, {.requires_grad = true}), AutogradError);
  EXPECT_THROW(zeros({2}, {.dtype = i32, .requires_grad = true}), AutogradError);
  EXPECT_THROW(arange(4, {.requires_grad = true}), AutogradError);
  EXPECT_TRUE(arange(4, {.dtype = f32, .requires_grad = true}).requires_grad());
}

TEST(Create, ArangeCountsAsNumPy) {
  EXPECT_EQ(arange(5).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(arange(2, 9, 3).to_vector<int64_t>(), (std::vector<int64_t>{2, 5, 8}));
  EXPECT_EQ(arange(5, 0, -2).to_vector<int64_t>(), (std::vector<int64_t>{5, 3, 1}));
  EXPECT_EQ(arange(5.0, 0.0, -2.0).to_vector<float>(), (std::vector<float>{5, 3, 1}));
  EXPECT_EQ(arange(0).numel(), 0);
  EXPECT_EQ(arange(3, 3).numel(), 0);
  EXPECT_EQ(arange(0.0, 1.0, 0.1).numel(), 10);
  EXPECT_EQ(arange(0.0, 0.3, 0.1).numel(), 3);  // 0.3 / 0.1 is below 3
  EXPECT_EQ(arange(1.0, 1.3, 0.1).numel(), 4);  // as in NumPy
  EXPECT_EQ(arange(2.5).to_vector<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(arange(0.0, 1.0, 0.25, {.dtype = f64}).to_vector<double>(),
            (Doubles{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(arange(4, {.dtype = f16}).to_vector<float>(), (std::vector<float>{0, 1, 2, 3}));
  // Every element is computed from its index, not by repeated addition.
  const auto long_row = arange(0.0, 10000.0, 0.1, {.dtype = f64}).to_vector<double>();
  for (size_t i = 0; i < long_row.size(); ++i) ASSERT_EQ(long_row[i], double(i) * 0.1);
}

TEST(Create, ArangeOfExtremeIntegersIsExact) {
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(arange(kHigh - 2, kHigh).to_vector<int64_t>(),
            (std::vector<int64_t>{kHigh - 2, kHigh - 1}));
  EXPECT_EQ(arange(kLow, kHigh, kHigh).to_vector<int64_t>(),
            (std::vector<int64_t>{kLow, -1, kHigh - 1}));
  EXPECT_EQ(arange(kHigh, kLow, kLow).to_vector<int64_t>(), (std::vector<int64_t>{kHigh, -1}));
  EXPECT_THROW(arange(kLow, kHigh), ArgumentError);
}

TEST(Create, ArangeErrors) {
  EXPECT_THROW(arange(0, 5, 0), ArgumentError);
  EXPECT_THROW(arange(0, 5, -1), ArgumentError);
  EXPECT_THROW(arange(5.0, 0.0, 1.0), ArgumentError);
  EXPECT_THROW(arange(-1), ArgumentError);
  EXPECT_THROW(arange(0.0, std::nan(""), 1.0), ArgumentError);
  EXPECT_THROW(arange(0.0, INFINITY, 1.0), ArgumentError);
  EXPECT_THROW(arange(0.0, 1e300, 1e-300), ArgumentError);
  try {
    arange(0, 5, -1);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("from 0 to 5 by -1"), std::string::npos);
  }
}

TEST(Create, LinspaceMeetsBothEnds) {
  EXPECT_EQ(linspace(0, 1, 5).to_vector<float>(), (std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1}));
  EXPECT_EQ(linspace(3, -3, 4).to_vector<float>(), (std::vector<float>{3, 1, -1, -3}));
  EXPECT_EQ(linspace(2, 5, 1).to_vector<float>(), std::vector<float>{2});
  EXPECT_EQ(linspace(2, 5, 0).numel(), 0);
  EXPECT_THROW(linspace(0, 1, -1), ArgumentError);
  for (int64_t steps : {2, 7, 50, 1001}) {
    const auto row = linspace(0.1, 0.7, steps, {.dtype = f64}).to_vector<double>();
    EXPECT_EQ(row.front(), 0.1);
    EXPECT_EQ(row.back(), 0.7);
    for (size_t i = 1; i < row.size(); ++i) EXPECT_LT(row[i - 1], row[i]);
  }
}

TEST(Create, Eye) {
  EXPECT_EQ(values(eye(2)), (Doubles{1, 0, 0, 1}));
  EXPECT_EQ(values(eye(2, 3)), (Doubles{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(values(eye(3, 2)), (Doubles{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
  EXPECT_EQ(eye(0, 3).shape(), (Shape{0, 3}));
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(eye(0, most).shape(), (Shape{0, most}));
  EXPECT_EQ(eye(2, {}, {.dtype = i32}).dtype(), i32);
  EXPECT_THROW(eye(-1), ShapeError);
}

TEST(Create, FromBlobSharesMemory) {
  std::array<float, 6> pixels{1, 2, 3, 4, 5, 6};
  int released = 0;
  {
    const Variable x = from_blob(pixels.data(), {2, 3}, [&] { ++released; });
    EXPECT_EQ(x.value().data<float>(), pixels.data());
    pixels[4] = 50;
    EXPECT_EQ(values(x), (Doubles{1, 2, 3, 4, 50, 6}));
    x.value().data<float>()[0] = -1;
    EXPECT_EQ(pixels[0], -1);
    const Variable another = x.detach();
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_THROW(from_blob<float>(nullptr, {2}), ArgumentError);
}

TEST(Create, FromBlobTakesOptions) {
  double memory[4] = {1, 2, 3, 4};
  const Variable x = from_blob(memory, {2, 2}, {.dtype = f64});
  EXPECT_EQ(values(x), (Doubles{1, 2, 3, 4}));
  EXPECT_TRUE(from_blob(memory, {4}, {.requires_grad = true}).requires_grad());
  EXPECT_EQ(from_blob(memory, {4}, {.requires_grad = true}).dtype(), f64);
  void* const bytes = memory;
  EXPECT_EQ(values(from_blob(bytes, {2}, {.dtype = f64})), (Doubles{1, 2}));
  EXPECT_EQ(values(from_blob(memory, {2}, {2})), (Doubles{1, 3}));
  EXPECT_THROW(from_blob(bytes, {2}), DTypeError);
  EXPECT_THROW(from_blob(memory, {2}, {.dtype = f32}), DTypeError);
  EXPECT_THROW(from_blob(memory, {2}, {.device = gpu}), ArgumentError);
}

TEST(Create, T38_AbsurdSizes) {
  constexpr int64_t kHuge = int64_t(1) << 40;
  EXPECT_THROW(zeros({kHuge, kHuge}), ShapeError);
  EXPECT_THROW(empty({kHuge, kHuge}), ShapeError);
  EXPECT_THROW(empty({0, kHuge, kHuge}), ShapeError);
  EXPECT_THROW(empty({kHuge, kHuge, 0}), ShapeError);
  // the number of bytes overflows
  EXPECT_THROW(empty({int64_t(1) << 61}, {.dtype = f64}), ShapeError);
  EXPECT_THROW(empty({int64_t(1) << 60}, {.dtype = f32}), OutOfMemory);
  EXPECT_THROW(zeros({-1}), ShapeError);
  EXPECT_THROW(ones({2, -3}), ShapeError);
  EXPECT_THROW(arange(int64_t(1) << 59), OutOfMemory);
  EXPECT_THROW(eye(kHuge), ShapeError);
  EXPECT_EQ(values(ones({2})), (Doubles{1, 1}));  // the process still works
}

}  // namespace
}  // namespace tapegrad
