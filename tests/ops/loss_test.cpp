// Losses: errors, exact values, and corner cases that the case table does not cover.
#include "ops/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/error_message.h"

namespace tapegrad {
namespace {

using testing::message_of;

Variable leaf(std::vector<double> values, const Shape& shape, DType dtype = f64) {
  return tensor(values, shape, {.dtype = dtype, .requires_grad = true});
}
Variable ids(std::vector<int64_t> values) { return tensor(values); }

TEST(Loss, CrossEntropyExact) {
  const Variable x = leaf({0, 0, 0, 0}, {1, 4});
  const Variable y = cross_entropy(x, ids({2}));
  EXPECT_NEAR(y.item(), std::log(4.0), 1e-15);
  y.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0.25, 0.25, -0.75, 0.25}));
}

TEST(Loss, T31_CrossEntropyOfLargeLogits) {
  for (const DType dtype : {f64, f32}) {
    const Variable x = leaf({1e4, 0, -1e4, 0, -INFINITY, 1}, {2, 3}, dtype);
    const Variable y = cross_entropy(x, ids({0, 2}), {.reduction = Reduction::kNone});
    const double second = std::log(1 + std::exp(-1.0));
    EXPECT_EQ(y.to_vector<double>()[0], 0);
    EXPECT_NEAR(y.to_vector<double>()[1], second, 1e-6);
    sum(y).backward();
    for (const double g : x.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
  }
}

/// A reduction is no delta or beta, although both parameters are the first after the target.
TEST(Loss, AReductionByPositionIsNoNumber) {
  const Variable x = leaf({0.5, -3}, {2}), zero = zeros({2}, {.dtype = f64});
  EXPECT_EQ(huber_loss(x, zero, Reduction::kNone).to_vector<double>(),
            (std::vector<double>{0.125, 2.5}));
  EXPECT_EQ(smooth_l1_loss(x, zero, Reduction::kSum).item(), 2.625);
  static_assert(!std::is_convertible_v<decltype(Reduction::kNone), double>);
}

TEST(Loss, CrossEntropyKeepsPrecisionBesideALargeShift) {
  const Variable x = leaf({1e4, 1e4 + 1}, {1, 2}, f32);
  EXPECT_NEAR(cross_entropy(x, ids({0})).item(), 1 + std::log1p(std::exp(-1.0)), 4e-7);
}

TEST(Loss, FusedAndComposedGradientsAgree) {
  const Variable weight = tensor({0.5, 2.0, 1.0, 3.0}, {.dtype = f64});
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone})
    for (const double smoothing : {0.0, 0.3}) {
      manual_seed(7);
      Variable x = randn({3, 4, 5}, {.dtype = f64, .requires_grad = true});
      const Variable target = randint(0, 4, {3, 5});
      const Variable y = cross_entropy(x, target,
                                       {.weight = weight,
                                        .ignore_index = 1,
                                        .reduction = reduction,
                                        .label_smoothing = smoothing});
      const Variable total = sum(y);
      const Variable fused = grad(total, x, {.retain_graph = true});
      const Variable composed = grad(total, x, {.create_graph = true});
      const auto a = fused.to_vector<double>(), b = composed.to_vector<double>();
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-14);
    }
}

TEST(Loss, CrossEntropyIsNllOfLogSoftmax) {
  manual_seed(3);
  const Variable x = randn({6, 9}, {.dtype = f64});
  const Variable target = randint(0, 9, {6});
  EXPECT_NEAR(cross_entropy(x, target).item(), nll_loss(log_softmax(x, 1), target).item(), 1e-14);
}

/// Rows of few classes are computed in lanes, together with others: no row depends on the others.
TEST(Loss, CrossEntropyOfShortRowsDependsOnTheRowAlone) {
  for (const int64_t classes : {1, 2, 5, 7, 16, 17, 31, 32}) {
    std::vector<double> values = (randn({37, classes}) * 8).to_vector<double>();
    std::vector<int64_t> targets;
    for (int64_t r = 0; r < 37; ++r) targets.push_back(r % 5 == 4 ? -100 : r % classes);
    values[size_t(3 * classes)] = NAN;
    if (classes > 1) values[size_t(6 * classes + (7 % classes))] = -HUGE_VAL;
    const Variable x = leaf(values, {37, classes}, f32), weight = rand({classes}) + 0.5;
    const auto losses = [](const Variable& rows, const Variable& to, const Variable& factors) {
      return cross_entropy(rows, to, {.weight = factors, .reduction = Reduction::kNone});
    };
    const Variable all = losses(x, ids(targets), weight);
    const Variable exact = losses(x.to(f64), ids(targets), weight.to(f64));
    for (int64_t r = 0; r < 37; ++r) {
      const Variable one = losses(narrow(x, 0, r, 1), ids({targets[size_t(r)]}), weight);
      const double loss = all[r].item(), wanted = exact[r].item();
      EXPECT_EQ(std::isnan(loss), r == 3) << classes;
      if (r == 3) continue;
      EXPECT_EQ(loss, one[0].item()) << classes << ", row " << r;
      EXPECT_NEAR(loss, wanted, 2e-6 * (1 + std::abs(wanted))) << classes << ", row " << r;
    }
  }
}

TEST(Loss, ClassIdsOfAnyIntegerType) {
  const Variable x = leaf({1, 2, 3, 4}, {2, 2});
  const double expected = cross_entropy(x, ids({1, 0})).item();
  for (const DType dtype : {i32, u8, i16, i8})
    EXPECT_EQ(cross_entropy(x, ids({1, 0}).to(dtype)).item(), expected);
}

TEST(Loss, T42_IdsOutOfRangeAreErrors) {
  const Variable x = leaf({1, 2, 3, 4}, {2, 2});
  for (const int64_t bad : {int64_t(2), int64_t(-1), int64_t(1) << 40}) {
    const std::string text = message_of<IndexError>([&] { cross_entropy(x, ids({0, bad})); });
    EXPECT_NE(text.find("cross_entropy: target 1 is " + std::to_string(bad)), text.npos) << text;
    EXPECT_THROW(nll_loss(x, ids({0, bad})), IndexError);
  }
}

TEST(Loss, T42_AllIgnored) {
  for (const bool fused : {true, false}) {
    const auto loss = [&](const Variable& x, Reduction reduction) {
      const Variable target = ids({-100, -100});
      return fused ? cross_entropy(x, target, {.reduction = reduction})
                   : nll_loss(x, target, {.reduction = reduction});
    };
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
      const Variable x = leaf({1, 2, 3, 4}, {2, 2});
      const Variable y = loss(x, reduction);
      if (reduction == Reduction::kSum)
        EXPECT_EQ(y.item(), 0);
      else
        EXPECT_TRUE(std::isnan(y.item()));
      y.backward();
      EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>(4, 0.0));
      if (!fused) continue;  // linear
      const Variable first = grad(loss(x, reduction), x, {.create_graph = true});
      const Variable second = grad(sum(first * first), x);
      EXPECT_EQ(second.to_vector<double>(), std::vector<double>(4, 0.0));
    }
  }
}

TEST(Loss, ClassLossErrors) {
  const Variable x = leaf({1, 2, 3, 4}, {2, 2});
  EXPECT_THROW(cross_entropy(x, ids({0})), ShapeError);
  EXPECT_THROW(cross_entropy(x, tensor({true, false})), DTypeError);
  EXPECT_THROW(cross_entropy(x, ids({0, 1}), {.weight = ones({3}, {.dtype = f64})}), ShapeError);
  EXPECT_THROW(cross_entropy(x, ids({0, 1}), {.label_smoothing = 1.5}), ArgumentError);
  EXPECT_THROW(cross_entropy(x, ids({0, 1}), {.weight = leaf({1, 1}, {2})}), ArgumentError);
  EXPECT_THROW(cross_entropy(ids({0, 1}), ids({0})), DTypeError);
  EXPECT_THROW(cross_entropy(x, ones({3, 2}, {.dtype = f64})), ShapeError);
}

TEST(Loss, ShapesMustBeEqual) {
  const Variable column = leaf({1, 2}, {2, 1}), row = leaf({1, 2}, {2});
  EXPECT_THROW(mse_loss(column, row), ShapeError);
  EXPECT_THROW(l1_loss(column, row), ShapeError);
  EXPECT_THROW(smooth_l1_loss(column, row), ShapeError);
  EXPECT_THROW(huber_loss(column, row), ShapeError);
  EXPECT_THROW(kl_div(column, row), ShapeError);
  EXPECT_THROW(binary_cross_entropy_with_logits(column, row), ShapeError);
}

TEST(Loss, BinaryCrossEntropyAtTheEnds) {
  const Variable x = leaf({0, 1, 0, 1}, {4});
  const Variable target = tensor({0.0, 1.0, 1.0, 0.0}, {.dtype = f64});
  const Variable y = binary_cross_entropy(x, target, {}, Reduction::kNone);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{0, 0, 100, 100}));
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0, -1e12, 1e12}));
  EXPECT_THROW(binary_cross_entropy(leaf({1.5}, {1}), leaf({1}, {1})), ArgumentError);
  EXPECT_THROW(binary_cross_entropy(leaf({0.5}, {1}), leaf({255}, {1})), ArgumentError);
  EXPECT_THROW(binary_cross_entropy(leaf({0.5}, {1}), leaf({-1}, {1})), ArgumentError);
  EXPECT_THROW(binary_cross_entropy(leaf({std::nan("")}, {1}), leaf({1}, {1})), ArgumentError);
}

TEST(Loss, LogitsAreStable) {
  const Variable x = leaf({-1000, 1000, 0, 40}, {4});
  const Variable target = tensor({0.0, 1.0, 1.0, 1.0}, {.dtype = f64});
  const Variable y = binary_cross_entropy_with_logits(x, target, {.reduction = Reduction::kNone});
  const auto got = y.to_vector<double>();
  EXPECT_EQ(got[0], 0);
  EXPECT_EQ(got[1], 0);
  EXPECT_NEAR(got[2], std::log(2.0), 1e-15);
  EXPECT_NEAR(got[3], std::exp(-40.0), 1e-30);
  sum(y).backward();
  EXPECT_NEAR(x.grad().to_vector<double>()[2], -0.5, 1e-15);
}

TEST(Loss, LogitsKeepTheDigitsOfSmallLosses) {
  for (const DType dtype : {f32, f64}) {
    const Variable x = tensor({-30, 30}, {.dtype = dtype}).requires_grad_();
    const Variable target = tensor({0, 1}, {.dtype = dtype});
    for (const Variable& weight : {Variable(), ones({2}, {.dtype = dtype})}) {
      x.zero_grad();
      const Variable y = binary_cross_entropy_with_logits(
          x, target, {.reduction = Reduction::kNone, .pos_weight = weight});
      sum(y).backward();
      const double small = std::exp(-30.0), error = small * (dtype == f32 ? 1e-6 : 1e-15);
      const double loss = std::log1p(small), gradient = small / (1 + small);
      for (int i = 0; i < 2; ++i) {
        EXPECT_NEAR(y[i].item(), loss, error);
        EXPECT_NEAR(x.grad()[i].item(), i == 0 ? gradient : -gradient, error);
      }
    }
  }
}

TEST(Loss, KlDivOfAZeroTarget) {
  const Variable x = leaf({-1, -2}, {2});
  const Variable target = leaf({0, 1}, {2});
  const Variable y = kl_div(x, target, false, Reduction::kSum);
  EXPECT_EQ(y.item(), 2);
  y.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, -1}));
}

// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2; huber_loss is beta times as large. In
// float16 the beta of 1e-6 is subnormal and its inverse infinite.
TEST(Loss, HuberMeetsItsFormulaForEveryBound) {
  for (const DType dtype : {f64, f32, f16})
    for (const double beta : {1e-6, 0.3, 1.0, 100.0}) {
      const std::vector<double> ds{0, 1e-7, -0.25, 0.5, -1, 3, -40, HUGE_VAL};
      const Variable x = leaf(ds, {int64_t(ds.size())}, dtype), zero = zeros_like(x);
      const Variable y = smooth_l1_loss(x, zero, beta, Reduction::kNone);
      const Variable huber = huber_loss(x, zero, beta, Reduction::kNone);
      sum(narrow(y, 0, 0, 7)).backward();
      const double unit = dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : 2e-3;
      for (size_t i = 0; i < ds.size(); ++i) {
        const double d = x.to_vector<double>()[i], size = std::abs(d);
        const double want = size < beta ? d * d / (2 * beta) : size - beta / 2;
        EXPECT_TRUE(y.to_vector<double>()[i] == want ||
                    std::abs(y.to_vector<double>()[i] - want) <= unit * (want + 1e-4))
            << dtype << ' ' << beta << ' ' << d << ": " << y.to_vector<double>()[i];
        const double scaled = huber.to_vector<double>()[i];
        EXPECT_TRUE(scaled == beta * want ||
                    std::abs(scaled - beta * want) <= unit * (beta * want + 1e-4) ||
                    (dtype == f16 && beta * want > 65504))
            << dtype << ' ' << beta << ' ' << d << ": " << scaled;
        if (i == 7) continue;
        const double slope = size < beta ? d / beta : d > 0 ? 1 : -1;
        EXPECT_NEAR(x.grad().to_vector<double>()[i], slope, unit * 2) << dtype << ' ' << beta;
      }
    }
}

TEST(Loss, SmoothL1WithBetaZeroIsL1) {
  const Variable tiny = leaf({1e-60, 1.0}, {2});  // a bound below float32's range
  EXPECT_NEAR(smooth_l1_loss(tiny, zeros_like(tiny), 1e-50, Reduction::kNone)[0].item(), 5e-71,
              1e-84);
  const Variable single = leaf({2.0}, {1}, f32);
  EXPECT_EQ(smooth_l1_loss(single, zeros_like(single), 1e-45).item(), 2);
  const Variable x = leaf({1, -2}, {2}), target = leaf({0, 0}, {2});
  EXPECT_EQ(smooth_l1_loss(x, target, 0.0).item(), 1.5);
  EXPECT_THROW(smooth_l1_loss(x, target, -1.0), ArgumentError);
  EXPECT_THROW(huber_loss(x, target, 0.0), ArgumentError);
}

TEST(Loss, SecondOrderOfCrossEntropy) {
  manual_seed(5);
  Variable x = randn({3, 4}, {.dtype = f64, .requires_grad = true});
  const Variable target = ids({0, 3, 1});
  const auto result = gradcheck(
      [&](const auto& in) {
        return cross_entropy(in[0], target, {.ignore_index = 3, .label_smoothing = 0.1});
      },
      {x}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

}  // namespace
}  // namespace tapegrad
