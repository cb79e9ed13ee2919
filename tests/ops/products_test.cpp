// Expected values are computed by hand, or PyTorch's where stated.
#include "ops/products.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/autograd/derivatives.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/distance.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/statistics.h"
#include "ops/view.h"
#include "tests/error_message.h"

namespace tapegrad {
namespace {

using testing::expect_error;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

Variable make(const Doubles& values, const Shape& shape) {
  return Variable(Tensor::from<double>(values, shape));
}
Variable make(const Doubles& values) { return make(values, {int64_t(values.size())}); }
/// 1, 2, 3 ...
Variable count(const Shape& shape) {
  return reshape(arange(1, numel(shape) + 1, 1, {.dtype = f64}), shape);
}

// The operand whose label comes first in the result gives the rows.
TEST(Einsum, ResultsAreContiguous) {
  const Variable q = ones({3, 4, 5}), k = ones({3, 7, 5});
  EXPECT_TRUE(einsum("bid,bjd->bij", {q, k}).is_contiguous());
  EXPECT_TRUE(einsum("bjd,bid->bij", {k, q}).is_contiguous());
  EXPECT_TRUE(einsum("bij,bjd->bid", {ones({3, 4, 7}), k}).is_contiguous());
  EXPECT_TRUE(einsum("ij,kj->ki", {ones({2, 3}), ones({4, 3})}).is_contiguous());
}

TEST(Einsum, RefusesWhatItCannotRead) {
  const Variable a = count({2, 3}), b = count({3, 4});
  expect_error<ArgumentError>("names 2 operands, given are 1", [&] { einsum("ij,jk->ik", {a}); });
  expect_error<ArgumentError>("a letter or one ... is wanted", [&] { einsum("i1->i", {a}); });
  expect_error<ArgumentError>("is in no operand", [&] { einsum("ij->ik", {a}); });
  expect_error<ArgumentError>("occurs twice in the result", [&] { einsum("ij->ii", {a}); });
  expect_error<ShapeError>("does not fit a shape of [2, 3]", [&] { einsum("ijk->i", {a}); });
  expect_error<ShapeError>("j has size 3 and 4", [&] { einsum("ij,kj->ik", {a, count({2, 4})}); });
}

TEST(Einsum, WholeNumbersStayWhole) {
  const Variable a = tensor({1, 2, 3, 4}, {2, 2});
  const Variable y = einsum("ij,jk->ik", {a, a});
  EXPECT_EQ(y.dtype(), i64);
  EXPECT_EQ(y.to_vector<int64_t>(), (Ints{7, 10, 15, 22}));
  EXPECT_EQ(einsum("ij->", {a}).item(), 10);
}

// The result of a product without sums is contiguous, in the order of its letters.
TEST(Einsum, BroadcastProducts) {
  const Variable a = count({2, 3, 4}).requires_grad_(), b = count({4, 5});
  const Variable y = einsum("bld,dn->bldn", {a, b});
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_TRUE(equal(y, unsqueeze(a, -1) * b));
  sum(y).backward();
  EXPECT_TRUE(equal(a.grad(), expand(sum(b, {1}), {2, 3, 4})));
  const Variable turned = einsum("bld,dn->nlbd", {a, b});
  EXPECT_TRUE(turned.is_contiguous());
  EXPECT_TRUE(equal(turned, permute(y, {3, 1, 0, 2})));
  EXPECT_TRUE(equal(einsum("i,j,k->kij", {b[0], b[1], b[2]}),
                    reshape(b[2], {5, 1, 1}) * (reshape(b[0], {5, 1}) * b[1])));
  EXPECT_TRUE(equal(einsum("nd,d->nd", {a[0], b[0].slice(0, 0, 4)}), a[0] * b[0].slice(0, 0, 4)));
}

// Ten matrices in a chain, more than are planned together. The wrong order would need 64^5 numbers.
TEST(Einsum, ManyOperands) {
  std::string left, letters = "abcdefghijk";
  std::vector<Variable> matrices;
  for (size_t i = 0; i + 1 < letters.size(); ++i) {
    if (i > 0) left += ',';
    left += letters.substr(i, 2);
    matrices.push_back(eye(64));
  }
  const Variable y = einsum(left + "->ak", matrices);
  EXPECT_EQ(y.shape(), (Shape{64, 64}));
  EXPECT_EQ(sum(y).item(), 64);
}

TEST(Products, BetaZeroDoesNotReadTheInput) {
  const Variable nothing = make({kNaN, kNaN, kNaN, kNaN}, {2, 2}), a = count({2, 2});
  EXPECT_EQ(addmm(nothing, a, a, {.beta = 0}).to_vector<double>(), (Doubles{7, 10, 15, 22}));
  expect_error<ShapeError>("addmm: shapes do not broadcast: [3, 2] and [2, 2]", [&] {
    addmm(count({3, 2}), a, a);
  });
}

TEST(Products, CrossFindsItsDimension) {
  const Variable x = make({1, 0, 0}), y = make({0, 1, 0});
  EXPECT_EQ(cross(x, y).to_vector<double>(), (Doubles{0, 0, 1}));
  EXPECT_EQ(cross(count({2, 3}), y).to_vector<double>(), (Doubles{-3, 0, 1, -6, 0, 4}));
  expect_error<ShapeError>("no dimension of size 3", [&] { cross(count({2}), count({2})); });
}

TEST(Products, KronOfDifferentRanks) {
  EXPECT_EQ(kron(make({1, 2}), make({1, 10}, {2, 1})).to_vector<double>(), (Doubles{1, 2, 10, 20}));
}

TEST(Diagonal, IsAView) {
  Variable x = count({3, 3});
  Variable view = diagonal(x);
  fill_(view, 0);
  EXPECT_EQ(x.to_vector<double>(), (Doubles{0, 2, 3, 4, 0, 6, 7, 8, 0}));
  EXPECT_EQ(diagonal(x, 5).shape(), (Shape{0}));
  expect_error<ArgumentError>("dim1 and dim2 are both 1", [&] { diagonal(x, 0, 1, -1); });
}

TEST(Diagonal, OffsetsOfAnySize) {
  const Variable x = count({3, 3});
  for (int64_t offset :
       {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(diagonal(x, offset).shape(), (Shape{0}));
    EXPECT_EQ(diag(x, offset).shape(), (Shape{0}));
    EXPECT_EQ(sum(tril(x, offset)).item(), offset > 0 ? 45 : 0);
    EXPECT_EQ(sum(triu(x, offset)).item(), offset > 0 ? 0 : 45);
    expect_error<ArgumentError>("below 2^31 either way", [&] { diag_embed(x, offset); });
    expect_error<ArgumentError>("below 2^31 either way", [&] { diag(count({3}), offset); });
  }
}

TEST(Diagonal, OfNoRowsOfAnyLength) {
  EXPECT_EQ(diagonal(zeros({0, std::numeric_limits<int64_t>::max()}), 1).shape(), (Shape{0}));
}

TEST(Diagonal, WhatIsDroppedMayBeAnything) {
  EXPECT_EQ(tril(make({1, kNaN, 3, 4}, {2, 2})).to_vector<double>(), (Doubles{1, 0, 3, 4}));
  EXPECT_EQ(trace(tensor({1, 2, 3, 4}, {2, 2})).dtype(), i64);
}

TEST(Statistics, NanIsLeftOut) {
  const Variable x = make({1, kNaN, 3, kNaN}, {2, 2}).requires_grad_();
  EXPECT_EQ(nansum(x).item(), 4);
  const Variable means = nanmean(x, {0});
  EXPECT_EQ(select(means, 0, 0).item(), 2);
  EXPECT_TRUE(std::isnan(select(means, 0, 1).item()));
  nanmean(x).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{0.5, 0, 0.5, 0}));
  EXPECT_EQ(count_nonzero(x).item(), 4);
  EXPECT_EQ(nanmean(full({4}, 60000, {.dtype = f16})).item(),
            full({}, 60000, {.dtype = f16}).item());
}

TEST(Statistics, Histc) {
  // As in PyTorch: both ends are included; NaN and values outside are not.
  const Variable x = make({0, 0.5, 1, 2, 3, -1, kNaN});
  EXPECT_EQ(histc(x, 2, 0, 2).to_vector<double>(), (Doubles{2, 2}));
  EXPECT_EQ(histc(make({1, 1, 1}), 2).to_vector<double>(), (Doubles{0, 3}));
  expect_error<ArgumentError>("no range", [&] { histc(x, 2); });
  for (int64_t bins : {int64_t(0), std::numeric_limits<int64_t>::max()})
    expect_error<ArgumentError>("bins must be from 1 to 2^31 - 1", [&] { histc(x, bins, 0, 1); });
}

TEST(Statistics, Bincount) {
  EXPECT_EQ(bincount(tensor({1, 3, 1})).to_vector<int64_t>(), (Ints{0, 2, 0, 1}));
  EXPECT_EQ(bincount(tensor({1, 3, 1}), tensor({2, 5, 7})).dtype(), f64);
  EXPECT_EQ(bincount(empty({0}, {.dtype = i64})).shape(), (Shape{0}));
  expect_error<ArgumentError>("a number is -2", [] { bincount(tensor({1, -2})); });
  for (int64_t end : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()})
    expect_error<ArgumentError>("a number is " + std::to_string(end), [&] {
      bincount(tensor({int64_t(1), end}));
    });
}

TEST(Statistics, CorrelationOfOneVariable) {
  EXPECT_EQ(corrcoef(make({1, 2, 4})).item(), 1);
  EXPECT_TRUE(std::isnan(cov(make({5})).item()));  // 0 / 0, as in PyTorch
}

TEST(Distance, CosineOfBroadcastVectors) {
  const Variable a = make({3, 4}, {1, 2, 1}).requires_grad_(), b = make({1, 5}, {2, 1, 1});
  // b is [1, 1] and [5, 5] along dimension 1.
  const Variable y = cosine_similarity(a, b, 1);
  EXPECT_EQ(y.shape(), (Shape{2, 1}));
  for (double cosine : y.to_vector<double>()) EXPECT_NEAR(cosine, 7 / (5 * std::sqrt(2)), 1e-15);
  sum(y).backward();
  EXPECT_NEAR(a.grad().to_vector<double>()[0], 2 * (1 - 7 * 3 / 25.0) / (5 * std::sqrt(2)), 1e-15);
  // dim counts the dimensions of the broadcast shape.
  const Variable flat = make({3, 4}), rows = make({3, 4, 4, -3}, {2, 2});
  EXPECT_EQ(cosine_similarity(flat, rows, 1).shape(), Shape{2});
  EXPECT_NEAR(cosine_similarity(rows, flat, 1).to_vector<double>()[0], 1, 1e-15);
  EXPECT_THROW(cosine_similarity(flat, rows, 2), Error);
}

/// Sizes around those of the kernel's tiles, and rows that are close, tiny or huge.
TEST(Distance, PairsEqualNormsOfDifferences) {
  for (const double p : {1.0, 2.0, std::numeric_limits<double>::infinity()})
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{5, 66, 3}, Shape{9, 130, 70},
                               Shape{36, 1100, 33}, Shape{18, 70, 64}, Shape{3, 2050, 16}}) {
      manual_seed(3);
      const int64_t n = shape[0], m = shape[1], k = shape[2];
      Variable a = randn({2, n, k}), b = randn({m, k});
      const Variable at = a.detach(), to = b.detach();
      a.requires_grad_(), b.requires_grad_();
      const Variable y = cdist(a, b, p);
      Variable a2 = a.detach().to(f64).requires_grad_(), b2 = b.detach().to(f64).requires_grad_();
      const Variable expected = norm(unsqueeze(a2, -2) - unsqueeze(b2, -3), p, {-1});
      const Variable seed = randn(y.shape());
      sum(y * seed).backward();
      sum(expected * seed.to(f64)).backward();
      const auto expect_near = [](const Variable& x, const Variable& reference, double tolerance) {
        const Doubles values = x.to(f64).to_vector<double>(),
                      wanted = reference.to_vector<double>();
        ASSERT_EQ(values.size(), wanted.size());
        for (size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(values[i], wanted[i], tolerance * (1 + std::abs(wanted[i])));
      };
      expect_near(y, expected, 6e-7);
      expect_near(a.grad(), a2.grad(), 1e-5);
      expect_near(b.grad(), b2.grad(), 1e-5);
    }
  const auto pair = [](float x, float y) {
    return cdist(tensor({x, 0.0f}, {1, 2}), tensor({y, 0.0f}, {1, 2})).item();
  };
  EXPECT_EQ(pair(1e6f, std::nextafter(1e6f, 2e6f)), 0.0625);
  EXPECT_FLOAT_EQ(float(pair(1e-30f, 3e-30f)), 2e-30f);
  EXPECT_FLOAT_EQ(float(pair(1e30f, -1e30f)), 2e30f);
  EXPECT_TRUE(std::isnan(pair(NAN, 1)));
}

/// Gradients of points of few coordinates, of any layout of dy, with points in common.
TEST(Distance, GradientOfNarrowPoints) {
  for (const DType dtype : {f32, f64})
    for (const double p : {1.0, 2.0})
      for (const int64_t k : {1, 3, 4, 5, 8, 9})
        for (const auto& [n, m] :
             {std::pair<int64_t, int64_t>{1, 40}, {7, 8}, {16, 16}, {33, 70}}) {
          manual_seed(5);
          const Variable a = randn({2, n, k}, {.dtype = dtype}).requires_grad_();
          Variable b = randn({2, m, k}, {.dtype = dtype});
          select(b, 1, m - 1).copy_(select(a.detach(), 1, 0));
          b.requires_grad_();
          const Variable a2 = a.detach().to(f64).requires_grad_(),
                         b2 = b.detach().to(f64).requires_grad_();
          const Variable seed = transpose(randn({2, m, n}, {.dtype = dtype}), 1, 2);
          const Variable y = cdist(a, b, p),
                         expected = norm(unsqueeze(a2, -2) - unsqueeze(b2, -3), p, {-1});
          (sum(y * seed) + sum(y)).backward();
          sum(expected * (seed.to(f64) + 1)).backward();
          const double tolerance = dtype == f32 ? 2e-5 : 1e-12;
          for (const auto& [x, reference] : {std::pair{a, a2}, std::pair{b, b2}}) {
            const Doubles found = x.grad().to(f64).to_vector<double>(),
                          wanted = reference.grad().to_vector<double>();
            for (size_t i = 0; i < found.size(); ++i)
              ASSERT_NEAR(found[i], wanted[i], tolerance * (1 + std::abs(wanted[i])))
                  << k << ' ' << n << ' ' << m << ' ' << p;
          }
        }
}

TEST(Distance, GradientAtZeroIsZero) {  // T33
  const Variable a = make({1, 2, 3, 4}, {2, 2}).requires_grad_();
  sum(cdist(a, a)).backward();
  for (double value : a.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(value));
  EXPECT_EQ(normalize(make({0, 0}, {1, 2})).to_vector<double>(), (Doubles{0, 0}));
  EXPECT_EQ(cosine_similarity(make({0, 0}, {1, 2}), make({1, 2}, {1, 2})).item(), 0);
  EXPECT_EQ(distance(make({0, 3}), make({4, 0})).item(), 5);
  EXPECT_EQ(cdist(make({0, 3}, {1, 2}), make({4, 0}, {1, 2}), 0).item(), 2);
}

TEST(Products, AddbmmOfWholeNumbersKeepsTheDtype) {
  const Variable a = ones({3, 2, 4}, {.dtype = i32});
  const Variable y = addbmm(zeros({2, 2}, {.dtype = i32}), a, transpose(a, 1, 2));
  EXPECT_EQ(y.dtype(), i32);
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{12, 12, 12, 12}));
}

TEST(Pdist, PairsOfRowsInOrder) {
  const Variable x = tensor({0.5, 1.0, -2.0, 0.5, 0.5, 1.0, 3.0, 4.0}, {4, 2}, {.dtype = f64});
  for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    const std::vector<double> found = pdist(x, p).to_vector<double>();
    size_t at = 0;
    for (int i = 0; i < 4; ++i)
      for (int k = i + 1; k < 4; ++k)
        EXPECT_NEAR(found[at++], norm(x[i] - x[k], p).item(), 1e-12) << p;
    EXPECT_EQ(at, found.size());
    // Rows 0 and 2 are equal: their distance has no gradient.
    const Variable leaf = x.clone().requires_grad_();
    const Variable dx = grad(sum(pdist(leaf, p)), leaf);
    for (const double each : dx.to_vector<double>()) EXPECT_TRUE(std::isfinite(each)) << p;
  }
  EXPECT_EQ(pdist(zeros({1, 3})).shape(), (Shape{0}));
}

}  // namespace
}  // namespace tapegrad
