#include "ops/distance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/autograd/derivatives.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/error_message.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::make;
using Doubles = std::vector<double>;

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
