// ctc_loss: values and gradients of PyTorch 1.13, and errors.
#include "ops/ctc_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/expect_near.h"

namespace tapegrad {
namespace {

using testing::expect_near;
using Doubles = std::vector<double>;
Variable wave(const Shape& shape) {
  Doubles numbers(numel(shape));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(double(i * i % 97) + 0.5);
  return tensor(numbers, shape, {.dtype = f64, .requires_grad = true});
}

TEST(CtcLoss, ExactWithGradient) {
  const Variable x = wave({4, 2, 3}), targets = tensor({1, 2, 1, 1}, {2, 2});
  expect_near(
      ctc_loss(log_softmax(x, -1), targets, {4, 4}, {2, 2}, {.reduction = Reduction::kNone}),
      {1.428618745832385, 3.3739000707621667});
  EXPECT_NEAR(ctc_loss(log_softmax(x, -1), flatten(targets), {4, 4}, {2, 2}).item(),
              1.2006297041486378, 1e-14);
  ctc_loss(log_softmax(x, -1), targets, {4, 4}, {2, 2}, {.reduction = Reduction::kSum}).backward();
  expect_near(
      x.grad(),
      {0.2627624154679485,   -0.3427645197530174,   0.08000210428506895,  -0.038546086359942965,
       -0.4638413105394666,  0.5023873968994096,    0.014431298336356932, -0.06154656403031529,
       0.04711526569395836,  -0.044465957865117964, -0.22006910818634326, 0.2645350660514612,
       0.03258212456512952,  0.2126325314402914,    -0.24521465600542092, -0.5373973536338913,
       -0.05082029101934841, 0.5882176446532397,    -0.3255181573230082,  0.44551062148959214,
       -0.11999246416658398, 0.12931219382129522,   -0.4763996023913431,  0.3470874085700479});
}

TEST(CtcLoss, ATargetTooLongIsInfiniteOrLeftOut) {
  const Variable x = wave({4, 2, 3}), targets = tensor({1, 2, 1, 1}, {2, 2});
  const auto losses = [&](bool zero) {
    return ctc_loss(log_softmax(x, -1), targets, {4, 2}, {2, 2},
                    {.reduction = Reduction::kNone, .zero_infinity = zero});
  };
  EXPECT_EQ(losses(false).to_vector<double>()[1], INFINITY);
  const Variable y = losses(true);
  EXPECT_EQ(y.to_vector<double>()[1], 0);
  sum(y).backward();
  const Doubles dx = x.grad().to_vector<double>();
  for (size_t i = 0; i < dx.size(); ++i) {
    EXPECT_TRUE(std::isfinite(dx[i])) << i;
    if (i / 3 % 2 == 1) {
      EXPECT_EQ(dx[i], 0) << i;
    }
  }
}

TEST(CtcLoss, Refuses) {
  const Variable x = log_softmax(wave({4, 2, 3}), -1), targets = tensor({1, 2, 1, 1}, {2, 2});
  EXPECT_THROW(ctc_loss(x, targets, {4, 5}, {2, 2}), ArgumentError);
  EXPECT_THROW(ctc_loss(x, targets, {4, 4}, {2, 3}), ArgumentError);
  EXPECT_THROW(ctc_loss(x, targets, {4, 4}, {2}), ShapeError);
  EXPECT_THROW(ctc_loss(x, targets, {4, 4}, {2, 2}, {.blank = 3}), IndexError);
  EXPECT_THROW(ctc_loss(x, tensor({1, 3, 1, 1}, {2, 2}), {4, 4}, {2, 2}), IndexError);
  EXPECT_THROW(ctc_loss(x, tensor({1, 2, 1}), {4, 4}, {2, 2}), ArgumentError);
  EXPECT_THROW(ctc_loss(x, tensor({1, 2, 1, 1, 1}), {4, 4}, {2, 2}), ArgumentError);
  EXPECT_THROW(ctc_loss(x, x, {4, 4}, {2, 2}), DTypeError);
  EXPECT_THROW(ctc_loss(wave({4}), targets, {4}, {2}), ShapeError);
}

}  // namespace
}  // namespace tapegrad
