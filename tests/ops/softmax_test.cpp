#include "ops/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Doubles = std::vector<double>;
Doubles values(const Variable& x) { return x.to_vector<double>(); }
Variable make(const Doubles& numbers, const Shape& shape, DType dtype) {
  return tensor(numbers, shape, {.dtype = dtype});
}

TEST(Softmax, T31_Extremes) {
  for (DType dtype : {f32, f64, bf16, f16})
    for (int dim : {0, 1}) {  // rows side by side, and contiguous rows
      const Shape shape = dim == 0 ? Shape{2, 1} : Shape{1, 2};
      const auto row = [&](double a, double b) { return make({a, b}, shape, dtype); };
      EXPECT_EQ(values(softmax(row(1e4, 0), dim)), (Doubles{1, 0}));
      EXPECT_EQ(values(log_softmax(row(8192, 0), dim)), (Doubles{0, -8192}));
      EXPECT_EQ(values(softmax(row(-1e4, -1e4), dim)), (Doubles{0.5, 0.5}));
      EXPECT_EQ(values(softmax(row(-kInf, 3), dim)), (Doubles{0, 1}));
      EXPECT_EQ(values(log_softmax(row(-kInf, 3), dim)), (Doubles{-kInf, 0}));
      for (double y : values(softmax(row(-kInf, -kInf), dim))) EXPECT_TRUE(std::isnan(y));
      for (double y : values(log_softmax(row(-kInf, -kInf), dim))) EXPECT_TRUE(std::isnan(y));
    }
}

/// A NaN makes its whole row NaN, for any position and beside infinities, and affects no other row.
TEST(Softmax, NaNAnywhere) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : {f32, f64, bf16, f16})
    for (int64_t n : {1, 7, 16, 33, 64, 100, 1024, 2100})
      for (double others : {0.5, kInf, -kInf})
        for (int64_t place : {int64_t(0), n / 2, n - 1}) {
          Doubles numbers(size_t(2 * n), others);
          numbers[size_t(place)] = nan;
          std::fill(numbers.begin() + n, numbers.end(), 2.0);
          const Variable x = make(numbers, {2, n}, dtype);
          for (const Variable& y :
               {softmax(x, 1), log_softmax(x, 1), reshape(logsumexp(x, {1}), {2, 1})}) {
            const Doubles got = values(y);
            const auto half = std::ptrdiff_t(got.size() / 2);
            EXPECT_TRUE(std::all_of(got.begin(), got.begin() + half,
                                    [](double v) { return std::isnan(v); }))
                << dtype << ' ' << n << ' ' << others << ' ' << place;
            EXPECT_TRUE(std::none_of(got.begin() + half, got.end(),
                                     [](double v) { return std::isnan(v); }));
          }
        }
}

/// Rows of several blocks and strips, in every dtype, compared with plain loops in double.
TEST(Softmax, LongRows) {
  for (DType dtype : {f32, f64, bf16, f16})
    for (const Shape& shape : {Shape{3, 2500, 1}, Shape{2, 30, 300}, Shape{1, 1, 5},
                               Shape{4, 17, 1}, Shape{2, 3, 17}, Shape{1, 100000, 1}}) {
      Doubles numbers(numel(shape));
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 3 * std::sin(double(i * i % 1013));
      Variable x = make(numbers, shape, dtype).requires_grad_();
      numbers = values(x);
      const Variable y = softmax(x, 1), z = log_softmax(x, 1);
      const Doubles ys = values(y), zs = values(z);
      const Doubles dx = values(grad(sum(y * y), x)), dz = values(grad(sum(z * y.detach()), x));
      const double eps = dtype == f64   ? 0x1p-52
                         : dtype == f32 ? 0x1p-23
                         : dtype == f16 ? 0x1p-10
                                        : 0x1p-7;
      for (int64_t o = 0; o < shape[0]; ++o)
        for (int64_t k = 0; k < shape[2]; ++k) {
          const auto at = [&](int64_t i) { return (o * shape[1] + i) * shape[2] + k; };
          long double total = 0, shares = 0;
          double squares = 0, largest = 0, longest = 1;
          for (int64_t i = 0; i < shape[1]; ++i) total += std::exp(numbers[at(i)]);
          for (int64_t i = 0; i < shape[1]; ++i) {
            const double p = std::exp(numbers[at(i)]) / double(total);
            squares += 2 * p * p;
            largest = std::max(largest, p);
            longest = std::max(longest, std::fabs(std::log(p)));
            shares += ys[at(i)];
          }
          for (int64_t i = 0; i < shape[1]; ++i) {
            const double p = std::exp(numbers[at(i)]) / double(total);
            ASSERT_NEAR(ys[at(i)], p, 16 * eps * largest);
            ASSERT_NEAR(zs[at(i)], std::log(p), 16 * eps * longest);
            ASSERT_NEAR(dx[at(i)], p * (2 * p - squares), 32 * eps * largest);
            ASSERT_NEAR(dz[at(i)], ys[at(i)] - p * double(shares), 32 * eps * largest);
          }
          if (dtype == f32 || dtype == f64) {
            ASSERT_NEAR(double(shares), 1, 16 * eps);
          }
        }
    }
}

/// Rows along dim: random, random with a wide range, with an exp that underflows, with a mask's
/// -inf.
Variable different_rows(int64_t rows, int64_t n, int dim, DType dtype) {
  Doubles numbers(size_t(rows * n));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < n; ++i) {
      double value = std::sin(double((row * n + i) * (i + 7) % 1013));
      if (row % 4 == 1) value *= 20;
      if (row % 4 == 2 && i % 5 == 3) value = -300;
      if (row % 4 == 3 && i % 3 == 1) value = -kInf;
      numbers[size_t(dim == 1 ? row * n + i : i * rows + row)] = value;
    }
  return make(numbers, dim == 1 ? Shape{rows, n} : Shape{n, rows}, dtype);
}

/// softmax, log_softmax and logsumexp along dim, each with its gradient.
std::vector<Variable> all_results(const Variable& rows, const Variable& weights, int dim) {
  const Variable x = rows.detach().requires_grad_();
  std::vector<Variable> results;
  for (const Variable& y : {softmax(x, dim), log_softmax(x, dim), logsumexp(x, {dim}, true)}) {
    results.push_back(y);
    results.push_back(grad(sum(y * narrow(weights, dim, 0, y.size(dim))), x));
  }
  return results;
}

/// A row's results have the same bits for any neighbouring rows: alone, and (with another order of
/// summation) side by side with any other row.
TEST(Softmax, RowsDoNotKnowEachOther) {
  constexpr int64_t kRows = 19;
  for (DType dtype : {f32, f64, bf16, f16})
    for (int dim : {1, 0})
      for (int64_t n = 1; n <= 70; ++n) {
        const Variable x = different_rows(kRows, n, dim, dtype);
        const Variable weights =
            reshape(sin(arange(kRows * n, {.dtype = f64})), x.shape()).to(dtype);
        const std::vector<Variable> together = all_results(x, weights, dim);
        for (int64_t row = 0; row < kRows; ++row) {
          const Variable few = dim == 1 ? tensor({row}) : tensor({row, (row + 1) % kRows});
          const auto pick = [&](const Variable& all) { return index_select(all, 1 - dim, few); };
          const std::vector<Variable> apart = all_results(pick(x), pick(weights), dim);
          for (size_t k = 0; k < apart.size(); ++k)
            ASSERT_EQ(values(select(apart[k], 1 - dim, 0)),
                      values(select(together[k], 1 - dim, row)))
                << dtype << ", along " << dim << ", row " << row << " of " << n << ", result " << k;
        }
      }
}

/// Equal elements of a row have equal results at any position.
TEST(Softmax, EqualElements) {
  for (DType dtype : {f32, f64, bf16, f16})
    for (int64_t n = 3; n <= 70; ++n) {
      Doubles numbers(size_t(n), -0.7);
      numbers[size_t(n / 2)] = 2.3;
      Variable x = make(numbers, {1, n}, dtype).requires_grad_();
      for (const Variable& y : {softmax(x, 1), log_softmax(x, 1)})
        for (Doubles got : {values(y), values(grad(sum(select(y, 1, n / 2)), x))}) {
          got[size_t(n / 2)] = got[0];
          ASSERT_EQ(got, Doubles(size_t(n), got[0])) << dtype << ' ' << n;
        }
    }
}

using OfDim = Variable (*)(const Variable&, int, Where);

TEST(Softmax, FusedAndRecordedGradientsAgree) {
  const Doubles numbers{0.3, -1, 2, 0.7, 0.1, -0.4};
  for (const auto f : {OfDim(softmax), OfDim(log_softmax)})
    for (int dim : {0, 1}) {
      Variable x = make(numbers, {2, 3}, f64).requires_grad_();
      const Variable y = f(x, dim, Where::current());
      const Variable loss = sum(y * y * y);
      const Doubles fused = values(grad(loss, x, {.retain_graph = true}));
      const Doubles recorded = values(grad(loss, x, {.create_graph = true}));
      for (size_t i = 0; i < fused.size(); ++i) EXPECT_NEAR(fused[i], recorded[i], 1e-14);
      EXPECT_TRUE(gradcheck([&](const auto& in) { return f(in[0], dim, Where::current()); }, {x},
                            {.order = 2}));
    }
}

/// Rows of every length beside the formulas in double.
TEST(Softmax, ShortRows) {
  for (int64_t n = 1; n <= 70; ++n) {
    Doubles numbers(size_t(2 * n)), slopes(size_t(2 * n));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = std::fmod(double(i) * 0.737, 3) - 1;
      slopes[i] = std::fmod(double(i) * 0.311, 2) - 1;
    }
    Variable x = make(numbers, {2, n}, f32).requires_grad_();
    const Variable dy = make(slopes, {2, n}, f32);
    const Variable y = softmax(x, 1), log_y = log_softmax(x, 1);
    const Doubles found = values(y), logs = values(log_y), totals = values(logsumexp(x, {1})),
                  slope = values(grad(y, x, dy)), log_slope = values(grad(log_y, x, dy));
    for (int64_t row = 0; row < 2; ++row) {
      double total = 0, mean = 0, sum = 0;
      for (int64_t i = row * n; i < (row + 1) * n; ++i) total += std::exp(numbers[i]);
      for (int64_t i = row * n; i < (row + 1) * n; ++i)
        mean += std::exp(numbers[i]) / total * slopes[i], sum += slopes[i];
      EXPECT_NEAR(totals[row], std::log(total), 1e-6);
      for (int64_t i = row * n; i < (row + 1) * n; ++i) {
        const double wanted = std::exp(numbers[i]) / total;
        ASSERT_NEAR(found[i], wanted, 1e-6) << n;
        ASSERT_NEAR(logs[i], std::log(wanted), 2e-6) << n;
        ASSERT_NEAR(slope[i], wanted * (slopes[i] - mean), 1e-6) << n;
        ASSERT_NEAR(log_slope[i], slopes[i] - wanted * sum, 4e-6) << n;
      }
    }
  }
}

/// Empty tensors take no time, however many or long the rows would be.
TEST(Softmax, T03_NothingButWide) {
  const Shape shape{0, int64_t(1) << 31, int64_t(1) << 31};
  for (const auto f : {OfDim(softmax), OfDim(log_softmax)})
    for (int dim : {0, 2}) {
      Variable x = zeros(shape).requires_grad_();
      const Variable y = f(x, dim, Where::current());
      EXPECT_EQ(y.shape(), shape);
      EXPECT_EQ(grad(sum(y), x).shape(), shape);
    }
}

TEST(Softmax, T04_Errors) {
  EXPECT_THROW(softmax(ones({2, 3}), 2), IndexError);
  EXPECT_THROW(log_softmax(ones({2, 3}), -3), IndexError);
  EXPECT_THROW(softmax(tensor({1, 2}), 0), DTypeError);
}

}  // namespace
}  // namespace tapegrad
