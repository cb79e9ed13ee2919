// Dropout and its variants: statistics, gradients and errors. Seeds are fixed, so a test cannot
// fail by chance. The bounds are five standard deviations of the statistic.
#include "ops/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

const DType kFloats[] = {f16, bf16, f32, f64};

TEST(Dropout, T45_IdentityObjectForObject) {
  const Variable x = ones({8}, {.requires_grad = true});
  const RandomState before = default_generator().state();
  EXPECT_TRUE(dropout(x, 0.5, /*training=*/false).is_same(x));
  EXPECT_TRUE(dropout(x, 0.0).is_same(x));
  EXPECT_EQ(default_generator().state(), before);
}

TEST(Dropout, T45_AllDroppedIsZeroWithZeroGradient) {
  const Variable x = tensor<double>({1.0, INFINITY, NAN}, {.dtype = f64, .requires_grad = true});
  const Variable y = dropout(x, 1.0);
  EXPECT_EQ(y.to_vector<double>(), std::vector<double>(3, 0.0));
  y.backward(tensor<double>({1.0, INFINITY, NAN}, {.dtype = f64}));
  EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>(3, 0.0));
}

TEST(Dropout, T45_ExpectationMaskAndSeed) {
  for (DType dtype : kFloats) {
    for (double p : {0.1, 0.5, 0.9}) {
      const int64_t n = 100000;
      const Variable x = ones({n}, {.dtype = dtype, .requires_grad = true});
      manual_seed(11);
      const Variable y = dropout(x, p);
      const std::vector<double> values = y.to_vector<double>();
      int64_t kept = 0;
      for (double value : values) {
        if (value == 0.0) continue;
        ASSERT_NEAR(value, 1 / (1 - p), 0.01 / (1 - p));
        ++kept;
      }
      EXPECT_NEAR(double(kept) / double(n), 1 - p, 5 * std::sqrt(p * (1 - p) / double(n)));
      y.backward(ones({n}, {.dtype = dtype}));
      EXPECT_EQ(x.grad().to_vector<double>(), values) << "the same mask in backward";
      EXPECT_NE(dropout(x, p).to_vector<double>(), values) << "another mask in the next call";
      manual_seed(11);
      EXPECT_EQ(dropout(x, p).to_vector<double>(), values);
    }
  }
}

TEST(Dropout, GradientsOfAnyOrder) {
  const Variable x =
      tensor<double>({0.5, -1.0, 2.0, 3.0, -0.25}, {.dtype = f64, .requires_grad = true});
  const auto result = gradcheck(
      [](const std::vector<Variable>& in) {
        RandomGenerator generator(3);
        return dropout(in[0] * in[0] * in[0], 0.4, true, generator);
      },
      {x}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

TEST(Dropout, Arguments) {
  const Variable x = ones({2});
  EXPECT_THROW(dropout(x, -0.1), ArgumentError);
  EXPECT_THROW(dropout(x, 1.1), ArgumentError);
  EXPECT_THROW(dropout(x, NAN), ArgumentError);
  EXPECT_THROW(dropout(ones({2}, {.dtype = i64}), 0.5), DTypeError);
  // nothing is dropped
  EXPECT_EQ(dropout(ones({2}, {.dtype = i64}), 0.5, /*training=*/false).dtype(), i64);
  EXPECT_EQ(alpha_dropout(ones({2}, {.dtype = boolean}), 0.0).dtype(), boolean);
  EXPECT_EQ(dropout2d(ones({2, 1, 1}, {.dtype = i32}), 0.5, false).dtype(), i32);
  EXPECT_EQ(feature_alpha_dropout(ones({2, 1}, {.dtype = u8}), 0.5, false).dtype(), u8);
}

TEST(Dropout, ChannelsAreDroppedAsAWhole) {
  RandomGenerator generator(7);
  const Variable x = ones({50, 40, 3, 2});
  for (const Variable& y : {dropout2d(x, 0.25, true, generator),
                            unsqueeze(dropout1d(flatten(x, 2), 0.25, true, generator), 3)}) {
    const Variable sums = sum(y, {2, 3});
    int64_t dropped = 0;
    for (const float value : sums.to_vector<float>()) {
      dropped += value == 0;
      EXPECT_TRUE(value == 0 || std::abs(value - 8) < 1e-5) << value;
    }
    EXPECT_NEAR(double(dropped) / 2000, 0.25, 5 * std::sqrt(0.25 * 0.75 / 2000));
  }
  const Variable nan = full({4, 4, 2}, std::nan(""));
  for (const float value : dropout1d(nan, 0.5, true, generator).to_vector<float>())
    EXPECT_TRUE(value == 0 || value != value);
  EXPECT_THROW(dropout2d(ones({2, 3}), 0.5), ShapeError);
  EXPECT_THROW(dropout1d(ones({2, 3, 4}), 1.5), ArgumentError);
}

TEST(Dropout, AlphaDropoutKeepsMeanAndVariance) {
  RandomGenerator generator(8);
  const Variable x = randn({100000}, {.dtype = f64}, generator);
  const Variable y = alpha_dropout(x, 0.3, true, generator);
  EXPECT_NEAR(mean(y).item(), 0, 0.02);
  EXPECT_NEAR(var(y).item(), 1, 0.03);
}

/// Compares the op with its definition, with equal random numbers.
void expect_same_bits(const Variable& x, const Variable& residual, double p, bool training = true) {
  manual_seed(5);
  const Variable together = dropout_add(x, residual, p, training);
  const RandomState after = default_generator().state();
  manual_seed(5);
  const Variable apart = residual + dropout(x, p, training);
  EXPECT_EQ(default_generator().state(), after);
  EXPECT_EQ(together.dtype(), apart.dtype());
  EXPECT_EQ(together.shape(), apart.shape());
  EXPECT_EQ(together.to_vector<double>(), apart.to_vector<double>());
}

TEST(DropoutAdd, T45_BitsOfDropoutAndAdd) {
  for (DType dtype : kFloats) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{7, 129}, Shape{300, 257}})
      for (double p : {0.0, 0.1, 0.5, 1.0})
        expect_same_bits(randn(shape, {.dtype = dtype}), randn(shape, {.dtype = dtype}), p);
    const Variable x = randn({4, 6}, {.dtype = dtype});
    expect_same_bits(transpose(x, 0, 1), randn({6, 4}, {.dtype = dtype}), 0.3);
    expect_same_bits(x, transpose(randn({6, 4}, {.dtype = dtype}), 0, 1), 0.3);
    expect_same_bits(x, randn({6}, {.dtype = dtype}), 0.3);
    expect_same_bits(x, randn({4, 6}, {.dtype = dtype == f64 ? f32 : f64}), 0.3);
    expect_same_bits(x, x, 0.3, /*training=*/false);
  }
}

TEST(DropoutAdd, Gradients) {
  const auto leaf = [] { return randn({5, 3}, {.dtype = f64, .requires_grad = true}); };
  const Variable x = leaf(), residual = leaf();
  const auto result = gradcheck(
      [](const std::vector<Variable>& in) {
        RandomGenerator generator(3);
        return dropout_add(in[0] * in[0] * in[0], in[1] * in[1], 0.4, true, generator);
      },
      {x, residual}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
  const Variable same = leaf();  // both operands are one variable
  dropout_add(same, same, 0.25).backward(ones({5, 3}, {.dtype = f64}));
  for (const double dy : same.grad().to_vector<double>())
    EXPECT_TRUE(dy == 1.0 || dy == 1 + 1 / 0.75) << dy;
}

TEST(DropoutAdd, Arguments) {
  EXPECT_THROW(dropout_add(ones({2}), ones({2}), -0.1), ArgumentError);
  EXPECT_THROW(dropout_add(ones({2}), ones({2}), NAN), ArgumentError);
  EXPECT_THROW(dropout_add(ones({2}), ones({3}), 0.5), ShapeError);
  EXPECT_THROW(dropout_add(ones({2}, {.dtype = i64}), ones({2}), 0.5), DTypeError);
}

}  // namespace
}  // namespace tapegrad
