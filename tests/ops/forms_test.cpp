// Further forms of ops (ops/forms.cpp, ops/*_positional.h): gradients and equivalent calls.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Variable drawn(const Shape& shape) { return randn(shape, {.dtype = f64}); }
void expect_equal(const Variable& a, const Variable& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_TRUE(equal(a, b)) << a << "\n" << b;
}

TEST(Forms, ClampWithTensors) {
  const Variable x = tensor({-1.0, 0.5, 2.0, kNan}).requires_grad_();
  const Variable low = tensor({0.0, 0.0, 3.0, 0.0}).requires_grad_();
  const Variable high = tensor({1.0, 1.0, 1.0, 1.0}).requires_grad_();
  const Variable y = clamp(x, low, high);
  EXPECT_EQ(to_string(y), "[ 0., 0.5,  1., nan]");
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 1, 0, 1}));
  EXPECT_EQ(low.grad().to_vector<double>(), (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(high.grad().to_vector<double>(), (std::vector<double>{0, 0, 1, 0}));
  EXPECT_TRUE(std::isnan(clamp(tensor({1.0}), tensor({kNan}), 2)[0].item()));
}

TEST(Forms, MaskedFillWithATensor) {
  const Variable x = drawn({2, 3}).requires_grad_(), mask = gt(x, 0);
  const Variable value = tensor(4.0, f64).requires_grad_();
  expect_equal(masked_fill(x, mask, value), masked_fill(x, mask, 4));
  sum(masked_fill(x, mask, value)).backward();
  EXPECT_EQ(value.grad().item(), sum(mask).item());
  EXPECT_THROW(masked_fill(x, mask, ones(2)), ShapeError);
  expect_equal(masked_fill(ones(3), zeros({2, 3}, boolean), 0), ones({2, 3}));
}

TEST(Forms, AlphaAndRounding) {
  const Variable a = tensor({7, -7}), b = tensor({2, 2});
  expect_equal(add(a, b, 3), tensor({13, -1}));
  expect_equal(sub(a, b, 3), tensor({1, -13}));
  expect_equal(div(a, b, "trunc"), tensor({3, -3}));
  expect_equal(div(a, b, "floor"), tensor({3, -4}));
  expect_equal(div(tensor({7.0, -7.0}), 2, "trunc"), tensor({3.0, -3.0}));
  EXPECT_THROW(div(a, b, "round"), ArgumentError);
  EXPECT_THROW(div(a, 0, "trunc"), ArgumentError);
}

TEST(Forms, PaddingByName) {
  const Variable x = drawn({2, 3, 7, 6}), w = drawn({4, 3, 3, 4}), b = drawn({4});
  expect_equal(conv2d(x, w, b, 1, "valid"), conv2d(x, w, b));
  expect_equal(conv2d(x, w, b, 1, "same"), conv2d(pad(x, {1, 2, 1, 1}), w, b));
  EXPECT_EQ(conv2d(x, w, b, 1, "same", {2, 3}).shape(), (Shape{2, 4, 7, 6}));
  EXPECT_EQ(conv1d(drawn({3, 9}), drawn({2, 3, 4}), {}, 1, "same").shape(), (Shape{2, 9}));
  EXPECT_THROW(conv2d(x, w, b, 2, "same"), ArgumentError);
  EXPECT_THROW(conv2d(x, w, b, 1, "full"), ArgumentError);
}

TEST(Forms, WithoutABatch) {
  const Variable x = drawn({3, 6, 4}), one = unsqueeze(x, 0);
  const Variable w = drawn({4, 3, 3, 2}), back = drawn({3, 4, 2, 2});
  expect_equal(conv2d(x, w), squeeze(conv2d(one, w), 0));
  expect_equal(conv_transpose2d(x, back, {}, 2), squeeze(conv_transpose2d(one, back, {}, 2), 0));
  expect_equal(max_pool2d(x, 2), squeeze(max_pool2d(one, 2), 0));
  expect_equal(avg_pool2d(x, 2, 1), squeeze(avg_pool2d(one, 2, 1), 0));
  expect_equal(lp_pool2d(abs(x), 2, 2), squeeze(lp_pool2d(abs(one), 2, 2), 0));
  expect_equal(adaptive_avg_pool2d(x, 2), squeeze(adaptive_avg_pool2d(one, 2), 0));
  const auto [values, indices] = max_pool2d_with_indices(x, 2);
  expect_equal(max_unpool2d(values, indices, 2)[0].sum(), values[0].sum());
  const Variable volume = drawn({2, 4, 4, 4});
  EXPECT_EQ(max_pool3d(volume, 2).shape(), (Shape{2, 2, 2, 2}));
  EXPECT_EQ(conv3d(volume, drawn({3, 2, 2, 2, 2})).shape(), (Shape{3, 3, 3, 3}));
  EXPECT_EQ(avg_pool1d(drawn({3, 8}), 2).shape(), (Shape{3, 4}));
  EXPECT_TRUE(gradcheck([&](const std::vector<Variable>& in) { return conv2d(in[0], w); },
                        {drawn({3, 4, 4}).requires_grad_()}));
}

TEST(Forms, SizesLeftOut) {
  const Variable x = drawn({1, 2, 5, 6});
  expect_equal(adaptive_avg_pool2d(x, {-1, 3}), adaptive_avg_pool2d(x, {5, 3}));
  expect_equal(adaptive_max_pool2d(x, {2, -1}), adaptive_max_pool2d(x, {2, 6}));
  const Variable v = drawn({1, 2, 3, 4, 5});
  expect_equal(adaptive_avg_pool3d(v, {-1, 2, -1}), adaptive_avg_pool3d(v, {3, 2, 5}));
  const auto [values, indices] = adaptive_max_pool3d_with_indices(v, {2, -1, 2});
  expect_equal(gather(flatten(v, 2), 2, flatten(indices, 2)), flatten(values, 2));
}

TEST(Forms, ADimensionOfAScalar) {
  const Variable x = tensor(3.0, f64).requires_grad_();
  for (const int dim : {0, -1}) {
    expect_equal(sum(x, dim), x);
    expect_equal(mean(x, dim), x);
    expect_equal(cumsum(x, dim), x);
    expect_equal(cumprod(x, dim), x);
    expect_equal(prod(x, dim), x);
    expect_equal(softmax(x, dim), ones({}, f64));
    expect_equal(max(x, dim).values, x);
    expect_equal(argmax(x, dim), zeros({}, i64));
    expect_equal(cummax(x, dim).indices, zeros({}, i64));
  }
  EXPECT_THROW(sum(x, 1), IndexError);
  EXPECT_THROW(softmax(x, 1), IndexError);
  EXPECT_TRUE(gradcheck([](const std::vector<Variable>& in) { return cumprod(in[0], 0); }, {x}));
}

TEST(Forms, NamesOfReductions) {
  const Variable x = abs(drawn({2, 3})), y = abs(drawn({2, 3}));
  expect_equal(mse_loss(x, y, "sum"), mse_loss(x, y, Reduction::kSum));
  expect_equal(smooth_l1_loss(x, y, "mean", 0.5), smooth_l1_loss(x, y, 0.5));
  expect_equal(kl_div(log(x), y, "batchmean"), kl_div(log(x), y, false, Reduction::kSum) / 2);
  EXPECT_THROW(mse_loss(x, y, "average"), ArgumentError);
  EXPECT_THROW(kl_div(log(x), y, "average"), ArgumentError);
}

TEST(Forms, NestedLists) {
  EXPECT_EQ(tensor({{{1, 2}}, {{3, 4}}}).shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(tensor({{1.5f}, {2.5f}}).dtype(), f32);
  EXPECT_EQ(tensor({{1}}, {.dtype = f64, .requires_grad = true}).requires_grad(), true);
  EXPECT_THROW(tensor({{1, 2}, {3}}), ShapeError);
  EXPECT_THROW(tensor({{1, 2}, 3}), ShapeError);
  EXPECT_THROW(tensor({{300, 1}, {2, 3}}, {.dtype = u8}), ArgumentError);
}

TEST(Forms, WritesThroughAView) {
  Variable x = zeros({2, 3}, f64);
  x[0] = 1.0;
  x[1] = tensor({1.0, 2.0, 3.0});
  x[1][2] += 4;
  expect_equal(x, tensor({{1.0, 1.0, 1.0}, {1.0, 2.0, 7.0}}, f64));
  Variable leaf = ones(2).requires_grad_();
  EXPECT_THROW(leaf[0] = 2.0, AutogradError);
  Variable y = leaf * 2;
  y[0] = 0.0;
  sum(y).backward();
  expect_equal(leaf.grad(), tensor({0.0, 2.0}));
}

TEST(Forms, Repeats) {
  expect_equal(repeat_interleave(tensor({{1, 2}, {3, 4}}), tensor({2, 0}), 0),
               tensor({{1, 2}, {1, 2}}));
  EXPECT_THROW(repeat_interleave(ones(2), tensor({1, 2, 3}), 0), ShapeError);
  EXPECT_THROW(repeat_interleave(ones(2), tensor({1, -1}), 0), ArgumentError);
}

TEST(Forms, RoundsToDecimals) {
  expect_equal(round(tensor({1000.0, 1.25}, f16), 1), tensor({1000.0, 1.2001953125}, f16));
  expect_equal(round(tensor({1e36f, 1.5f}), 5), tensor({1e36f, 1.5f}));
  expect_equal(round(tensor({1.5, 17.0}, f64), 400), tensor({1.5, 17.0}, f64));
  expect_equal(round(tensor({15.0}, f64), -400), tensor({0.0}, f64));
  expect_equal(round(tensor({15.0, 1234.0}, f64), {.decimals = -1}), tensor({20.0, 1230.0}, f64));
}

TEST(Forms, OptionsThatHaveNoEffectAreErrors) {
  const Variable x = tensor({{1.0, 2.0}, {4.0, 3.0}});
  EXPECT_THROW(amax(x, {.dtype = f64}), ArgumentError);
  EXPECT_THROW(amin(x, {.dtype = f64}), ArgumentError);
  EXPECT_THROW(any(x, {.dtype = f64}), ArgumentError);
  EXPECT_THROW(all(x, {.dtype = f64}), ArgumentError);
  EXPECT_THROW(logsumexp(x, {.dim = {0}, .dtype = f64}), ArgumentError);
  EXPECT_EQ(sum(x, {.dtype = f64}).dtype(), f64);
}

}  // namespace
}  // namespace tapegrad
