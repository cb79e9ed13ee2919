#include "ops/sort.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "ops/aliases.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/statistics.h"
#include "ops/statistics_composed.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::expect_values;
using testing::Ints;
using testing::ints;
using testing::make;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Doubles = std::vector<double>;

TEST(Sort, T28_NanIsTheLargest) {
  const Variable x = make({3, kNaN, -kInf, kNaN, kInf, 1});
  for (DType dtype : {f64, f32, f16, bf16}) {
    const auto up = sort(x.to(dtype));
    expect_values(up.values, {-kInf, 1, 3, kInf, kNaN, kNaN});
    EXPECT_EQ(ints(up.indices), (Ints{2, 5, 0, 4, 1, 3}));
    EXPECT_EQ(ints(argsort(x.to(dtype), -1, /*descending=*/true)), (Ints{1, 3, 4, 0, 5, 2}));
  }
  expect_values(topk(x, 3).values, {kNaN, kNaN, kInf});
  expect_values(kthvalue(x, 4).values, {kInf});
  EXPECT_TRUE(std::isnan(median(x).item()));
  EXPECT_EQ(median(x, 0).indices.item(), 1);
  EXPECT_TRUE(std::isnan(quantile(x, 0.0).item()));
}

TEST(Sort, EqualElementsKeepTheirOrder) {
  const Variable x = make({0.0, -0.0, 1, 0.0, 1});
  EXPECT_EQ(ints(argsort(x)), (Ints{0, 1, 3, 2, 4}));
  EXPECT_EQ(ints(argsort(x, 0, true)), (Ints{2, 4, 0, 1, 3}));
  EXPECT_EQ(ints(argsort(full({1000}, 7, {.dtype = u8}))), ints(arange(1000)));
  EXPECT_EQ(ints(topk(full({1000}, 7), 3).indices), (Ints{0, 1, 2}));
}

TEST(Sort, WholeNumbersAreExact) {
  const int64_t big = int64_t(1) << 60;
  EXPECT_EQ(ints(sort(tensor<int64_t>({big + 1, -big, big})).values), (Ints{-big, big, big + 1}));
  EXPECT_EQ(ints(argsort(tensor<bool>({true, false, true}))), (Ints{1, 0, 2}));
}

TEST(Sort, ManyRows) {
  const Variable x = fmod(arange(0, 30000, 1, {.dtype = f64}) * 7919.0, 30011.0);
  const Variable rows = reshape(x, {100, 300});
  const auto [values, indices] = sort(transpose(rows, 0, 1), 0);
  const Doubles sorted = transpose(values, 0, 1).to_vector<double>();
  for (size_t i = 0; i < sorted.size(); ++i)
    EXPECT_TRUE(i % 300 == 0 || sorted[i - 1] < sorted[i]) << i;
}

/// Returns the positions of the elements in sorted order by the standard library.
template <typename T>
Ints sorted_positions(const std::vector<T>& x, bool descending) {
  Ints order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const double a = double(x[size_t(i)]), b = double(x[size_t(j)]);
    if (std::isnan(a) || std::isnan(b))
      return descending ? std::isnan(a) > std::isnan(b) : std::isnan(a) < std::isnan(b);
    return descending ? b < a : a < b;
  });
  return order;
}

TEST(Sort, LongRowsMeetTheStandardLibrary) {
  const auto check = [](Doubles elements, DType dtype) {
    const Variable x = make(elements).to(dtype);
    elements = x.to_vector<double>();
    const int64_t n = int64_t(elements.size());
    for (bool descending : {false, true}) {
      const Ints order = sorted_positions(elements, descending);
      ASSERT_EQ(ints(argsort(x, 0, descending)), order) << n;
      for (int64_t k : {int64_t(1), n / 100, n / 2, n - 1})
        ASSERT_EQ(ints(topk(x, k, 0, descending).indices), Ints(order.begin(), order.begin() + k));
      if (descending) continue;
      for (int64_t k : {int64_t(0), n / 3, (n - 1) / 2, n - 1})
        ASSERT_EQ(kthvalue(x, k + 1).indices.item(), double(order[size_t(k)]));
    }
  };
  for (int64_t n : {257, 3000, 40000}) {
    Doubles mixed, few(size_t(n), 0.0);
    for (int64_t i = 0; i < n; ++i) {
      mixed.push_back(std::sin(double(i * i)) * std::exp(double(i % 61) - 30));
      few[size_t(i)] = double(i * 7 % 5) - 2;
    }
    mixed[3] = mixed[200] = kInf, mixed[9] = -kInf, mixed[11] = -0.0, mixed[99] = 0.0;
    for (DType dtype : {f32, f64, f16}) check(mixed, dtype);
    for (DType dtype : {f32, f64, i32, i64, i8}) check(few, dtype);
    mixed[77] = mixed[5] = kNaN;
    check(mixed, f32);
    EXPECT_EQ(median(make(mixed), 0).indices.item(), 5);
    EXPECT_TRUE(std::isnan(median(make(mixed)).item()));
  }
}

TEST(Sort, ANumberAndNothing) {
  EXPECT_EQ(sort(scalar(3.0)).values.shape(), Shape{});
  EXPECT_EQ(argsort(scalar(3.0)).item(), 0);
  EXPECT_EQ(kthvalue(scalar(3.0), 1).values.item(), 3);
  EXPECT_EQ(sort(zeros({2, 0})).values.shape(), (Shape{2, 0}));
  EXPECT_EQ(topk(zeros({2, 3}), 0).values.shape(), (Shape{2, 0}));
  EXPECT_THROW(median(zeros({2, 0}), 1), ArgumentError);
  EXPECT_THROW(topk(zeros({2, 3}), 4), ArgumentError);
  EXPECT_THROW(kthvalue(zeros({2, 3}), 0), ArgumentError);
  EXPECT_THROW(sort(zeros({2, 3}), 2), IndexError);
}

TEST(Sort, Quantile) {
  const Variable x = make({3, 1, 2, 10});
  EXPECT_EQ(quantile(x, 0.5).item(), 2.5);
  expect_values(quantile(x, make({0, 0.5, 1})), {1, 2.5, 10});
  EXPECT_EQ(quantile(x, 0.4, {.interpolation = Interpolation::kNearest}).item(), 2);
  // A NaN in one row does not affect the other.
  expect_values(quantile(make({1, kNaN, 3, 4}, {2, 2}), 0.5, {.dim = 1}), {kNaN, 3.5});
  EXPECT_EQ(quantile(zeros({2, 3, 4}), make({0.1, 0.2}), {.dim = 1, .keepdim = true}).shape(),
            (Shape{2, 2, 1, 4}));
  EXPECT_EQ(quantile(zeros({2, 3}), make({0.1, 0.2}), {.keepdim = true}).shape(), (Shape{2, 1, 1}));
  EXPECT_THROW(quantile(x, 1.5), ArgumentError);
  EXPECT_THROW(quantile(x, kNaN), ArgumentError);
  EXPECT_THROW(quantile(tensor({1, 2}), 0.5), DTypeError);
}

// The values are those of PyTorch 2.15.
TEST(Sort, QuantileWithoutNan) {
  const Variable x = tensor({{kNaN, 1.0, 4.0, 2.0}, {7.0, kNaN, kNaN, 3.0}}, {.dtype = f64});
  const auto values = [&](const char* how) {
    return nanquantile(x, 0.4, {.dim = 1, .interpolation = how}).to_vector<double>();
  };
  EXPECT_EQ(values("lower"), (Doubles{1, 3}));
  EXPECT_EQ(values("higher"), (Doubles{2, 7}));
  EXPECT_EQ(values("midpoint"), (Doubles{1.5, 5}));
  EXPECT_EQ(values("nearest"), (Doubles{2, 3}));
  for (const Variable& y : {nanquantile(x, 0.4, 1), nanquantile(x, 0.4, {.dim = 1})}) {
    EXPECT_NEAR(y[0].item(), 1.8, 1e-15);
    EXPECT_NEAR(y[1].item(), 4.6, 1e-15);
  }
  EXPECT_EQ(nanquantile(x, 0.4, {.keepdim = true}).shape(), (Shape{1, 1}));
}

TEST(Sort, Unique) {
  const Unique y = unique(make({2, 1, 2, kNaN, 1, kNaN}, {2, 3}));
  expect_values(y.values, {1, 2, kNaN, kNaN});
  EXPECT_EQ(ints(y.inverse), (Ints{1, 0, 1, 2, 0, 3}));
  EXPECT_EQ(y.inverse.shape(), (Shape{2, 3}));
  EXPECT_EQ(ints(y.counts), (Ints{2, 2, 1, 1}));
  EXPECT_EQ(unique(zeros({0, 2})).counts.shape(), (Shape{0}));
  EXPECT_EQ(ints(unique(tensor<bool>({true, true})).values), (Ints{1}));
}

TEST(Sort, ModeIsTheEndOfTheFirstLongestRun) {
  const Variable x = make({2, 1, 2, 1, 3, kNaN, kNaN, kNaN, 0, -0.0, 5, 4}, {2, 6});
  const auto [values, indices] = mode(x, 1);
  expect_values(values, {1, 0});
  EXPECT_EQ(ints(indices), (Ints{3, 3}));  // of 1 and 2, both twice; 0 equals -0, NaN nothing
  const auto [columns, rows] = mode(x, 0, /*keepdim=*/true);
  EXPECT_EQ(rows.shape(), (Shape{1, 6}));
  EXPECT_EQ(ints(rows), (Ints{0, 0, 1, 1, 0, 1}));
  const Variable large = tensor(Ints{(int64_t(1) << 53) + 1, int64_t(1) << 53, 7, 7, 1}, {5});
  EXPECT_EQ(ints(mode(large, 0).values), Ints{7});
  EXPECT_EQ(ints(mode(tensor(Ints{1, 0, 1}, {3}).to(boolean), 0).indices), Ints{2});
  EXPECT_EQ(mode(make({4}, {}), 0).indices.shape(), Shape{});
  EXPECT_EQ(ints(mode(make({4}), 0).indices), Ints{0});
}

TEST(Sort, SearchSorted) {
  const Variable sorted = make({1, 3, 3, 5});
  EXPECT_EQ(ints(searchsorted(sorted, make({0, 1, 3, 4, 9, kNaN}))), (Ints{0, 0, 1, 3, 4, 4}));
  EXPECT_EQ(ints(searchsorted(sorted, make({0, 1, 3, 4, 9}), /*right=*/true)),
            (Ints{0, 1, 3, 3, 4}));
  const Variable rows = make({1, 2, 3, 10, 20, 30}, {2, 3});
  EXPECT_EQ(ints(searchsorted(rows, make({2.5, 2.5}, {2, 1}))), (Ints{2, 0}));
  EXPECT_EQ(ints(searchsorted(tensor({1, 2, 3}), make({1.5}))), (Ints{1}));
  EXPECT_THROW(searchsorted(rows, make({1, 2, 3})), ShapeError);
  EXPECT_EQ(searchsorted(make({}), make({1, 2})).to_vector<int64_t>(), (Ints{0, 0}));
}

TEST(Unique, OfSlices) {
  const Variable x = tensor({2, 1, 0, 5, 2, 1, 0, 4, 2, 1}, {5, 2});
  const Unique y = unique(x, 0);
  EXPECT_EQ(y.values.to_vector<int64_t>(), (std::vector<int64_t>{0, 4, 0, 5, 2, 1}));
  EXPECT_EQ(y.values.shape(), (Shape{3, 2}));
  EXPECT_EQ(y.inverse.to_vector<int64_t>(), (std::vector<int64_t>{2, 1, 2, 0, 2}));
  EXPECT_EQ(y.counts.to_vector<int64_t>(), (std::vector<int64_t>{1, 1, 3}));
  // numpy.unique([[[0, 1], [0, 0]], [[0, 0], [1, 1]]], axis=2): the order of dimensions 0, 1.
  const Variable last = tensor({0, 0, 1, 0, 0, 1, 0, 1}, {2, 2, 2});
  EXPECT_EQ(unique(last, 2).inverse.to_vector<int64_t>(), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(unique(zeros({0, 2}), 0).values.shape(), (Shape{0, 2}));
  EXPECT_EQ(unique(zeros({3, 0}), 0).values.shape(), (Shape{1, 0}));
  EXPECT_THROW(unique(x, 2), IndexError);
  // The first column does not tell the rows apart; nor do eight columns. NaN are sorted, and
  // differ.
  const Variable wide = cat({zeros({4, 9}), make({2, 1, 1, 0}, {4, 1})}, 1);
  EXPECT_EQ(unique(wide, 0).inverse.to_vector<int64_t>(), (std::vector<int64_t>{2, 1, 1, 0}));
  const Variable nans = make({kNaN, 2, kNaN, 1, 3, 4}, {3, 2});
  EXPECT_EQ(unique(nans, 0).inverse.to_vector<int64_t>(), (std::vector<int64_t>{2, 1, 0}));
}

// Expected values: std::lower_bound and std::upper_bound, with NaN as the largest.
TEST(SearchSorted, RowsOfAnyLength) {
  for (const DType dtype : {f64, f32, f16, i64, u8})
    for (int64_t n = 1; n <= 40; ++n) {
      Doubles row(static_cast<size_t>(n)), wanted(37);
      for (size_t i = 0; i < row.size(); ++i) row[i] = std::fmod(double(i) * 7, 13);
      for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = std::fmod(double(i) * 5, 16);
      if (is_float(dtype)) {
        row[0] = wanted[3] = wanted[36] = kNaN;
        wanted[5] = -kInf;
      }
      const auto less = [](double a, double b) { return a < b || (a == a && b != b); };
      std::sort(row.begin(), row.end(), less);
      for (const bool right : {false, true}) {
        Ints places;
        for (const double value : wanted)
          places.push_back((right ? std::upper_bound(row.begin(), row.end(), value, less)
                                  : std::lower_bound(row.begin(), row.end(), value, less)) -
                           row.begin());
        EXPECT_EQ(ints(searchsorted(make(row).to(dtype), make(wanted).to(dtype), right)), places)
            << dtype << " " << n << " " << right;
      }
    }
}

}  // namespace
}  // namespace tapegrad
