// Reductions of short rows and of few rows, beside formulas in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Doubles = std::vector<double>;
Doubles values(const Variable& x) { return x.to_vector<double>(); }

/// Numbers of [-2, 2], all different in a row.
Variable numbers(const Shape& shape, DType dtype) {
  Doubles made(size_t(numel(shape)));
  for (size_t i = 0; i < made.size(); ++i) made[i] = std::fmod(double(i) * 0.737, 4) - 2;
  return tensor(made, shape, {.dtype = dtype});
}

TEST(ShortRows, ProductsAndMeans) {
  for (int64_t n = 1; n <= 40; ++n)
    for (int64_t rows : {1, 2, 15, 16, 17, 40, 3000}) {
      const Variable x = numbers({rows, n}, f32);
      const Doubles all = values(x), products = values(prod(x, 1)), means = values(mean(x, {1}));
      for (int64_t r = 0; r < rows; ++r) {
        double product = 1, total = 0;
        for (int64_t i = r * n; i < (r + 1) * n; ++i) product *= all[i], total += all[i];
        ASSERT_NEAR(products[r], product, 1e-7 * std::abs(product)) << n;
        ASSERT_NEAR(means[r], total / double(n), 2e-7) << n;
      }
    }
}

/// The sums of few columns of many strips, which are added in the lanes of vectors, have the bits
/// of sums in double in the order of the rows, 256 rows at a time.
TEST(ShortRows, FewColumnsOfSeveralStrips) {
  for (int64_t n = 1; n <= 9; ++n)
    for (int64_t strips : {1, 3, 4, 16, 21})
      for (int64_t rows : {2, 37, 300}) {
        const Variable x = numbers({strips, rows, n}, f32);
        const Variable one = full({strips, 1, n}, 1, {.dtype = f32}).requires_grad_();
        (one * x).backward(numbers({strips, rows, n}, f32));
        const Doubles all = values(x), sums = values(sum(x, {1})), products = values(one.grad()),
                      norms = values(norm(x, 2.0, {1}));
        for (int64_t s = 0; s < strips; ++s)
          for (int64_t j = 0; j < n; ++j) {
            double total = 0, squares = 0;
            for (int64_t first = 0; first < rows; first += 256) {
              double part = 0, part_of_squares = 0;
              for (int64_t i = first; i < std::min(rows, first + 256); ++i) {
                const double value = all[size_t((s * rows + i) * n + j)];
                part += value;
                part_of_squares += double(float(value) * float(value));
              }
              total += part, squares += part_of_squares;
            }
            const size_t at = size_t(s * n + j);
            if (strips >= 4 && n > 1 && n < 8) {
              ASSERT_EQ(sums[at], double(float(total))) << strips << " x " << rows << " x " << n;
              ASSERT_EQ(products[at], double(float(squares))) << strips << " x " << rows;
            }
            ASSERT_NEAR(sums[at], total, 1e-6 * double(rows));
            ASSERT_NEAR(products[at], squares, 2e-7 * squares);
            ASSERT_NEAR(norms[at], std::sqrt(squares), 2e-6 * norms[at]);
          }
      }
}

/// Rows with an infinity, both infinities, a NaN, only -infinity.
TEST(ShortRows, InfinitiesAndNan) {
  for (int64_t n : {2, 3, 4, 5, 9, 16, 17, 31, 32, 40})
    for (int64_t rows : {6, 16, 21, 40}) {
      Variable x = numbers({rows, n}, f32);
      Doubles numbers = values(x);
      const auto row = [&](int64_t r) { return numbers.data() + r * n; };
      row(0)[n - 1] = kInf;
      row(1)[0] = kNan;
      row(2)[0] = kInf, row(2)[1] = -kInf;
      std::fill_n(row(3), n, -kInf);
      row(4)[0] = -kInf;
      row(5)[0] = kInf, row(5)[1] = kNan;
      x = tensor(numbers, {rows, n}, {.dtype = f32});
      const Doubles logs = values(logsumexp(x, {1})), shares = values(softmax(x, 1)),
                    log_shares = values(log_softmax(x, 1));
      EXPECT_EQ(logs[0], kInf);
      EXPECT_TRUE(std::isnan(logs[1]));
      EXPECT_EQ(logs[2], kInf);
      EXPECT_EQ(logs[3], -kInf);
      EXPECT_TRUE(std::isnan(logs[5]));
      for (int64_t r : {0, 1, 2, 3, 5}) {
        EXPECT_TRUE(std::isnan(shares[r * n + n - 1])) << n << ' ' << r;
        EXPECT_TRUE(std::isnan(log_shares[r * n + n - 1])) << n << ' ' << r;
      }
      EXPECT_EQ(shares[4 * n], 0);
      EXPECT_EQ(log_shares[4 * n], -kInf);
      for (int64_t r = 4; r < rows; ++r) {
        if (r == 5) continue;
        double total = 0;
        for (int64_t i = 0; i < n; ++i) total += std::exp(row(r)[i]);
        ASSERT_NEAR(logs[r], std::log(total), 4e-7) << n << ' ' << r;
        for (int64_t i = 0; i < n; ++i)
          ASSERT_NEAR(shares[r * n + i], std::exp(row(r)[i]) / total, 2e-7) << n << ' ' << r;
      }
    }
}

/// The gradient by a kernel equals the recorded one, also for rows of -infinity.
TEST(ShortRows, LogSumExpGradient) {
  for (DType dtype : {f32, f64})
    for (const Shape& shape : {Shape{40, 3}, Shape{5, 20}, Shape{3, 100}})
      for (int dim : {0, 1})
        for (bool keepdim : {false, true}) {
          Variable x = numbers(shape, dtype);
          select(x, dim == 0 ? 1 : 0, 1).fill_(-kInf);
          x.requires_grad_();
          const Variable y = logsumexp(x, {dim}, keepdim);
          for (const Variable& loss :
               {sum(y), sum(where(y < -1e30, 0, y) * numbers(y.shape(), dtype))}) {
            const Doubles kernel = values(grad(loss, x, {.retain_graph = true}));
            const Doubles recorded =
                values(grad(loss, x, {.retain_graph = true, .create_graph = true}));
            ASSERT_EQ(kernel.size(), recorded.size());
            for (size_t i = 0; i < kernel.size(); ++i)
              ASSERT_NEAR(kernel[i], recorded[i], dtype == f32 ? 1e-6 : 1e-14) << shape;
          }
        }
}

/// Norms of any order, of rows and of columns, with zeros.
TEST(ShortRows, NormsOfAnyOrder) {
  for (double p : {0.0, 0.5, 2.5, 3.0, -1.0, 40.0})
    for (const Shape& shape : {Shape{50, 7}, Shape{9, 33}, Shape{300, 20}, Shape{2, 1500}})
      for (int dim : {0, 1}) {
        Variable x = numbers(shape, f32);
        if (p >= 0) slice(x, 1, 0, kEnd, 3).fill_(0);
        const Doubles all = values(x), found = values(norm(x, p, {dim}));
        for (int64_t i = 0; i < shape[1 - dim]; ++i) {
          double total = 0;
          for (int64_t k = 0; k < shape[dim]; ++k) {
            const double size = std::abs(all[dim == 1 ? i * shape[1] + k : k * shape[1] + i]);
            total += p == 0 ? double(size != 0) : std::pow(size, p);
          }
          const double wanted = p == 0 ? total : std::pow(total, 1 / p);
          ASSERT_NEAR(found[i], wanted, 1e-7 * wanted) << p << shape << dim;
        }
      }
  const auto of = [](std::vector<double> row, double p) {
    row.resize(20, 0.5);
    return norm(tensor(row, {1, 20}, {.dtype = f32}), p, {1}).item();
  };
  EXPECT_EQ(of({kInf}, 2.5), kInf);
  EXPECT_EQ(of({-kInf}, 3), kInf);
  EXPECT_TRUE(std::isnan(of({kNan, kInf}, 2.5)));
  EXPECT_TRUE(std::isnan(of({kNan}, 3)));
  EXPECT_EQ(of({0}, -1.5), 0);
}

// Integers, bools and float64 have loops of their own.
TEST(ShortRows, SumsAndExtremesOfAnyType) {
  for (const DType dtype : {boolean, u8, i8, i16, i32, i64, f64})
    for (const int64_t n : {1, 2, 7, 8, 15, 31, 33, 64, 100, 1023, 1025, 2100})
      for (const int dim : {0, 1}) {
        const int64_t rows = n > 1000 ? 3 : 40;
        const Variable signed_ones = numbers({rows, n}, f64) * 60;
        const Variable x = (dtype == u8 ? abs(signed_ones) : signed_ones).to(dtype);
        const Variable y = dim == 1 ? x : transpose(x, 0, 1);
        const Variable source = dim == 1 ? y : y.contiguous();
        const Doubles all = values(x.to(f64));
        const Doubles sums = values(sum(source, {dim}).to(f64));
        const bool has_order = dtype != boolean && dtype != i8 && dtype != i16;
        const Doubles most = has_order ? values(amax(source, {dim}).to(f64)) : sums;
        const Doubles least = has_order ? values(amin(source, {dim}).to(f64)) : sums;
        const std::vector<int64_t> first =
            has_order ? argmax(source, dim).to_vector<int64_t>() : std::vector<int64_t>();
        for (int64_t r = 0; r < rows; ++r) {
          const auto row = all.begin() + r * n, end = row + n;
          double total = 0;
          for (auto value = row; value < end; ++value) total += *value;
          ASSERT_NEAR(sums[size_t(r)], total, 1e-9) << dtype << " " << n << " " << dim;
          if (!has_order) continue;
          ASSERT_EQ(most[size_t(r)], *std::max_element(row, end)) << dtype << " " << n;
          ASSERT_EQ(least[size_t(r)], *std::min_element(row, end)) << dtype << " " << n;
          ASSERT_EQ(first[size_t(r)], std::max_element(row, end) - row) << dtype << " " << n;
        }
      }
  const auto of = [](size_t place, double value) {
    Doubles row(100, 1.0);
    row[place] = value;
    return amax(tensor(row, {1, 100}, {.dtype = f64}), {1}).item();
  };
  for (const size_t place : {0, 50, 99}) EXPECT_TRUE(std::isnan(of(place, kNan)));
  EXPECT_EQ(of(7, kInf), kInf);
}

}  // namespace
}  // namespace tapegrad
