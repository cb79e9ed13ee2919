#include "ops/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/autograd/derivatives.h"
#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Doubles = std::vector<double>;
Doubles values(const Variable& x) { return x.to_vector<double>(); }

Variable make(const Doubles& numbers, const Shape& shape, DType dtype = f64) {
  return tensor(numbers, shape, {.dtype = dtype});
}
Variable make(const Doubles& numbers, DType dtype = f64) {
  return make(numbers, {int64_t(numbers.size())}, dtype);
}
Variable leaf(const Doubles& numbers) { return make(numbers).requires_grad_(); }

/// Different whole numbers, whose sums are exact.
Variable counted(const Shape& shape, DType dtype) {
  Doubles numbers(numel(shape));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = double(int64_t(i * 37 % 23) - 11);
  return make(numbers, shape, dtype);
}

TEST(Reduce, T03_NothingToReduce) {
  const Variable x = zeros({3, 0});
  EXPECT_EQ(values(sum(x, {1})), (Doubles{0, 0, 0}));
  EXPECT_EQ(sum(x).item(), 0);
  EXPECT_EQ(prod(x).item(), 1);
  EXPECT_EQ(values(prod(x, 1)), (Doubles{1, 1, 1}));
  EXPECT_TRUE(std::isnan(mean(x).item()));
  EXPECT_TRUE(std::isnan(var(x).item()));
  EXPECT_EQ(any(x).item(), 0);
  EXPECT_EQ(all(x).item(), 1);
  EXPECT_EQ(norm(x).item(), 0);
  EXPECT_EQ(values(logsumexp(x, {1})), (Doubles{-kInf, -kInf, -kInf}));
  EXPECT_THROW(amax(x), ArgumentError);
  EXPECT_THROW(amin(x, {1}), ArgumentError);
  EXPECT_THROW(max(x, 1), ArgumentError);
  EXPECT_THROW(argmax(x, 1), ArgumentError);
  EXPECT_THROW(argmin(x), ArgumentError);
  EXPECT_EQ(amax(x, {0}).shape(), Shape{0});
  EXPECT_EQ(max(x, 0).values.shape(), Shape{0});
  EXPECT_EQ(argmax(x, 0).shape(), Shape{0});
  EXPECT_EQ(argmax(x, 0, true).shape(), (Shape{1, 0}));
  EXPECT_EQ(cumsum(x, 1).shape(), (Shape{3, 0}));
}

TEST(Reduce, T03_BroadcastGradientOfNothing) {
  Variable x = zeros({4, 0}).requires_grad_(), y = ones({4, 1}).requires_grad_();
  sum(x + y).backward();
  EXPECT_EQ(y.grad().shape(), (Shape{4, 1}));
  EXPECT_EQ(values(y.grad()), (Doubles{0, 0, 0, 0}));
}

TEST(Reduce, LogSumExpOfIntegers) {
  EXPECT_EQ(logsumexp(tensor({1, 2}), 0).item(), logsumexp(tensor({1.0, 2.0}), 0).item());
}

TEST(Reduce, T04_Errors) {
  const Variable x = ones({2, 3});
  EXPECT_THROW(sum(x, {2}), IndexError);
  EXPECT_THROW(sum(x, {-3}), IndexError);
  EXPECT_THROW(mean(x, {0, 0}), ArgumentError);
  EXPECT_THROW(amax(x, {1, -1}), ArgumentError);
  EXPECT_THROW(max(x, 2), IndexError);
  EXPECT_THROW(cumsum(x, -3), IndexError);
  EXPECT_THROW(sum_to(x, {2}), ShapeError);
  EXPECT_THROW(sum_to(x, {1, 2, 3}), ShapeError);
  EXPECT_THROW(mean(x.to(i64)), DTypeError);
  EXPECT_THROW(norm(x, kNan), ArgumentError);
  try {
    var(x, {1, -1});
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.message(), "var: dim -1 is named twice in [1, -1]");
  }
}

TEST(Reduce, T28_NanPropagates) {
  for (DType dtype : {f64, f32, f16, bf16}) {
    const Variable x = make({1, kNan, 3, kNan, 2, 5}, {2, 3}, dtype);
    EXPECT_TRUE(std::isnan(amax(x).item()));
    EXPECT_TRUE(std::isnan(amin(x).item()));
    EXPECT_EQ(argmax(x).item(), 1);
    EXPECT_EQ(argmin(x).item(), 1);
    EXPECT_EQ(values(argmax(x, 1)), (Doubles{1, 0}));
    EXPECT_EQ(values(argmin(x, 0)), (Doubles{1, 0, 0}));
    const auto [largest, where] = max(x, 0);
    EXPECT_TRUE(std::isnan(values(largest)[0]) && std::isnan(values(largest)[1]));
    EXPECT_EQ(values(largest)[2], 5);
    EXPECT_EQ(values(where), (Doubles{1, 0, 1}));
  }
  Doubles many(5000, 1.0);  // a NaN in any lane of any block
  for (int64_t i : {0, 1, 63, 64, 1023, 1024, 4999}) {
    many[i] = kNan;
    many[i == 0 ? 1 : 0] = 7;
    EXPECT_TRUE(std::isnan(amax(make(many, f32)).item()));
    EXPECT_EQ(argmax(make(many, f32)).item(), double(i));
    many.assign(5000, 1.0);
  }
}

TEST(Reduce, T30_Ties) {
  Variable x = leaf({3, 1, 3, 3});
  EXPECT_EQ(values(grad(amax(x), x)), (Doubles{1 / 3., 0, 1 / 3., 1 / 3.}));
  EXPECT_EQ(values(grad(amin(x), x)), (Doubles{0, 1, 0, 0}));
  EXPECT_EQ(values(grad(max(x), x)), (Doubles{1 / 3., 0, 1 / 3., 1 / 3.}));
  const auto [largest, where] = max(x, 0);
  EXPECT_EQ(where.item(), 0);
  EXPECT_FALSE(where.requires_grad());
  EXPECT_EQ(values(grad(largest, x)), (Doubles{1, 0, 0, 0}));
  EXPECT_EQ(argmin(make({2, 1, 1}), 0).item(), 1);
  EXPECT_EQ(argmax(make(Doubles(3000, 1.0), f32)).item(), 0);
}

/// Rows of up to 64 elements are processed side by side: the first of ties, or the first NaN, is
/// found in every row of every block.
TEST(Reduce, ShortRowsHaveTheirFirstExtreme) {
  for (const DType dtype : {f32, f64, bf16, i64, u8})
    for (const int64_t columns : {1, 2, 10, 63, 64, 65})
      for (const int64_t rows : {1, 3, 257, 1030}) {
        Doubles numbers;
        for (int64_t i = 0; i < rows * columns; ++i)
          numbers.push_back(is_float(dtype) && i % 37 == 5 ? kNan : double(i * i % 101 % 13));
        for (const bool largest : {true, false}) {
          Doubles extremes, places;
          for (int64_t i = 0; i < rows; ++i) {
            const auto row = numbers.begin() + i * columns, end = row + columns;
            auto found = std::find_if(row, end, [](double x) { return std::isnan(x); });
            if (found == end)
              found = largest ? std::max_element(row, end) : std::min_element(row, end);
            extremes.push_back(std::isnan(*found) ? -1 : *found);
            places.push_back(double(found - row));
          }
          const Variable x = make(numbers, {rows, columns}, dtype);
          const auto [best, where] = largest ? max(x, 1) : min(x, 1);
          Doubles got = values(best);
          for (double& value : got) value = std::isnan(value) ? -1 : value;
          EXPECT_EQ(got, extremes) << dtype << ' ' << rows << " x " << columns;
          EXPECT_EQ(values(where), places) << dtype << ' ' << rows << " x " << columns;
          EXPECT_EQ(values(largest ? argmax(x, 1) : argmin(x, 1)), places);
        }
      }
}

TEST(Reduce, T33_NormAtZero) {
  for (double p : {1.0, 1.5, 2.0, 3.0, 0.5, kInf}) {
    Variable x = leaf({0, 0, 0});
    EXPECT_EQ(values(grad(norm(x, p), x)), (Doubles{0, 0, 0})) << p;
  }
  Variable x = leaf({0, 3, -4});
  const Doubles direction = values(grad(norm(x), x));
  EXPECT_EQ(direction[0], 0);
  EXPECT_DOUBLE_EQ(direction[1], 0.6);
  EXPECT_DOUBLE_EQ(direction[2], -0.8);
  EXPECT_EQ(values(grad(norm(x, 0.0), x)), (Doubles{0, 0, 0}));
  EXPECT_EQ(norm(x, 0.0).item(), 2);
  EXPECT_EQ(norm(x, kInf).item(), 4);
  EXPECT_EQ(norm(x, -kInf).item(), 0);
  EXPECT_EQ(norm(x, 1.0).item(), 7);
  EXPECT_EQ(norm(make({3e30, 4e30}, f32)).item(), 5e30f);  // the squares exceed float32
}

TEST(Reduce, T35_AccurateSums) {
  EXPECT_EQ(sum(ones({(1 << 24) + 8})).item(), 16777224);
  const int64_t rows = (1 << 23) + 4;
  EXPECT_EQ(values(sum(ones({rows, 2}), {0})), Doubles(2, double(rows)));
  const Variable x = make({32000, 32000, 32000, 32000, -32000, -32000, -32000, -32000}, f16);
  EXPECT_EQ(sum(x).item(), 0);
  EXPECT_EQ(values(sum(reshape(x, {8, 1}), {0})), Doubles{0});
  EXPECT_EQ(mean(make({60000, 60000}, f16)).item(), 60000);  // the sum exceeds float16
  EXPECT_EQ(sum(ones({1024}, {.dtype = bf16})).item(), 1024);
  EXPECT_EQ(values(sum(ones({1024, 3}, {.dtype = bf16}), {0})), Doubles(3, 1024));
}

TEST(Reduce, T37_VarianceFarFromZero) {
  for (DType dtype : {f32, f64}) {
    const Variable x = make({1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3}, dtype);
    EXPECT_EQ(var(x, {.correction = 0}).item(), 1.25);
    EXPECT_EQ(var(x).item(), dtype == f32 ? double(float(5.0 / 3)) : 5.0 / 3);
    EXPECT_EQ(values(var(reshape(x, {4, 1}), {0}, {.correction = 0})), Doubles{1.25});
  }
  // Neighbours of 1e7 in float32, whose mean is not a float32.
  EXPECT_EQ(var(make({1e7, 1e7 + 1}, f32), {.correction = 0}).item(), 0.25);
  EXPECT_TRUE(std::isnan(var(make({1})).item()));
  Variable flat = leaf({2, 2, 2});
  EXPECT_EQ(values(grad(std(flat), flat)), (Doubles{0, 0, 0}));
}

TEST(Reduce, T40_HugeExpandedDims) {
  const Shape huge{3, int64_t(1) << 40};
  const Variable x = expand(make({1, 2, 3}, {3, 1}), huge);
  EXPECT_EQ(sum(x).item(), 6 * std::ldexp(1.0, 40));
  EXPECT_EQ(values(sum(x, {1})), (Doubles{0x1p40, 0x1p41, 3 * 0x1p40}));
  EXPECT_EQ(mean(x).item(), 2);
  EXPECT_EQ(values(amax(x, {1})), (Doubles{1, 2, 3}));
  EXPECT_EQ(var(x, {1}).to_vector<double>(), (Doubles{0, 0, 0}));
  EXPECT_EQ(prod(expand(make({-1}), {(int64_t(1) << 40) + 1}), 0).item(), -1);
  EXPECT_EQ(sum(expand(tensor({3}), {int64_t(1) << 40})).item(), 3 * 0x1p40);
  EXPECT_EQ(all(expand(tensor({true}), {int64_t(1) << 40})).item(), 1);
}

TEST(Reduce, IntegersSumInSixtyFourBits) {
  const Variable bytes = full({1000}, 200, {.dtype = u8});
  EXPECT_EQ(sum(bytes).dtype(), i64);
  EXPECT_EQ(sum(bytes).item(), 200000);
  EXPECT_EQ(sum(full({3}, int64_t(1) << 40, {.dtype = i64})).item(), 3 * 0x1p40);
  EXPECT_EQ(prod(tensor({3, 4, 5}).to(i32)).item(), 60);
  EXPECT_EQ(prod(tensor({3, 4, 5}).to(i32)).dtype(), i64);
  const Variable mask = tensor({true, false, true}, {.dtype = boolean});
  EXPECT_EQ(sum(mask).item(), 2);
  EXPECT_EQ(values(cumsum(mask, 0)), (Doubles{1, 1, 2}));
  EXPECT_EQ(amax(tensor({-7, -3, -5})).dtype(), i64);
  EXPECT_EQ(amax(tensor({-7, -3, -5})).item(), -3);
  EXPECT_EQ(argmin(tensor({4, 2, 9}).to(i32)).item(), 1);
  EXPECT_EQ(any(tensor({0, 0, 2})).item(), 1);
  EXPECT_EQ(all(tensor({0, 0, 2})).item(), 0);
  EXPECT_EQ(any(make({0, kNan}, f32)).item(), 1);
  EXPECT_EQ(any(mask).dtype(), boolean);
}

/// Every code path, compared with plain loops: rows and columns, many sizes, layouts.
TEST(Reduce, SumOfEveryLayout) {
  const std::vector<Shape> shapes{{1, 1},     {7, 5},        {3, 100},     {100, 3},  {1500, 17},
                                  {17, 1500}, {2, 3000},     {3000, 2},    {5, 7, 9}, {2, 33, 40},
                                  {1, 70, 1}, {300, 1, 300}, {2, 3, 4, 5}, {65, 64},  {200000}};
  for (DType dtype : {f32, i64, bf16})
    for (const Shape& shape : shapes)
      for (int mask = 1; mask < 1 << shape.rank(); ++mask)
        for (bool reversed : {false, true}) {
          Variable x = counted(shape, dtype);
          if (reversed) {  // the same values with strides in reverse order
            Dims back;
            for (int i = shape.rank() - 1; i >= 0; --i) back.push_back(i);
            x = permute(clone(permute(x, back)), back);
          }
          Dims dims;
          Shape kept = shape;
          for (int i = 0; i < shape.rank(); ++i)
            if (mask >> i & 1) {
              dims.push_back(i);
              kept[i] = 1;
            }
          const Doubles numbers = values(x);
          Doubles expected(numel(kept));
          for (int64_t i = 0; i < x.numel(); ++i) {
            int64_t rest = i, at = 0, step = 1;
            for (int d = shape.rank() - 1; d >= 0; --d) {
              if (kept[d] > 1) at += rest % shape[d] * step;
              step *= kept[d];
              rest /= shape[d];
            }
            expected[at] += numbers[i];
          }
          const Variable y = sum(x, dims, true);
          ASSERT_EQ(y.shape(), kept);
          if (dtype == bf16)  // rounds once
            for (double& total : expected) total = double(float(bfloat16(float(total))));
          ASSERT_EQ(values(y), expected) << name(dtype) << shape << " over " << dims << reversed;
        }
}

TEST(Reduce, SameForAnyNumberOfThreads) {
  std::vector<float> numbers(3'000'000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(float(i));
  const int64_t before = get_num_threads();
  for (const Shape& shape :
       {Shape{3'000'000}, Shape{3000, 1000}, Shape{1'500'000, 2}, Shape{250'000, 12}}) {
    const Variable x = tensor(numbers, shape);
    std::vector<std::vector<float>> results;
    for (int threads : {1, 2, 3, 8}) {
      set_num_threads(threads);
      std::vector<float> all;
      for (const Variable& y : {sum(x), sum(x, {0}), var(x), norm(x), var(x, {0}), prod(x, 0)})
        for (float value : y.to_vector<float>()) all.push_back(value);
      results.push_back(all);
    }
    for (const auto& other : results)
      EXPECT_EQ(0, std::memcmp(other.data(), results[0].data(), other.size() * sizeof(float)));
  }
  set_num_threads(before);
}

/// The first of equal extremes, in rows and columns of several blocks and pieces.
TEST(Reduce, ExtremesOfLargeTensors) {
  for (const Shape& shape : {Shape{3, 1500, 1}, Shape{2, 1500, 3}, Shape{1, 200000, 1},
                             Shape{1, 90000, 2}, Shape{2, 40, 1100}}) {
    const Variable x = counted(shape, f32);
    const Doubles numbers = values(x);
    const auto [largest, where] = max(x, 1);
    const auto [smallest, at] = min(x, 1);
    const Doubles high = values(largest), low = values(smallest), to = values(where),
                  from = values(at);
    for (int64_t o = 0; o < shape[0]; ++o)
      for (int64_t k = 0; k < shape[2]; ++k) {
        int64_t best = 0, worst = 0;
        const auto number = [&](int64_t i) { return numbers[(o * shape[1] + i) * shape[2] + k]; };
        for (int64_t i = 1; i < shape[1]; ++i) {
          if (number(i) > number(best)) best = i;
          if (number(i) < number(worst)) worst = i;
        }
        const int64_t y = o * shape[2] + k;
        ASSERT_EQ(to[y], double(best)) << shape;
        ASSERT_EQ(from[y], double(worst)) << shape;
        ASSERT_EQ(high[y], number(best));
        ASSERT_EQ(low[y], number(worst));
      }
  }
}

TEST(Reduce, ProductWithZeros) {
  const auto check = [](const Doubles& numbers, const Doubles& expected) {
    Variable x = leaf(numbers);
    EXPECT_EQ(values(grad(prod(x), x)), expected);
    EXPECT_TRUE(gradcheck([](const auto& in) { return prod(in[0], 0); }, {x}, {.order = 2}));
  };
  check({2, 3, 5}, {15, 10, 6});
  check({2, 0, 5}, {0, 10, 0});
  check({0, 3, 0}, {0, 0, 0});
  check({0, 0, 0, 2}, {0, 0, 0, 0});
  check({7}, {1});
  // The mixed second derivative for the two zeros is the product of the other elements.
  Variable x = leaf({0, 3, 0});
  const Variable first = grad(prod(x), x, {.create_graph = true});
  EXPECT_EQ(values(grad(sum(select(first, 0, 0)), x)), (Doubles{0, 0, 3}));
}

TEST(Reduce, LogSumExp) {
  EXPECT_EQ(logsumexp(make({1000, 1000}), {0}).item(), 1000 + std::log(2.0));
  EXPECT_EQ(logsumexp(make({-1000, -1000}, f32), {0}).item(), float(-1000 + std::log(2.0)));
  EXPECT_EQ(logsumexp(make({kInf, 0}), {0}).item(), kInf);
  EXPECT_TRUE(std::isnan(logsumexp(make({kNan, 0}), {0}).item()));
  Variable x = make({-kInf, -kInf, 0, -kInf}, {2, 2}).requires_grad_();
  const Variable y = logsumexp(x, {1});
  EXPECT_EQ(values(y), (Doubles{-kInf, 0}));
  EXPECT_EQ(values(grad(sum(y), x)), (Doubles{0, 0, 1, 0}));
}

/// Rows of every length, many and few: each reduction beside a loop in double.
TEST(Reduce, ShortRows) {
  for (int64_t n = 1; n <= 140; ++n) {
    const int64_t rows = 40000 / n + 1;
    const Variable x = counted({rows, n}, f32), few = slice(x, 0, 0, 3);
    const Doubles all = values(x);
    const Doubles sums = values(sum(x, {1})), sizes = values(norm(x, 1.0, {1})),
                  largest = values(amax(x, {1})), least = values(amin(x, {1})),
                  squares = values(square(norm(x.to(f64), 2.0, {1}))),
                  lengths = values(norm(x, 2.0, {1}));
    for (int64_t r = 0; r < rows; ++r) {
      double total = 0, size = 0, square = 0, most = -kInf, fewest = kInf;
      for (int64_t i = r * n; i < (r + 1) * n; ++i) {
        total += all[i], size += std::fabs(all[i]), square += all[i] * all[i];
        most = std::max(most, all[i]), fewest = std::min(fewest, all[i]);
      }
      ASSERT_EQ(sums[r], total) << n;
      ASSERT_EQ(sizes[r], size) << n;
      ASSERT_EQ(lengths[r], float(std::sqrt(square))) << n;
      ASSERT_NEAR(squares[r], square, 1e-9) << n;
      ASSERT_EQ(largest[r], most) << n;
      ASSERT_EQ(least[r], fewest) << n;
    }
    // The number of rows changes nothing.
    const Doubles some = values(sum(few / 7, {1})), many = values(sum(x / 7, {1}));
    for (size_t r = 0; r < some.size(); ++r) ASSERT_EQ(some[r], many[r]) << n;
    for (int64_t at : {int64_t(0), n / 2, n - 1}) {
      Variable y = x.clone();
      select(select(y, 0, 1), 0, at).fill_(kNan);
      EXPECT_TRUE(std::isnan(values(amax(y, {1}))[1])) << n << ' ' << at;
      EXPECT_TRUE(std::isnan(values(amin(y, {1}))[1])) << n << ' ' << at;
      EXPECT_FALSE(std::isnan(values(amax(y, {1}))[0])) << n << ' ' << at;
    }
  }
}

/// Many groups of few rows, side by side.
TEST(Reduce, ShortColumns) {
  for (int64_t rows : {1, 2, 5, 26, 300, 1024, 2100})
    for (int64_t columns : {3, 4, 7, 8, 9, 12, 16, 33, 36, 64, 130}) {
      const int64_t groups = 60000 / (rows * columns) + 2;
      const Variable x = counted({groups, rows, columns}, f32);
      const Doubles all = values(x), sums = values(sum(x, {1})), most = values(amax(x, {1}));
      const Doubles apart = values(sum(transpose(x, 0, 2), {1}));  // [columns, groups]
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t c = 0; c < columns; ++c) {
          double total = 0, largest = -kInf;
          for (int64_t r = 0; r < rows; ++r) {
            const double value = all[(g * rows + r) * columns + c];
            total += value, largest = std::max(largest, value);
          }
          ASSERT_EQ(sums[g * columns + c], total) << x.shape();
          ASSERT_EQ(apart[c * groups + g], total) << x.shape();
          ASSERT_EQ(most[g * columns + c], largest) << x.shape();
        }
    }
}

/// Reduced dimensions before, between and after kept ones.
TEST(Reduce, LogSumExpOfAnyDimensions) {
  const Variable x = counted({3, 4, 2, 5}, f64);
  for (const Dims& dims :
       {Dims{0}, Dims{1}, Dims{1, 2}, Dims{0, 3}, Dims{2, 3}, Dims{0, 1, 2, 3}}) {
    const Doubles found = values(logsumexp(x, dims)), wanted = values(log(sum(exp(x), dims)));
    const Doubles strided =
        values(logsumexp(transpose(transpose(x, 0, 3).contiguous(), 0, 3), dims));
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], wanted[i], 1e-13);
      EXPECT_NEAR(strided[i], wanted[i], 1e-13);
    }
    Variable y = x.clone().requires_grad_();
    EXPECT_TRUE(gradcheck([&](const auto& in) { return logsumexp(in[0], dims); }, {y}));
  }
}

TEST(Reduce, CumulativeSum) {
  Variable x = make({1, 2, 3, 4, 5, 6}, {2, 3}).requires_grad_();
  EXPECT_EQ(values(cumsum(x, 1)), (Doubles{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(values(cumsum(x, 0)), (Doubles{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(values(grad(sum(cumsum(x, 1)), x)), (Doubles{3, 2, 1, 3, 2, 1}));
  const Variable ones_sum = cumsum(ones({(1 << 24) + 8}), 0);
  EXPECT_EQ(slice(ones_sum, 0, -1).item(), 16777224);
}

/// The kernel's gradients of extremes have the bits of the rule for recorded passes: ties, rows and
/// columns of several strips and pieces, and NaN.
TEST(Reduce, GradientsOfExtremesEqualRecordedOnes) {
  struct Sizes {
    Shape shape;
    Dims dims;
  };
  for (const auto& [shape, dims] :
       {Sizes{{7, 300}, {1}}, Sizes{{7, 300}, {0}}, Sizes{{3, 40, 5}, {1}},
        Sizes{{3, 4, 50}, {0, 1}}, Sizes{{3, 4, 50}, {0, 2}}, Sizes{{300000}, {}},
        Sizes{{150000, 3}, {0}}, Sizes{{2, 1, 600}, {1}}})
    for (DType dtype : {f32, f64, f16})
      for (const bool with_nan : {false, true}) {
        Variable x = counted(shape, dtype).clamp(-6, 6);
        if (with_nan) flatten(x)[0] = kNan;
        x.requires_grad_();
        for (const Variable& y : {amax(x, dims), amin(x, dims)}) {
          const Variable dy = counted(y.shape(), dtype);
          const Variable found = grad({y}, {x}, {.grad_outputs = {dy}, .retain_graph = true})[0];
          const Variable wanted =
              grad({y}, {x}, {.grad_outputs = {dy}, .create_graph = true})[0].detach();
          const auto agree = [](double a, double b) { return a == b || (a != a && b != b); };
          ASSERT_TRUE(std::ranges::equal(values(found), values(wanted), agree))
              << shape << dims << dtype;
        }
      }
}

TEST(Reduce, SumToKeepsAnEqualShape) {
  const Variable x = ones({2, 3});
  EXPECT_TRUE(sum_to(x, {2, 3}).is_same(x));
  EXPECT_EQ(values(sum_to(x, {3})), (Doubles{2, 2, 2}));
  EXPECT_EQ(values(sum_to(x, {2, 1})), (Doubles{3, 3}));
  EXPECT_EQ(sum_to(x, {}).item(), 6);
}

// PyTorch refuses max(x, keepdim=True), too. NumPy reduces all dimensions of prod().
TEST(Reduce, OptionsWithoutDimDoNotReduceDimensionZero) {
  const Variable x = tensor({{1.0, 2.0}, {3.0, 4.0}});
  EXPECT_THROW(max(x, {.keepdim = true}), ArgumentError);
  EXPECT_THROW(min(x, {.keepdim = true}), ArgumentError);
  EXPECT_THROW(max(x, AlongOptions{}), ArgumentError);
  EXPECT_EQ(max(x, {.dim = 0, .keepdim = true}).values.to_vector<float>(),
            (std::vector<float>{3, 4}));
  const Variable product = prod(x, {.keepdim = true});
  EXPECT_EQ(product.shape(), (Shape{1, 1}));
  EXPECT_EQ(product.item(), 24);
  EXPECT_EQ(prod(x, AlongOptions{}).shape(), Shape{});
  EXPECT_EQ(prod(x, {.dim = 1}).to_vector<float>(), (std::vector<float>{2, 12}));
}

// Expected values: NumPy's var(..., ddof=correction).
TEST(Variance, AnyCorrection) {
  const Variable x = leaf({1, 2, 4, 9});
  EXPECT_DOUBLE_EQ(var(x, {.correction = 0}).item(), 38.0 / 4);
  EXPECT_DOUBLE_EQ(var(x, {.correction = 1}).item(), 38.0 / 3);
  EXPECT_DOUBLE_EQ(var(x, {.correction = 2}).item(), 38.0 / 2);
  EXPECT_DOUBLE_EQ(var(x, {.correction = -1}).item(), 38.0 / 5);
  EXPECT_DOUBLE_EQ(std(x, {.correction = 2}).item(), std::sqrt(38.0 / 2));
  EXPECT_EQ(var(x, {.correction = 5}).item(), INFINITY);
  EXPECT_EQ(var(x, {.correction = INT_MIN}).item(), 38.0 / (4 + 0x1p31));
  const auto checked =
      gradcheck([](const auto& in) { return var(in[0], {.correction = 2}); }, {x}, {.order = 2});
  EXPECT_TRUE(checked) << checked.message;
}

// (1 / |x| + 1 / |y|)^-1 is 0 at y = 0 for every x.
TEST(Reduce, T33_NormsOfNegativeOrderAtZero) {
  for (const double p : {-1.0, -2.0, -0.5}) {
    const Variable x = tensor({1.0, 0.0, -2.0}, {.dtype = f64, .requires_grad = true});
    const Variable y = norm(x, p);
    EXPECT_EQ(y.item(), 0);
    EXPECT_EQ(grad(y, x).to_vector<double>(), (std::vector<double>{0, 0, 0})) << p;
    const Variable z = leaf({1, 0.5, -2});
    const auto checked =
        gradcheck([&](const auto& in) { return norm(in[0], p); }, {z}, {.order = 2});
    EXPECT_TRUE(checked) << checked.message;
  }
}

}  // namespace
}  // namespace tapegrad
