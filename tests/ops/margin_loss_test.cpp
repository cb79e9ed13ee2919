// Exact values of PyTorch 1.13, errors and corner cases of losses of margins and likelihoods.
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/expect_near.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::expect_near;
using testing::leaf;
using Doubles = std::vector<double>;

TEST(MarginLoss, Triplet) {
  const Variable a = leaf({1, 2, 3, -1}, {2, 2});
  for (const bool swap : {false, true})
    expect_near(triplet_margin_loss(a, a + 0.5, a - tensor({0.25, 1.0}, {.dtype = f64}),
                                    {.swap = swap, .reduction = Reduction::kNone}),
                {0.6763277478901881, 0.6763277478901881});
  EXPECT_THROW(triplet_margin_loss(a, a, a, {.p = 0.0}), ArgumentError);
  // PyTorch: nn.TripletMarginWithDistanceLoss(margin=0.5, distance_function=lambda a, b: ...)
  const Variable x = tensor({{1.0, 0.0}}, {.dtype = f64}), y = tensor({{1.0, 1.0}}, {.dtype = f64}),
                 z = tensor({{1.0, 0.5}}, {.dtype = f64});
  const auto cosine = [](const Variable& p, const Variable& q) {
    return 1.0 - sum(p * q, -1) / (norm(p, 2, {-1}) * norm(q, 2, {-1}));
  };
  expect_near(
      triplet_margin_with_distance_loss(x, y, z, {.distance_function = cosine, .margin = 0.5}),
      {0.687320409813}, 1e-10);
  expect_near(triplet_margin_with_distance_loss(x, y, z), {triplet_margin_loss(x, y, z).item()},
              1e-12);
  EXPECT_THROW(triplet_margin_loss(a, a, select(a, 0, 0)), ShapeError);
}

TEST(MarginLoss, CosineEmbedding) {
  const Variable a = leaf({1, 2, 3, -1}, {2, 2}), b = leaf({2, 1, 2, 1}, {2, 2});
  const Variable target = tensor({1.0, -1.0}, {.dtype = f64});
  expect_near(cosine_embedding_loss(a, b, target, 0.0, Reduction::kNone),
              {0.20000000000016005, 0.7071067811864414});
  const Variable zero = leaf({0, 0, 0, 0}, {2, 2});
  const Variable y = cosine_embedding_loss(zero, b, target, 0.0, Reduction::kNone);
  EXPECT_EQ(y.to_vector<double>(), (Doubles{1, 0}));
  sum(y).backward();
  for (const double dx : zero.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(dx));
  EXPECT_THROW(cosine_embedding_loss(a, b, zeros({3})), ShapeError);
  EXPECT_THROW(cosine_embedding_loss(a, select(b, 0, 0), target), ShapeError);
}

TEST(MarginLoss, MultilabelTargetsEndAtMinusOne) {
  const Variable x = leaf({0.1, 0.2, 0.4, 0.8}, {1, 4});
  EXPECT_NEAR(multilabel_margin_loss(x, tensor({3, 0, -1, 1}, {1, 4})).item(), 0.85, 1e-15);
  EXPECT_EQ(multilabel_margin_loss(x, tensor({-1, 0, 1, 2}, {1, 4})).item(), 0);
  const Variable one = multilabel_margin_loss(flatten(x), tensor({3, 0, -1, 1}), Reduction::kNone);
  EXPECT_EQ(one.shape(), Shape{});
  EXPECT_NEAR(one.item(), 0.85, 1e-15);
  EXPECT_THROW(multilabel_margin_loss(x, tensor({4, 0, -1, 1}, {1, 4})), IndexError);
  EXPECT_THROW(multilabel_margin_loss(x, tensor({-2, 0, -1, 1}, {1, 4})), IndexError);
  EXPECT_THROW(multilabel_margin_loss(x, x), DTypeError);
}

TEST(MarginLoss, MultiMarginOfOneExample) {
  const Variable x = leaf({0.1, 0.2, 0.4, 0.8}, {4});
  const Variable y = multi_margin_loss(x, tensor({2}, Shape{}), {.reduction = Reduction::kNone});
  EXPECT_EQ(y.shape(), Shape{});
  EXPECT_NEAR(y.item(), 0.725, 1e-15);
  EXPECT_THROW(multi_margin_loss(x, tensor({4}, Shape{})), IndexError);
  EXPECT_THROW(multi_margin_loss(x, tensor({1, 2})), ShapeError);
  EXPECT_THROW(multi_margin_loss(x, tensor({2}, Shape{}), {.p = 3}), ArgumentError);
  EXPECT_THROW(multi_margin_loss(x, tensor({2}, Shape{}), {.weight = ones({3})}), ShapeError);
}

TEST(MarginLoss, SoftMarginOfLargeValues) {
  EXPECT_EQ(soft_margin_loss(leaf({1e4, -1e4}, {2}), tensor({1.0, 1.0}), Reduction::kNone)
                .to_vector<double>(),
            (Doubles{0, 1e4}));
}

TEST(MarginLoss, PoissonNll) {
  expect_near(poisson_nll_loss(leaf({0, 1, 2}, {3}), leaf({0, 1, 3}, {3}),
                               {.full = true, .reduction = Reduction::kNone}),
              {1.0, 1.718281828459045, 3.153137642473707});
}

TEST(MarginLoss, GaussianNllClampsTheVarianceOnly) {
  const Variable x = leaf({1, 2}, {2}), t = leaf({0, 0}, {2});
  expect_near(gaussian_nll_loss(x, t, leaf({0, 1e-9}, {2}), {.reduction = Reduction::kNone}),
              {499993.092244721, 1999993.092244721}, 1e-8);
  const Variable var = leaf({0, 2}, {2});
  gaussian_nll_loss(leaf({1e-3, 2}, {2}), t, var, {.reduction = Reduction::kSum}).backward();
  expect_near(var.grad(), {0, -0.25}, 1e-9);
  EXPECT_EQ(
      gaussian_nll_loss(ones({2, 3}), zeros({2, 3}), ones({2}), {.reduction = Reduction::kNone})
          .shape(),
      (Shape{2, 3}));
  EXPECT_THROW(gaussian_nll_loss(x, t, leaf({-1, 1}, {2})), ArgumentError);
  EXPECT_THROW(gaussian_nll_loss(x, t, leaf({1, 1, 1}, {3})), ShapeError);
}

TEST(MarginLoss, ShapesDoNotBroadcastByAccident) {
  const Variable x = ones({3, 1}), t = ones({3});
  EXPECT_THROW(hinge_embedding_loss(x, t), ShapeError);
  EXPECT_THROW(soft_margin_loss(x, t), ShapeError);
  EXPECT_THROW(multilabel_soft_margin_loss(x, t), ShapeError);
  EXPECT_THROW(hinge_embedding_loss(tensor({1, 2}), tensor({1, 2})), DTypeError);
}

// The values are those of PyTorch 2.15, which refuses the mean of l1_loss and other losses.
TEST(MarginLoss, OfIntegers) {
  const Variable x = tensor({{0, 1, 2, 3}, {3, 1, 0, 2}}), y = tensor({{1, 1, 0, 3}, {2, 1, 1, 7}});
  const Variable each = l1_loss(x, y, Reduction::kNone);
  EXPECT_EQ(each.dtype(), i64);
  EXPECT_EQ(each.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 2, 0, 1, 0, 1, 5}));
  EXPECT_EQ(l1_loss(x, y, Reduction::kSum).item(), 10);
  EXPECT_THROW(l1_loss(x, y), DTypeError);
  EXPECT_THROW(mse_loss(x, y), DTypeError);
  EXPECT_NEAR(triplet_margin_loss(x, y, x).item(), 4.716108322143555, 1e-6);
  EXPECT_NEAR(margin_ranking_loss(x, y, ones_like(x)).item(), 0.875, 1e-7);
  EXPECT_NEAR(cosine_embedding_loss(x, y, tensor({1, 1})).item(), 0.218694806098938, 1e-7);
  EXPECT_NEAR(poisson_nll_loss(x, y).item(), 3.9232187271118164, 1e-6);
}

}  // namespace
}  // namespace tapegrad
