// Expected values are computed by hand, or PyTorch's where stated.
#include "ops/products.h"

#include <limits>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/error_message.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::expect_error;
using testing::make;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

Variable count(const Shape& shape) { return testing::counted(shape, 1.0); }

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

TEST(Products, AddbmmOfWholeNumbersKeepsTheDtype) {
  const Variable a = ones({3, 2, 4}, {.dtype = i32});
  const Variable y = addbmm(zeros({2, 2}, {.dtype = i32}), a, transpose(a, 1, 2));
  EXPECT_EQ(y.dtype(), i32);
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{12, 12, 12, 12}));
}

}  // namespace
}  // namespace tapegrad
