// Values: dtypes, devices, shapes, tensors.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>

#include "core/base/device.h"
#include "core/base/tensor.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

template <typename T>
std::string print(const T& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

TEST(DType, ParsesNamesAndCodes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    EXPECT_EQ(parse_dtype(kDTypeNames[i]), DType(i));
    EXPECT_EQ(print(DType(i)), kDTypeNames[i]);
  }
  const std::pair<const char*, DType> codes[] = {
      {"f2", f16}, {"e", f16},     {"half", f16},   {"bf16", bf16}, {"f4", f32},    {"f", f32},
      {"f8", f64}, {"d", f64},     {"i1", i8},      {"b", i8},      {"i2", i16},    {"h", i16},
      {"i4", i32}, {"i", i32},     {"i8", i64},     {"q", i64},     {"l", i64},     {"u1", u8},
      {"B", u8},   {"?", boolean}, {"b1", boolean}, {"float", f32}, {"double", f64}};
  for (const auto& [code, dtype] : codes) EXPECT_EQ(parse_dtype(code), dtype) << code;
  expect_error<DTypeError>([] { parse_dtype("float8"); }, {"float8", "bfloat16", "bool"});
  EXPECT_THROW(parse_dtype(""), DTypeError);
  EXPECT_THROW(parse_dtype("Float32"), DTypeError);
}

TEST(DType, SizesAndKinds) {
  for (int i = 0; i < kDTypeCount; ++i)
    with_type(DType(i), [&]<typename T>(TypeTag<T>) {
      EXPECT_EQ(size_of(DType(i)), int64_t(sizeof(T)));
      EXPECT_EQ(kDTypeOf<T>, DType(i));
    });
  EXPECT_TRUE(is_float(bf16) && !is_integer(bf16) && is_integer(u8) && !is_integer(boolean));
}

TEST(DType, PromotionIsPyTorchs) {
  // torch.promote_types in the order u1 i1 i2 i4 i8 f2 f4 f8 b1 bf.
  const DType order[] = {u8, i8, i16, i32, i64, f16, f32, f64, boolean, bf16};
  const DType table[10][10] = {{u8, i16, i16, i32, i64, f16, f32, f64, u8, bf16},
                               {i16, i8, i16, i32, i64, f16, f32, f64, i8, bf16},
                               {i16, i16, i16, i32, i64, f16, f32, f64, i16, bf16},
                               {i32, i32, i32, i32, i64, f16, f32, f64, i32, bf16},
                               {i64, i64, i64, i64, i64, f16, f32, f64, i64, bf16},
                               {f16, f16, f16, f16, f16, f16, f32, f64, f16, f32},
                               {f32, f32, f32, f32, f32, f32, f32, f64, f32, f32},
                               {f64, f64, f64, f64, f64, f64, f64, f64, f64, f64},
                               {u8, i8, i16, i32, i64, f16, f32, f64, boolean, bf16},
                               {bf16, bf16, bf16, bf16, bf16, f32, f32, f64, bf16, bf16}};
  for (int i = 0; i < 10; ++i)
    for (int j = 0; j < 10; ++j)
      EXPECT_EQ(promote(order[i], order[j]), table[i][j]) << order[i] << ' ' << order[j];
}

TEST(DType, PromotionWithNumbers) {
  EXPECT_EQ(promote(f16, Number(1e300)), f16);
  EXPECT_EQ(promote(i32, Number(2)), i32);
  EXPECT_EQ(promote(i32, Number(0.5)), f32);
  EXPECT_EQ(promote(boolean, Number(2)), i64);
  EXPECT_EQ(promote(boolean, Number(true)), boolean);
  EXPECT_EQ(Number(int64_t(1) << 62).to<int64_t>(), int64_t(1) << 62);
}

TEST(DType, DefaultIsSettable) {
  EXPECT_EQ(default_dtype(), f32);
  set_default_dtype(f64);
  EXPECT_EQ(promote(i32, Number(0.5)), f64);
  set_default_dtype(f32);
  expect_error<DTypeError>([] { set_default_dtype(i32); }, {"set_default_dtype", "int32"});
}

/// Returns the bits of the nearest 16-bit value, ties to even, by a search among all finite values.
template <typename T>
uint16_t nearest(double value) {
  const auto at = [](uint32_t bits) { return double(float(std::bit_cast<T>(uint16_t(bits)))); };
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::abs(value);
  const uint32_t infinity = std::is_same_v<T, float16> ? 0x7c00 : 0x7f80;
  uint32_t low = 0, high = infinity;
  // The value that would follow the largest finite value, by its spacing.
  const double beyond = 2 * at(infinity - 1) - at(infinity - 2);
  const auto bound = [&](uint32_t bits) { return bits == infinity ? beyond : at(bits); };
  if (size >= beyond) return uint16_t(sign | infinity);
  while (high - low > 1) (bound((low + high) / 2) <= size ? low : high) = (low + high) / 2;
  const double down = size - bound(low), up = bound(high) - size;
  const uint32_t result = down < up || (down == up && low % 2 == 0) ? low : high;
  return uint16_t(sign | result);
}

template <typename T>
class Sixteen : public ::testing::Test {};
using SixteenTypes = ::testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(Sixteen, SixteenTypes);

TYPED_TEST(Sixteen, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = float(std::bit_cast<TypeParam>(uint16_t(bits)));
    const uint16_t back = TypeParam(wide).bits;
    if (std::isnan(wide))
      ASSERT_TRUE(std::isnan(float(std::bit_cast<TypeParam>(back)))) << bits;
    else
      ASSERT_EQ(back, bits);
  }
}

TYPED_TEST(Sixteen, RoundsToNearestEven) {
  std::mt19937 random(7);
  int checked = 0;
  while (checked < 20000) {
    const float value = std::bit_cast<float>(uint32_t(random()));
    if (!std::isfinite(value)) continue;
    // Half of the numbers are in or near the range of float16.
    const float x =
        ++checked % 2 ? value : std::ldexp(value, -std::ilogb(value) + int(random() % 46) - 27);
    ASSERT_EQ(TypeParam(x).bits, nearest<TypeParam>(x)) << std::hexfloat << x;
  }
  for (uint32_t bits = 0; bits < 0x7bff; bits += 7) {  // exact ties
    const float a = float(std::bit_cast<TypeParam>(uint16_t(bits)));
    const float b = float(std::bit_cast<TypeParam>(uint16_t(bits + 1)));
    const float middle = float((double(a) + double(b)) / 2);
    if ((double(a) + double(b)) / 2 != double(middle)) continue;
    ASSERT_EQ(TypeParam(middle).bits, bits + bits % 2);
    ASSERT_EQ(TypeParam(-middle).bits, 0x8000u + bits + bits % 2);
  }
}

/// Floats that are hard to round, with both signs: random bits; every value of T, its neighbours
/// and the midpoints to the next value; NaN with all payloads.
template <typename T>
std::vector<float> hard_to_round() {
  std::vector<float> values;
  const auto add = [&](uint32_t bits) {
    for (const uint32_t sign : {0u, 0x80000000u})
      values.push_back(std::bit_cast<float>((bits & 0x7fffffffu) | sign));
  };
  std::mt19937 random(11);
  for (int i = 0; i < 100000; ++i) add(uint32_t(random()));
  for (uint32_t bits = 0; bits < 0x8000; ++bits) {
    const uint32_t word = std::bit_cast<uint32_t>(float(std::bit_cast<T>(uint16_t(bits))));
    const uint32_t half = std::is_same_v<T, bfloat16> ? 0x8000 : 0x1000;
    for (const uint32_t distance : {0u, 1u, half - 1, half, half + 1}) add(word + distance);
  }
  for (uint32_t bit = 1; bit < 0x800000; bit *= 2) add(0x7f800000u | bit), add(bit);
  return values;
}

template <typename T, typename Bits>
std::vector<Bits> bits_of(const Tensor& x) {
  std::vector<Bits> bits(size_t(x.numel()));
  std::memcpy(bits.data(), x.data<T>(), bits.size() * sizeof(Bits));
  return bits;
}

TYPED_TEST(Sixteen, ManyAtOnceAreConvertedAsOneIs) {
  constexpr DType dtype = kDTypeOf<TypeParam>;
  std::vector<TypeParam> all(65536);
  std::vector<uint32_t> wide;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    all[bits] = std::bit_cast<TypeParam>(uint16_t(bits));
    wide.push_back(std::bit_cast<uint32_t>(float(all[bits])));
  }
  const Tensor values = Tensor::from<TypeParam>(all, {65536});
  EXPECT_EQ((bits_of<float, uint32_t>(values.to(f32))), wide);

  std::vector<float> floats = hard_to_round<TypeParam>();
  for (const size_t rest : {0, 1, 7}) {  // elements that do not fill a register
    floats.resize(floats.size() / 64 * 64 - rest);
    std::vector<uint16_t> narrow;
    for (const float x : floats) narrow.push_back(TypeParam(x).bits);
    const Tensor rounded = Tensor::from<float>(floats, {int64_t(floats.size())}).to(dtype);
    EXPECT_EQ((bits_of<TypeParam, uint16_t>(rounded)), narrow);
  }
}

TEST(Float16, KnownValues) {
  EXPECT_EQ(float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(float16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(float16(65520.0f).bits, 0x7c00) << "infinity";
  EXPECT_EQ(float16(-0.0f).bits, 0x8000);
  EXPECT_EQ(float16(0x1p-24f).bits, 1) << "smallest subnormal";
  EXPECT_EQ(float16(0x1p-25f).bits, 0) << "a tie, to even";
  EXPECT_EQ(float16(0x1.8p-25f).bits, 1);
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(Convert, FloatsToIntegersTruncateAndSaturate) {
  EXPECT_EQ((convert<int32_t>(-2.9)), -2);
  EXPECT_EQ((convert<uint8_t>(300.0f)), 255);
  EXPECT_EQ((convert<uint8_t>(-1.0f)), 0);
  EXPECT_EQ((convert<int64_t>(1e300)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ((convert<int64_t>(-1e300)), std::numeric_limits<int64_t>::min());
  EXPECT_EQ((convert<int32_t>(std::nan(""))), 0);
  EXPECT_TRUE((convert<bool>(0.5f)));
  EXPECT_EQ(float(convert<float16>(int64_t(3))), 3.0f);
}

TEST(Device, ParsesAndPrints) {
  EXPECT_EQ(parse_device("cpu"), cpu);
  EXPECT_EQ(parse_device("gpu"), gpu);
  EXPECT_EQ(parse_device("cuda:3"), (Device{DeviceType::kCuda, 3}));
  EXPECT_EQ(to_string({DeviceType::kCuda, 3}), "cuda:3");
  EXPECT_EQ(print(cpu), "cpu");
  for (const char* text : {"", "cpus", "cuda:", "cuda:x", "cuda:-1", "cuda:128", "cuda:1 ", ":1"})
    expect_error<ArgumentError>([&] { parse_device(text); }, {"parse_device", text});
}

TEST(Device, DefaultIsTheCpuUnlessSet) {
  EXPECT_TRUE(is_available(cpu));
  EXPECT_EQ(default_device(), cpu);
  set_default_device(cpu);
  EXPECT_EQ(default_device(), cpu);
  if (is_available(gpu)) return;
  expect_error<DeviceError>([] { set_default_device(gpu); }, {"set_default_device", "cuda"});
  EXPECT_EQ(default_device(), cpu);
  EXPECT_EQ(device_or_cpu(gpu), cpu);
}

TEST(Shape, CountsAndOverflow) {
  EXPECT_EQ(numel({}), 1);
  EXPECT_EQ(numel({2, 0, 3}), 0);
  EXPECT_EQ(print(Shape{2, 3}), "[2, 3]");
  EXPECT_THROW(numel({-1}), ShapeError);
  EXPECT_THROW(numel({-1, -2}), ShapeError);
  const int64_t big = int64_t(1) << 40;
  expect_error<ShapeError>([&] { numel({big, big}); }, {"1099511627776"});
  EXPECT_THROW(numel({0, big, big}), ShapeError) << "wherever the 0 stands";
  EXPECT_THROW(numel({big, big, 0}), ShapeError);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError) << "rank 9";
}

TEST(Shape, T38_HugeTensorsAreErrors) {
  const int64_t big = int64_t(1) << 40;
  EXPECT_THROW(Tensor::empty({big, big}, f32), ShapeError);
  EXPECT_THROW(Tensor::empty({int64_t(1) << 61}, f64), ShapeError) << "bytes past 2^63";
  EXPECT_THROW(Tensor::empty({int64_t(1) << 58}, f32), OutOfMemory);
  EXPECT_EQ(Tensor::empty({0, big}, f32).numel(), 0);
}

TEST(Shape, BroadcastIsNumPys) {
  EXPECT_EQ(broadcast("add", {3, 1, 5}, {4, 1}), (Shape{3, 4, 5}));
  EXPECT_EQ(broadcast("add", {}, {2}), (Shape{2}));
  EXPECT_EQ(broadcast("add", {4, 0}, {4, 1}), (Shape{4, 0}));
  EXPECT_EQ(broadcast("add", {1}, {0}), (Shape{0}));
  expect_error<ShapeError>([] { broadcast("add", {2, 3}, {2}); }, {"add", "[2, 3] and [2]"});
  EXPECT_THROW(broadcast("add", {0}, {2}), ShapeError);
}

TEST(Shape, ANegativeIndexCountsFromTheEnd) {
  Shape shape{2, 3, 5};
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape[-3], 2);
  shape[-2] = 4;
  EXPECT_EQ(shape, Shape({2, 4, 5}));
}

TEST(Shape, NormalizeDim) {
  EXPECT_EQ(normalize_dim("sum", -1, 3), 2);
  EXPECT_EQ(normalize_dim("sum", 0, 3), 0);
  expect_error<IndexError>([] { normalize_dim("sum", 3, 3); }, {"sum", "3"});
  EXPECT_THROW(normalize_dim("sum", -4, 3), IndexError);
  EXPECT_THROW(normalize_dim("sum", 0, 0), IndexError);
  EXPECT_THROW(normalize_dim("sum", (int64_t{1} << 32) + 1, 3), IndexError);
}

TEST(Shape, ContiguityIgnoresStridesOfSizeOne) {
  EXPECT_TRUE(is_contiguous({{2, 1, 3}, {3, 99, 1}, 0}));
  EXPECT_FALSE(is_contiguous({{2, 3}, {1, 2}, 0}));
  EXPECT_TRUE(overlaps_itself({{2, 3}, {0, 1}, 0}));
  EXPECT_FALSE(overlaps_itself({{1, 3}, {0, 1}, 0}));
}

TEST(Tensor, TransposedCopiesAreThoseOfSingleElements) {
  // Squares with one register per row, and remainders on both sides; elements of every size.
  for (const Shape& shape : {Shape{64, 48}, Shape{33, 71}, Shape{5, 300}, Shape{2, 19, 40}})
    for (DType dtype : {u8, f16, f32, i64}) {
      std::vector<double> numbers;
      for (int64_t i = 0; i < numel(shape); ++i) numbers.push_back(double(i * 7919 % 251));
      const Tensor x = Tensor::from<double>(numbers, shape).to(dtype);
      const int last = shape.rank() - 1;
      Shape turned = shape;
      std::swap(turned[last - 1], turned[last]);
      Strides strides = x.strides();
      std::swap(strides[last - 1], strides[last]);
      const Tensor copy = x.with_layout({turned, strides, 0}).contiguous();
      const int64_t rows = shape[last - 1], columns = shape[last];
      std::vector<double> expected(numbers.size());
      for (size_t i = 0; i < numbers.size(); ++i) {
        const int64_t matrix = int64_t(i) / (rows * columns) * (rows * columns);
        const int64_t row = int64_t(i) % (rows * columns) / columns, column = int64_t(i) % columns;
        expected[size_t(matrix + column * rows + row)] = numbers[i];
      }
      EXPECT_EQ(values(Variable(copy)), expected) << shape << dtype;
    }
}

TEST(Tensor, ViewsReadAndWriteTheSameStorage) {
  const Tensor x = Tensor::from<double>(Values{0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor transposed = x.with_layout({{3, 2}, {1, 3}, 0});
  const Tensor backwards = x.with_layout({{3}, {-2}, 5});
  EXPECT_FALSE(transposed.is_contiguous());
  EXPECT_EQ(values(Variable(transposed)), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(Variable(backwards)), (Values{5, 3, 1}));
  EXPECT_TRUE(transposed.shares_storage(x));
  x.data<double>()[5] = 9;
  EXPECT_EQ(values(Variable(transposed.contiguous())), (Values{0, 3, 1, 4, 2, 9}));
  EXPECT_FALSE(transposed.contiguous().shares_storage(x));
  EXPECT_TRUE(x.contiguous().shares_storage(x));
  EXPECT_EQ(transposed.with_layout({{}, {}, 4}).item(), 4);
}

TEST(Tensor, FromAndItem) {
  expect_error<ShapeError>(
      [] {
        Tensor::from<float>(std::vector<float>{1, 2}, {3});
      },
      {"2", "[3]"});
  expect_error<ShapeError>([] { Tensor::full({2}, 1, f32).item(); }, {"item", "[2]"});
  EXPECT_EQ(Tensor::full({1, 1}, int64_t(1) << 62, i64).number().to<int64_t>(), int64_t(1) << 62);
  EXPECT_EQ(Tensor::full({}, true, boolean).item(), 1);
  EXPECT_EQ(Tensor::from<float>(std::vector<float>{}, {0, 4}).numel(), 0);
}

TEST(Tensor, WrapSharesTheCallersMemory) {
  double memory[4] = {1, 2, 3, 4};
  int released = 0;
  {
    Tensor view;
    {
      const Tensor x = Tensor::wrap(memory, {2, 2}, f64, cpu, [&] { ++released; });
      EXPECT_TRUE(x.storage().is_wrapped());
      view = x.with_layout({{2}, {2}, 1});
    }
    EXPECT_EQ(released, 0);
    memory[3] = 9;
    EXPECT_EQ(values(Variable(view)), (Values{2, 9}));
  }
  EXPECT_EQ(released, 1);
  EXPECT_THROW(Tensor::wrap(nullptr, {1}, f32), ArgumentError);
  EXPECT_EQ(Tensor::wrap(nullptr, {0}, f32).numel(), 0);
}

TEST(Tensor, ConvertsBetweenAllTypes) {
  for (int from = 0; from < kDTypeCount; ++from)
    for (int to = 0; to < kDTypeCount; ++to) {
      const Tensor x = Tensor::from<double>(Values{0, 1, 3}, {3}).to(DType(from));
      const double three = DType(from) == boolean || DType(to) == boolean ? 1 : 3;
      EXPECT_EQ(values(Variable(x.to(DType(to)))), (Values{0, 1, three}));
      EXPECT_EQ(x.to(DType(to)).shares_storage(x), from == to);
    }
}

TEST(Tensor, DataIsAligned) {
  for (int64_t count : {1, 100, 1000, 100000})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(Tensor::empty({count}, f32).data<float>()) % 64, 0u);
}

TEST(Variable, EmptyOnesSaySo) {
  expect_error<ArgumentError>([] { Variable().shape(); }, {"empty"});
  EXPECT_FALSE(Variable().defined());
  EXPECT_FALSE(Variable().requires_grad());
}

}  // namespace
}  // namespace tapegrad::testing
