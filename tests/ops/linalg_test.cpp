// Errors, exact values, large matrices and degenerate matrices. Expected values are closed forms.
#include "ops/linalg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/autograd/gradcheck.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/linalg_composed.h"
#include "ops/matmul.h"
#include "ops/products.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using Values = std::vector<double>;

Values values(const Variable& x) { return x.to_vector<double>(); }

Variable matrix(const Values& elements, const Shape& shape) {
  return tensor(elements, shape, {.dtype = f64});
}

double largest_difference(const Variable& a, const Variable& b) { return amax(abs(a - b)).item(); }

void expect_near(const Variable& got, const Values& expected, double tolerance = 1e-12) {
  const Values found = values(got);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

template <typename F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Linalg, SingularMatricesAreErrorsThatNameThem) {
  const Variable singular = matrix({1, 0, 0, 1, 1, 2, 2, 4}, {2, 2, 2});
  EXPECT_THROW(linalg::inv(singular), LinAlgError);
  EXPECT_THROW(linalg::solve(singular, singular), LinAlgError);
  EXPECT_THROW(linalg::matrix_power(singular, -2), LinAlgError);
  EXPECT_EQ(message_of([&] { linalg::inv(singular); }),
            "linalg.inv: the matrix is singular: matrix 1 of 2 in the batch, at 2");
  EXPECT_THROW(linalg::cholesky(matrix({1, 2, 2, 1}, {2, 2})), LinAlgError);
  EXPECT_EQ(message_of([&] {
              linalg::cholesky(matrix({1, 2, 2, 1}, {2, 2}));
            }),
            "linalg.cholesky: the matrix is not positive definite: matrix 0 of 1 in the batch, at "
            "2");
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (double bad : {inf, nan}) {
    const Variable x = matrix({1, bad, bad, 1}, {2, 2});
    EXPECT_THROW(linalg::svd(x), LinAlgError);
    EXPECT_THROW(linalg::svdvals(x), LinAlgError);
    EXPECT_THROW(linalg::eigh(x), LinAlgError);
    EXPECT_THROW(linalg::eigvalsh(x), LinAlgError);
    EXPECT_THROW(linalg::pinv(x), LinAlgError);
  }
}

TEST(Linalg, ShapesAndTypes) {
  const Variable wide = zeros({2, 3}, {.dtype = f64}), vector = zeros({3}, {.dtype = f64});
  for (const Variable& x : {wide, vector}) {
    EXPECT_THROW(linalg::inv(x), ShapeError);
    EXPECT_THROW(linalg::det(x), ShapeError);
    EXPECT_THROW(linalg::slogdet(x), ShapeError);
    EXPECT_THROW(linalg::cholesky(x), ShapeError);
    EXPECT_THROW(linalg::eigh(x), ShapeError);
    EXPECT_THROW(linalg::matrix_exp(x), ShapeError);
    EXPECT_THROW(linalg::matrix_power(x, 2), ShapeError);
    EXPECT_THROW(linalg::solve(x, x), ShapeError);
  }
  EXPECT_THROW(linalg::svd(vector), ShapeError);
  EXPECT_THROW(linalg::qr(vector), ShapeError);
  const Variable square = eye(3, 3, {.dtype = f64});
  EXPECT_THROW(linalg::solve(square, zeros({2, 3}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(linalg::solve(square, zeros({3, 1})), DTypeError);
  EXPECT_THROW(linalg::lstsq(square, zeros({2, 3}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(linalg::multi_dot({square}), ArgumentError);
  EXPECT_THROW(linalg::multi_dot({square, wide}), ShapeError);
  EXPECT_THROW(linalg::matrix_norm(square, 3.0), ArgumentError);
  EXPECT_THROW(linalg::matrix_norm(square, "two"), ArgumentError);
  EXPECT_THROW(linalg::matrix_norm(square, "fro", {0, 0}), ArgumentError);
  for (DType dtype : {f16, bf16, i64}) {
    const Variable x = eye(2, 2, {.dtype = dtype});
    EXPECT_THROW(linalg::inv(x), DTypeError);
    EXPECT_THROW(linalg::svd(x), DTypeError);
    EXPECT_THROW(linalg::eigh(x), DTypeError);
    EXPECT_THROW(linalg::qr(x), DTypeError);
    EXPECT_THROW(linalg::matrix_exp(x), DTypeError);
  }
}

TEST(Linalg, Empty) {
  const Variable none = zeros({0, 0}, {.dtype = f64}), batch = zeros({2, 0, 0}, {.dtype = f64});
  EXPECT_EQ(linalg::det(none).item(), 1);
  EXPECT_EQ(values(linalg::det(batch)), (Values{1, 1}));
  EXPECT_EQ(linalg::slogdet(none).logabsdet.item(), 0);
  EXPECT_EQ(linalg::inv(batch).shape(), (Shape{2, 0, 0}));
  EXPECT_EQ(linalg::matrix_exp(batch).shape(), (Shape{2, 0, 0}));
  const Variable thin = zeros({3, 0}, {.dtype = f64});
  EXPECT_EQ(linalg::pinv(thin).shape(), (Shape{0, 3}));
  EXPECT_EQ(values(linalg::qr(thin, linalg::QrMode::kComplete).q), values(eye(3)));
  EXPECT_EQ(values(linalg::svd(thin).u), values(eye(3)));
  EXPECT_EQ(linalg::svd(thin, false).u.shape(), (Shape{3, 0}));
}

TEST(Linalg, ExactValues) {
  const Variable a = matrix({2, 1, 1, 3}, {2, 2});
  EXPECT_DOUBLE_EQ(linalg::det(a).item(), 5);
  expect_near(linalg::inv(a), {0.6, -0.2, -0.2, 0.4});
  expect_near(linalg::solve(a, matrix({5, 10}, {2})), {1, 3});
  expect_near(linalg::solve(a, matrix({5, 10}, {1, 2}), false), {1, 3});
  const auto [sign, logabsdet] = linalg::slogdet(-a);
  EXPECT_EQ(sign.item(), 1);
  EXPECT_NEAR(logabsdet.item(), std::log(5), 1e-15);
  EXPECT_EQ(linalg::slogdet(matrix({0, 1, 1, 0}, {2, 2})).sign.item(), -1);
  const auto nothing = linalg::slogdet(matrix({1, 2, 2, 4}, {2, 2}));
  EXPECT_EQ(nothing.sign.item(), 0);
  EXPECT_EQ(nothing.logabsdet.item(), -std::numeric_limits<double>::infinity());
  // A rotation by a right angle as the exponential of its generator.
  const double half_pi = std::acos(0.0);
  expect_near(linalg::matrix_exp(matrix({0, -half_pi, half_pi, 0}, {2, 2})), {0, -1, 1, 0});
  expect_near(linalg::matrix_exp(matrix({0, 1, 0, 0}, {2, 2})), {1, 1, 0, 1}, 1e-15);
  expect_near(linalg::matrix_exp(matrix({-700, 0, 0, 1}, {2, 2})), {std::exp(-700), 0, 0, M_E});
  expect_near(linalg::svdvals(matrix({3, 0, 0, -4}, {2, 2})), {4, 3});
  expect_near(linalg::eigvalsh(matrix({2, 9, 1, 2}, {2, 2})), {1, 3});  // reads the lower triangle
  EXPECT_DOUBLE_EQ(linalg::matrix_norm(matrix({3, 0, 0, -4}, {2, 2}), "nuc").item(), 7);
}

TEST(Linalg, LeastSquaresSaysRankAndResidual) {
  // y = 1 + 2 t through (0, 1), (1, 3), (2, 5), and a second fit with a residual, both computed by
  // hand.
  const Variable a = matrix({1, 0, 1, 1, 1, 2}, {3, 2});
  const auto fit = linalg::lstsq(a, matrix({1, 3, 5, 1, 4, 4}, {3, 2}).detach());
  EXPECT_EQ(values(fit.rank), (Values{2}));
  EXPECT_EQ(fit.singular_values.numel(), 2);
  EXPECT_EQ(fit.residuals.shape(), (Shape{2}));
  const auto exact = linalg::lstsq(a, matrix({1, 3, 5}, {3}));
  expect_near(exact.solution, {1, 2});
  EXPECT_LT(std::abs(exact.residuals.item()), 1e-24);
  const auto deficient = linalg::lstsq(matrix({1, 1, 1, 1, 1, 1}, {3, 2}), matrix({2, 2, 2}, {3}));
  EXPECT_EQ(deficient.rank.item(), 1);
  expect_near(deficient.solution, {1, 1});  // the solution of minimal norm
  EXPECT_EQ(deficient.residuals.numel(), 0);
  expect_near(linalg::pinv(matrix({1, 1, 1, 1}, {2, 2})), {0.25, 0.25, 0.25, 0.25});
  expect_near(linalg::pinv(matrix({4, 0, 0, 1}, {2, 2}), {.atol = 2}), {0.25, 0, 0, 0});
}

TEST(Linalg, DetOfASingularMatrixHasItsCofactorsAsGradient) {
  for (const Values& elements :
       {Values{1, 2, 3, 2, 4, 6, 1, 0, 1}, Values{1, 2, 3, 2, 4, 6, 3, 6, 9}}) {
    const Variable x = matrix(elements, {3, 3}).requires_grad_();
    const Variable y = linalg::det(x);
    EXPECT_EQ(y.item(), 0);
    Values cofactors;
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) {
        const auto at = [&](int r, int c) { return elements[size_t(3 * (r % 3) + c % 3)]; };
        cofactors.push_back(at(i + 1, j + 1) * at(i + 2, j + 2) -
                            at(i + 1, j + 2) * at(i + 2, j + 1));
      }
    expect_near(grad(y, x), cofactors, 1e-13);
  }
  // To second order, if the singular values differ.
  const Variable x = matrix({1, 2, 3, 2, 4, 6, 1, 0, 1}, {3, 3}).requires_grad_();
  const auto det = [](const std::vector<Variable>& in) { return linalg::det(in[0]); };
  const GradcheckResult result = gradcheck(det, {x}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

TEST(Linalg, WhatHasNoGradientSaysSo) {
  const Variable tall = randn({4, 2}, {.dtype = f64}).requires_grad_();
  EXPECT_THROW(sum(linalg::qr(tall, linalg::QrMode::kComplete).r).backward(), AutogradError);
  EXPECT_THROW(sum(linalg::qr(tall, linalg::QrMode::kR).r).backward(), AutogradError);
  const Variable singular = matrix({1, 2, 2, 4}, {2, 2}).requires_grad_();
  EXPECT_THROW(linalg::slogdet(singular).logabsdet.backward(), LinAlgError);
}

TEST(Linalg, ValuesHaveGradientsWhereTheyAreEqual) {
  const Variable x = eye(3, 3, {.dtype = f64, .requires_grad = true});
  expect_near(grad(sum(square(linalg::svdvals(x))), x), values(2 * x));
  expect_near(grad(sum(square(linalg::eigvalsh(x))), x), values(2 * x));
  expect_near(grad(sum(linalg::pinv(x)), x), Values(9, -1));
  EXPECT_FALSE(isfinite(sum(grad(sum(linalg::eigh(x).eigenvectors), x))).item());
}

TEST(Linalg, LargeMatricesAndLargeBatches) {
  manual_seed(7);
  const auto check = [](const Shape& shape, DType dtype) {
    const double eps = dtype == f32 ? 0x1p-23 : 0x1p-52, n = double(shape[shape.rank() - 1]);
    const double allowed = 16 * n * eps;
    const TensorOptions options{.dtype = dtype};
    const Variable x = randn(shape, options), identity = eye(int64_t(n), {}, options);
    const Variable spread = x / std::sqrt(n) + identity * 3;
    EXPECT_LT(largest_difference(matmul(spread, linalg::inv(spread)), expand(identity, shape)),
              allowed);
    EXPECT_LT(largest_difference(matmul(spread, linalg::solve(spread, x)), x), 4 * allowed);
    const auto [q, r] = linalg::qr(x);
    EXPECT_LT(largest_difference(matmul(q, r), x), allowed);
    EXPECT_LT(largest_difference(matmul(transpose(q, -2, -1), q), expand(identity, shape)),
              allowed);
    const auto [u, s, vh] = linalg::svd(x, false);
    EXPECT_LT(largest_difference(matmul(u * unsqueeze(s, -2), vh), x), allowed * std::sqrt(n));
    const Variable both = x + transpose(x, -2, -1);
    const auto [l, v] = linalg::eigh(both);
    EXPECT_LT(largest_difference(matmul(v * unsqueeze(l, -2), transpose(v, -2, -1)), both),
              allowed * std::sqrt(n));
    const Variable positive = matmul(x, transpose(x, -2, -1)) + identity;
    const Variable c = linalg::cholesky(positive);
    EXPECT_LT(largest_difference(matmul(c, transpose(c, -2, -1)), positive), n * allowed);
    EXPECT_EQ(largest_difference(triu(c, 1), zeros_like(c)), 0);
    EXPECT_LT(largest_difference(linalg::matrix_exp(x / n),
                                 linalg::matrix_power(linalg::matrix_exp(x / (4 * n)), 4)),
              allowed);
  };
  for (DType dtype : {f32, f64}) {
    check({200, 200}, dtype);
    check({300, 5, 5}, dtype);
  }
}

// Triangles below and above the sizes that are solved in registers, beside numbers of columns that
// fill these and that do not.
TEST(Linalg, TrianglesOfEverySize) {
  manual_seed(9);
  for (const DType dtype : {f32, f64})
    for (const int64_t n : {1, 7, 8, 9, 31, 32, 33, 65, 100})
      for (const int64_t columns : {1, 3, 4, 5, 16, 31, 33, 70})
        for (const bool upper : {false, true})
          for (const bool unit : {false, true}) {
            const TensorOptions options{.dtype = dtype};
            const Variable some = randn({n, n}, options) * (0.5 / std::sqrt(double(n)));
            const Variable t = (upper ? triu(some, 1) : tril(some, -1)) +
                               diag_embed(rand({n}, options) + (unit ? 5.0 : 1.0));
            const Variable applied = unit ? t - diag_embed(diagonal(t)) + eye(n, {}, options) : t;
            const Variable b = randn({n, columns}, options);
            const Variable x = linalg::solve_triangular(t, b, upper, true, unit);
            const Variable y = linalg::solve_triangular(t, b.t().contiguous(), upper, false, unit);
            const double allowed = 64 * double(n) * (dtype == f32 ? 0x1p-23 : 0x1p-52);
            ASSERT_LT(largest_difference(matmul(applied, x), b), allowed)
                << n << ' ' << columns << ' ' << upper << unit << ' ' << dtype;
            ASSERT_LT(largest_difference(matmul(y, applied), b.t()), allowed)
                << n << ' ' << columns << ' ' << upper << unit << ' ' << dtype;
          }
}

TEST(Linalg, ABatchGivesWhatItsMatricesGive) {
  manual_seed(8);
  const Variable x = randn({37, 6, 6}, {.dtype = f64});
  const auto [u, s, vh] = linalg::svd(x);
  const auto [l, v] = linalg::eigh(x);
  const Variable y = linalg::inv(x), d = linalg::det(x), e = linalg::matrix_exp(x);
  for (int64_t i = 0; i < 37; ++i) {
    const auto expect_same = [&](const Variable& one, const Variable& batch) {
      const Variable expected = select(batch, 0, i);
      EXPECT_LT(largest_difference(one, expected), 1e-12 * amax(abs(expected)).item()) << i;
    };
    const Variable one = select(x, 0, i);
    expect_same(linalg::svd(one).vh, vh);
    expect_same(linalg::eigh(one).eigenvectors, v);
    expect_same(linalg::inv(one), y);
    expect_same(linalg::det(one), d);
    expect_same(linalg::matrix_exp(one), e);
  }
}

TEST(Linalg, TensorsAsMatrices) {
  manual_seed(5);
  const Variable b = randn({2, 3}, {.dtype = f64});
  const Variable a = randn({2, 3, 6}, {.dtype = f64}).requires_grad_();
  const Variable x = linalg::tensorsolve(a, b);
  EXPECT_EQ(x.shape(), Shape({6}));
  EXPECT_TRUE(allclose(tensordot(a, x, 1), b, 1e-10));
  EXPECT_TRUE(gradcheck([&](const Variable& m) { return linalg::tensorsolve(m, b); }, a));
  EXPECT_TRUE(allclose(linalg::tensorsolve(a.permute({0, 2, 1}), b, {1}), x, 1e-10));
  const Variable c = randn({4, 6, 8, 3}, {.dtype = f64});
  const Variable d = randn({4, 6}, {.dtype = f64});
  EXPECT_EQ(linalg::tensorinv(c).shape(), Shape({8, 3, 4, 6}));
  EXPECT_TRUE(allclose(tensordot(linalg::tensorinv(c), d, 2), linalg::tensorsolve(c, d), 1e-8));
  EXPECT_THROW(linalg::tensorsolve(a, d), ShapeError);
  EXPECT_THROW(linalg::tensorinv(c, 1), ShapeError);
  EXPECT_THROW(linalg::tensorinv(c, 4), ArgumentError);
}

TEST(Linalg, T03_RanksAndNormsOfEmptyMatrices) {
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{0, 0}}) {
    EXPECT_EQ(linalg::matrix_rank(zeros(shape)).item<int64_t>(), 0);
    for (const double ord : {2.0, 1.0, double(INFINITY)})
      EXPECT_EQ(linalg::matrix_norm(zeros(shape), ord).item(), 0) << shape << ' ' << ord;
    EXPECT_THROW(linalg::matrix_norm(zeros(shape), -2.0), ArgumentError);
  }
  EXPECT_EQ(linalg::matrix_rank(zeros({2, 3, 0})).shape(), (Shape{2}));
}

}  // namespace
}  // namespace tapegrad
