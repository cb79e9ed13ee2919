// Arithmetic of int8 and int16: results wrap around, and have the dtypes of PyTorch.
#include <functional>
#include <random>

#include "core/base/error.h"
#include "ops/activation.h"
#include "ops/activation_composed.h"
#include "ops/aliases.h"
#include "ops/arithmetic.h"
#include "ops/bitwise.h"
#include "ops/compare.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/linalg_composed.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/products.h"
#include "ops/reduce.h"
#include "ops/resample.h"
#include "ops/scan.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/statistics.h"
#include "ops/unary.h"
#include "tests/make_variable.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

using namespace testing;

struct DrawnOp {
  const char* name;
  std::function<Variable(const Variable& a, const Variable& b)> run;
};

/// Ops that PyTorch computes of int8 and int16. b has no zeros.
const DrawnOp kOps[] = {
    {"add", [](auto& a, auto& b) { return a + b; }},
    {"sub", [](auto& a, auto& b) { return a - b; }},
    {"mul", [](auto& a, auto& b) { return a * b; }},
    {"rsub", [](auto& a, auto&) { return 7 - a; }},
    {"add alpha", [](auto& a, auto& b) { return add(a, b, 3); }},
    {"add a row", [](auto& a, auto& b) { return a + b.select(0, 1); }},
    {"transposed", [](auto& a, auto& b) { return (a.t() * b.t()).t(); }},
    {"neg", [](auto& a, auto&) { return -a; }},
    {"abs", [](auto& a, auto&) { return abs(a); }},
    {"sign", [](auto& a, auto&) { return sign(a); }},
    {"square", [](auto& a, auto&) { return square(a); }},
    {"pow", [](auto& a, auto&) { return pow(a, 3); }},
    {"fmod", [](auto& a, auto& b) { return fmod(a, b); }},
    {"remainder", [](auto& a, auto& b) { return remainder(a, b); }},
    {"floor_divide", [](auto& a, auto& b) { return floor_divide(a, b); }},
    {"div trunc", [](auto& a, auto& b) { return div(a, b, "trunc"); }},
    {"maximum", [](auto& a, auto& b) { return maximum(a, b); }},
    {"minimum", [](auto& a, auto& b) { return minimum(a, b); }},
    {"clamp", [](auto& a, auto&) { return clamp(a, {.min = -5, .max = 7}); }},
    {"relu", [](auto& a, auto&) { return relu(a); }},
    {"hardtanh", [](auto& a, auto&) { return hardtanh(a, -2.5, 3.5); }},
    {"threshold", [](auto& a, auto&) { return threshold(a, 0.5, 3.0); }},
    {"bitwise_and", [](auto& a, auto& b) { return bitwise_and(a, b); }},
    {"left shift", [](auto& a, auto&) { return bitwise_left_shift(a, 3); }},
    {"right shift", [](auto& a, auto&) { return bitwise_right_shift(a, 2); }},
    {"where", [](auto& a, auto& b) { return where(a > b, a, b); }},
    {"lt", [](auto& a, auto& b) { return a < b; }},
    {"sum", [](auto& a, auto&) { return sum(a, {1}); }},
    {"prod", [](auto& a, auto&) { return prod(a % 4, 1); }},
    {"cumsum", [](auto& a, auto&) { return cumsum(a, 1); }},
    {"cumprod", [](auto& a, auto&) { return cumprod(a % 4, 1); }},
    {"amax", [](auto& a, auto&) { return amax(a, {0}); }},
    {"amin", [](auto& a, auto&) { return amin(a); }},
    {"max", [](auto& a, auto&) { return max(a, 1).values; }},
    {"min", [](auto& a, auto&) { return min(a, 0).indices; }},
    {"argmax", [](auto& a, auto&) { return argmax(a, 1); }},
    {"sort", [](auto& a, auto&) { return sort(a, 1).values; }},
    {"topk", [](auto& a, auto&) { return topk(a, 2).values; }},
    {"median", [](auto& a, auto&) { return median(a); }},
    {"diff", [](auto& a, auto&) { return diff(a); }},
    {"matmul", [](auto& a, auto& b) { return matmul(a, b.t()); }},
    {"linear", [](auto& a, auto& b) { return linear(a, b, b.select(1, 0)); }},
    {"outer", [](auto& a, auto& b) { return outer(a.select(0, 0), b.select(0, 1)); }},
    {"kron", [](auto& a, auto& b) { return kron(a, b); }},
    {"index_select", [](auto& a, auto&) { return index_select(a, 0, floor_divide(arange(a.size(0)), 2)); }},
    {"index_add", [](auto& a, auto& b) { return index_add(a, 0, floor_divide(arange(a.size(0)), 2), b); }},
    {"scatter_add",
     [](auto& a, auto& b) { return scatter_add(a, 0, argmax(a, 0, true).expand({1, a.size(1)}), b); }},
    {"masked_fill", [](auto& a, auto& b) { return masked_fill(a, a > b, 9); }},
    {"count_nonzero", [](auto& a, auto&) { return count_nonzero(a); }},
    {"+=",
     [](auto& a, auto& b) {
       Variable y = a.clone();
       y += b;
       y *= 3;
       y.select(0, 0) -= b.select(0, 1);
       return y;
     }},
};

/// Whole numbers of the dtype's whole range, half of them small.
Variable drawn(std::mt19937& random, DType dtype, const Shape& shape, bool has_zero) {
  const int64_t bound = dtype == i8 ? 128 : 32768;
  std::vector<int64_t> numbers(size_t(numel(shape)));
  for (int64_t& x : numbers) {
    const int64_t range = random() % 2 == 0 ? 5 : bound;
    x = int64_t(random() % uint64_t(2 * range)) - range;
    if (x == 0 && !has_zero) x = 1;
  }
  return make<int64_t>(numbers, shape).to(default_device());
}

// The low bits of int64 arithmetic are the result. Narrow dtypes keep theirs; sums are int64.
TEST(NarrowIntegers, ResultsAreThoseOfInt64WrappedAround) {
  std::mt19937 random(5);
  for (const DrawnOp& op : kOps)
    for (const DType dtype : {i8, i16})
      for (const Shape& shape : {Shape{3, 4}, Shape{4, 1}, Shape{5, 37}}) {
        SCOPED_TRACE(op.name);
        const Variable a = drawn(random, dtype, shape, true),
                       b = drawn(random, dtype, shape, false);
        if (shape[1] == 1 && std::string_view(op.name) == "topk") continue;
        const Variable got = op.run(a.to(dtype), b.to(dtype)), wide = op.run(a, b);
        const std::string_view name = op.name;
        const bool is_wide = wide.dtype() == boolean || name == "sum" || name == "prod" ||
                             name == "cumsum" || name == "cumprod" || name == "min" ||
                             name == "argmax" || name == "count_nonzero";
        EXPECT_EQ(got.dtype(), is_wide ? wide.dtype() : dtype);
        EXPECT_EQ(ints(got), ints(wide.to(got.dtype())));
      }
}

// The values are those of PyTorch 2.15.
TEST(NarrowIntegers, DTypesAreThoseOfPyTorch) {
  const Variable x = make<int8_t>({-100, 5, 100});
  const auto expect = [](const Variable& got, DType dtype, const Values& expected) {
    EXPECT_EQ(got.dtype(), dtype);
    EXPECT_EQ(values(got), expected);
  };
  expect(x * 3, i8, {-44, 15, 44});
  expect(pow(x, 2), i8, {16, 25, 16});
  expect(make<uint8_t>({200}) + x, i16, {100, 205, 300});
  expect(x + make<int16_t>({1000}), i16, {900, 1005, 1100});
  expect(x + x.to(i32), i32, {-200, 10, 200});
  expect(x + 1.5, f32, {-98.5, 6.5, 101.5});
  expect(x / 2, f32, {-50, 2.5, 50});
  expect(sum(x), i64, {5});
  expect(cumsum(x, 0), i64, {-100, -95, 5});
  expect(bitwise_left_shift(x, 3), i8, {-32, 40, 32});
  expect(x.clone().mul_(2), i8, {56, 10, -56});
  expect(softsign(make<int8_t>({3, -4})), f32, {0.75, double(-0.8f)});
  expect(relu6(x), i8, {0, 5, 6});
  EXPECT_THROW(x.clone().div_(2), Error);
}

// A number that the dtype cannot hold is an error in arithmetic, but can be compared.
TEST(NarrowIntegers, ComparisonsWithLargeNumbers) {
  const Variable x = make<int8_t>({-100, 5, 100}), u = make<uint8_t>({0, 7, 255});
  EXPECT_EQ(ints(x < 200), (Ints{1, 1, 1}));
  EXPECT_EQ(ints(u != -1), (Ints{1, 1, 1}));
  EXPECT_EQ(ints(u >= 256), (Ints{0, 0, 0}));
  EXPECT_EQ(ints(-1 < u), (Ints{1, 1, 1}));
  EXPECT_EQ(ints(x == 261), (Ints{0, 0, 0}));
  EXPECT_THROW(x + 200, ArgumentError);
}

// The values are those of PyTorch 2.15.
TEST(NarrowIntegers, ExtremesAndSumsOfBools) {
  const Variable a = make<int64_t>({0, 1, 0, 1}).to(boolean);
  const Variable b = make<int64_t>({0, 0, 1, 1}).to(boolean);
  EXPECT_EQ(maximum(a, b).dtype(), boolean);
  EXPECT_EQ(ints(maximum(a, b)), (Ints{0, 1, 1, 1}));
  EXPECT_EQ(ints(minimum(a, b)), (Ints{0, 0, 0, 1}));
  EXPECT_EQ(max(a, 0).values.item<bool>(), true);
  EXPECT_EQ(min(a, 0).indices.item<int64_t>(), 0);
  const Variable many = ones({512}).to(boolean), to = zeros({2}).to(boolean);
  EXPECT_EQ(ints(index_add(to, 0, zeros({512}).to(i64), many)), (Ints{1, 0}));
}

TEST(NarrowIntegers, ImagesOfBytes) {
  const Variable x = make<uint8_t>({9, 200, 3, 250, 1, 7, 255, 4}, {1, 1, 2, 4});
  EXPECT_EQ(ints(max_pool2d(x, 2)), (Ints{200, 255}));
  EXPECT_EQ(max_pool2d(x, 2).dtype(), u8);
  const Variable y = interpolate(x, {.size = {1, 2}});
  EXPECT_EQ(y.dtype(), u8);
  EXPECT_EQ(ints(y), (Ints{9, 3}));
  // means of 9, 200, 1, 7 and of 3, 250, 255, 4, rounded
  EXPECT_EQ(ints(interpolate(x, {.size = {1, 2}, .mode = "bilinear"})), (Ints{54, 128}));
  const Variable kernel = make<uint8_t>({1, 1, 1, 1}, {1, 1, 2, 2});
  EXPECT_EQ(ints(conv2d(x, kernel)), (Ints{217, (200 + 3 + 7 + 255) % 256, 0}));
}

// The values are those of PyTorch 2.15.
TEST(NarrowIntegers, ImagesOfWideIntegers) {
  for (const DType dtype : {i32, i64}) {
    const Variable x = arange(16).reshape({1, 1, 4, 4}).to(dtype);
    const auto expect = [&](const Variable& got, const Ints& expected) {
      EXPECT_EQ(got.dtype(), dtype);
      EXPECT_EQ(ints(got), expected);
    };
    const ValuesIndices pooled = max_pool2d_with_indices(x, 2);
    expect(max_pool2d(x, 2), {5, 7, 13, 15});
    expect(pooled.values, {5, 7, 13, 15});
    EXPECT_EQ(ints(pooled.indices), (Ints{5, 7, 13, 15}));
    expect(max_pool1d(arange(8).reshape({1, 1, 8}).to(dtype), 2), {1, 3, 5, 7});
    const Variable kernel = ones({1, 1, 3, 3}, {.dtype = dtype}),
                   bias = ones({1}, {.dtype = dtype});
    expect(conv2d(x, kernel), {45, 54, 81, 90});
    expect(conv2d(x, kernel, bias, {.padding = 1, .dilation = 2}), {41, 37, 25, 21});
  }
  const int64_t large = int64_t(1) << 53;  // float64 has no odd numbers as large
  const Variable x = make<int64_t>({large, large + 1}, {1, 1, 1, 2});
  EXPECT_THROW(max_pool2d(x, {.kernel_size = {1, 2}}), ArgumentError);
  EXPECT_THROW(conv2d(x, make<int64_t>({1, 1}, {1, 1, 1, 2})), ArgumentError);
}

// The values are those of PyTorch 2.15, which has these ops for int64 alone.
TEST(NarrowIntegers, MeansOfWindowsAreRoundedTowardsZero) {
  for (const DType dtype : {i8, i32, i64}) {
    const Variable x = (arange(16) - 3).reshape({1, 1, 4, 4}).to(dtype);
    const auto expect = [&](const Variable& got, const Ints& expected) {
      EXPECT_EQ(got.dtype(), dtype);
      EXPECT_EQ(ints(got), expected);
    };
    expect(avg_pool2d(x, 2), {0, 1, 7, 9});
    expect(avg_pool2d(x, {.kernel_size = 3, .stride = 2, .padding = 1, .ceil_mode = true}),
           {0, 0, 0, 3, 7, 4, 3, 5, 3});
    expect(avg_pool2d(x, {.kernel_size = 3, .stride = 2, .padding = 1, .count_include_pad = false}),
           {0, 1, 5, 7});
    expect(avg_pool2d(x, {.kernel_size = 2, .divisor_override = 3}), {0, 2, 10, 12});
    expect(avg_pool1d(flatten(x, 2), 3), {-2, 1, 4, 7, 10});
    expect(avg_pool3d(x.reshape({1, 1, 2, 2, 4}), 2), {3, 5});
    EXPECT_THROW(avg_pool2d(x, {.kernel_size = 2, .divisor_override = 0}), ArgumentError);
    EXPECT_THROW(avg_pool3d(x.reshape({1, 1, 2, 2, 4}), {.kernel_size = 2, .divisor_override = 0}),
                 ArgumentError);
    EXPECT_THROW(adaptive_avg_pool2d(x, 2), KernelError);
    EXPECT_THROW(adaptive_avg_pool3d(unsqueeze(x, 2), {1, 2, 2}), KernelError);
  }
  EXPECT_THROW(avg_pool3d(ones({1, 1, 2, 2, 2}, {.dtype = boolean}), 2), KernelError);
  const int64_t large = (int64_t(1) << 53) + 1;
  EXPECT_EQ(ints(avg_pool1d(make<int64_t>({large, large}, {1, 1, 2}), 2)), (Ints{large}));
}

TEST(NarrowIntegers, TransposedConvolutions) {
  for (const DType dtype : {i8, i64}) {
    const Variable x = arange(4).reshape({1, 1, 2, 2}).to(dtype), w = x + 1;
    const Variable bias = make<int64_t>({10}).to(dtype);
    const Variable y = conv_transpose2d(x, w, bias);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(ints(y), (Ints{10, 11, 12, 12, 20, 20, 16, 27, 22}));
    EXPECT_EQ(ints(conv_transpose1d(flatten(x, 2), flatten(w, 2))),
              (Ints{0, 1, 4, 10, 16, 17, 12}));
    EXPECT_EQ(ints(conv_transpose3d(unsqueeze(x, 2), unsqueeze(w, 2), bias)), ints(y));
  }
  const Variable large = make<int64_t>({int64_t(1) << 53}, {1, 1, 1, 1});
  EXPECT_THROW(conv_transpose2d(large, large), ArgumentError);
}

TEST(NarrowIntegers, Columns) {
  const Variable x = make<int64_t>({1, 0, 0, 1, 0, 1}, {1, 1, 2, 3});
  const Ints columns{1, 0, 0, 0, 1, 0, 0, 1}, image{1, 0, 0, 1, 0, 1};
  for (const DType dtype : {boolean, u8, i64}) {
    const Variable y = unfold(x.to(dtype), {.kernel_size = 2});
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(ints(y), columns);
    const Variable sums = fold(y, {2, 3}, {.kernel_size = 2});
    EXPECT_EQ(sums.dtype(), dtype);
    EXPECT_EQ(ints(sums), image);
  }
  const Variable overlapping = ones({1, 4, 2}), two = fold(overlapping.to(i16), {2, 3}, 2);
  EXPECT_EQ(ints(two), (Ints{1, 2, 1, 1, 2, 1}));
  EXPECT_EQ(ints(fold(overlapping.to(boolean), {2, 3}, 2)), (Ints{1, 1, 1, 1, 1, 1}));
  const int64_t large = (int64_t(1) << 53) + 1;
  EXPECT_EQ(ints(unfold(make<int64_t>({large}, {1, 1, 1, 1}), 1)), (Ints{large}));
  EXPECT_THROW(fold(make<int64_t>({large}, {1, 1, 1}), {1, 1}, 1), ArgumentError);
}

// The values are those of PyTorch 2.15.
TEST(NarrowIntegers, OpsOfBools) {
  const Variable a = make<int64_t>({0, 1, 1}).to(boolean), b = make<int64_t>({1, 0}).to(boolean);
  EXPECT_EQ(square(a).dtype(), i64);
  EXPECT_EQ(ints(square(a)), (Ints{0, 1, 1}));
  EXPECT_EQ(outer(a, b).dtype(), boolean);
  EXPECT_EQ(ints(outer(a, b)), (Ints{0, 0, 1, 0, 1, 0}));
  const Variable to = make<int64_t>({1, 1}).to(boolean), at = tensor({0, 1, 1});
  const auto reduced = [&](const char* how, bool with_self) {
    return ints(scatter_reduce(to, 0, at, a, how, with_self));
  };
  EXPECT_EQ(reduced("amin", true), (Ints{0, 1}));
  EXPECT_EQ(reduced("prod", true), (Ints{0, 1}));
  EXPECT_EQ(reduced("amax", false), (Ints{0, 1}));
  EXPECT_EQ(reduced("sum", false), (Ints{0, 1}));
  EXPECT_THROW(reduced("mean", true), Error);
}

TEST(NarrowIntegers, PowersOfMatrices) {
  const Variable paths = make<int64_t>({0, 1, 1, 1}, {2, 2});
  EXPECT_EQ(ints(linalg::matrix_power(paths, 10)), (Ints{34, 55, 55, 89}));
  EXPECT_EQ(ints(linalg::matrix_power(paths, 0)), (Ints{1, 0, 0, 1}));
  EXPECT_THROW(linalg::matrix_power(paths, -1), DTypeError);
  EXPECT_THROW(linalg::matrix_power(paths.to(boolean), 2), DTypeError);
  EXPECT_THROW(linalg::matrix_power(make<int64_t>({1, 2}, {1, 2}), 2), Error);
}

TEST(NarrowIntegers, InACapturedStep) {
  const Variable weight = make<int8_t>({100, -3, 7, 5}, {2, 2});
  const auto run = [&](const Variable& x) { return (matmul(x, weight) + x * 2).to(f32) / 4; };
  GraphedStep step(run);
  for (int64_t i = 0; i < 5; ++i) {
    const Variable x = make<int64_t>({1 + i, 2, 3, 40 * i}, {2, 2}).to(i8);
    EXPECT_EQ(values(step(x)), values(run(x)));
  }
  EXPECT_EQ(step.reason(), "");
}

}  // namespace
}  // namespace tapegrad
