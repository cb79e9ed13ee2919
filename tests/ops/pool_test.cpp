#include "ops/pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Variable image(const std::vector<float>& values, int64_t height, int64_t width) {
  return Variable(Tensor::from<float>(values, {1, 1, height, width}));
}

Variable counted(const Shape& shape, DType dtype = f32) {
  std::vector<double> values;
  for (int64_t i = 0; i < numel(shape); ++i) values.push_back(double(i * 7919 % 101) - 50);
  return Variable(Tensor::from<double>(values, shape).to(dtype));
}

/// Returns the gradient of the sum of the maxima with weights 1, 2, 3, ...
std::vector<float> weighted_gradient(Variable x, MaxPool2dOptions options) {
  x.requires_grad_();
  const Variable y = max_pool2d(x, options);
  std::vector<float> weights;
  for (int64_t i = 0; i < y.numel(); ++i) weights.push_back(float(i + 1));
  y.backward(Variable(Tensor::from<float>(weights, y.shape())));
  return x.grad().to_vector<float>();
}

TEST(MaxPool, T30_TheFirstOfEqualMaximaTakesTheGradient) {
  // Tests both code paths: 2 x 2 windows side by side, and general windows.
  EXPECT_EQ(weighted_gradient(image({5, 5, 1, 2, 5, 5, 2, 2}, 2, 4), {.kernel_size = 2}),
            (std::vector<float>{1, 0, 0, 2, 0, 0, 0, 0}));
  EXPECT_EQ(weighted_gradient(image({5, 5, 5, 5}, 2, 2), {.kernel_size = 2, .stride = 1}),
            (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(
      weighted_gradient(image({3, 3, 3, 3, 3, 3, 3, 3, 3}, 3, 3), {.kernel_size = 2, .stride = 1}),
      (std::vector<float>{1, 2, 0, 3, 4, 0, 0, 0, 0}));
}

TEST(MaxPool, T30_OverlappingWindowsAddUp) {
  EXPECT_EQ(
      weighted_gradient(image({0, 0, 0, 0, 9, 0, 0, 0, 0}, 3, 3), {.kernel_size = 2, .stride = 1}),
      (std::vector<float>{0, 0, 0, 0, 10, 0, 0, 0, 0}));
}

TEST(MaxPool, T28_NanPropagatesAndTheFirstTakesTheGradient) {
  for (int64_t stride : {2, 1}) {
    const MaxPool2dOptions o{.kernel_size = 2, .stride = stride};
    for (int at = 0; at < 4; ++at) {
      std::vector<float> values{1, kInf, 3, -4};
      values[size_t(at)] = kNan;
      EXPECT_TRUE(std::isnan(max_pool2d(image(values, 2, 2), o).item())) << at;
      std::vector<float> expected(4, 0.0f);
      expected[size_t(at)] = 1;
      EXPECT_EQ(weighted_gradient(image(values, 2, 2), o), expected) << at;
    }
    EXPECT_EQ(weighted_gradient(image({1, kNan, kNan, 2}, 2, 2), o),
              (std::vector<float>{0, 1, 0, 0}));
  }
}

TEST(MaxPool, MinusInfinityIsAnElementLikeAnyOther) {
  const auto lowest = [] { return image(std::vector<float>(4, -kInf), 2, 2); };
  EXPECT_EQ(max_pool2d(lowest(), {.kernel_size = 2}).item(), -double(kInf));
  EXPECT_EQ(weighted_gradient(lowest(), {.kernel_size = 2}), (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(weighted_gradient(lowest(), {.kernel_size = 2, .stride = 1, .padding = 1})[0],
            1 + 2 + 4 + 5);
}

TEST(MaxPool, AWindowInThePaddingAloneIsMinusInfinityWithoutGradient) {
  // Windows over rows -1 and 2 of an image of 2 rows.
  const MaxPool2dOptions o{.kernel_size = 2, .stride = 1, .padding = 1, .dilation = 3};
  Variable x = image({1, 2, 3, 4}, 2, 2);
  EXPECT_EQ(max_pool2d(x, o).item(), -double(kInf));
  EXPECT_EQ(weighted_gradient(x, o), std::vector<float>(4, 0.0f));
}

TEST(MaxPool, VectorPathAgreesWithTheGeneralOne) {
  // 2 x 2 windows with stride 2; and the same windows by padding the image and removing the outer
  // results.
  for (const Shape& shape : {Shape{3, 5, 24, 24}, Shape{2, 3, 37, 51}, Shape{1, 1, 2, 3}})
    for (DType dtype : {f32, f64, bf16}) {
      Variable x = counted(shape, dtype), z = counted(shape, dtype);
      x.requires_grad_(), z.requires_grad_();
      const Variable fast = max_pool2d(x, {.kernel_size = 2});
      const Variable all = max_pool2d(z, {.kernel_size = 2, .stride = 1});
      const Variable slow = slice(slice(all, 2, 0, kEnd, 2), 3, 0, kEnd, 2);
      ASSERT_EQ(fast.shape(), slow.shape());
      EXPECT_EQ(fast.to_vector<float>(), slow.to_vector<float>());
      sum(fast * fast).backward();
      sum(slow * slow).backward();
      EXPECT_EQ(x.grad().to_vector<float>(), z.grad().to_vector<float>());
      const NoGrad off;
      EXPECT_EQ(max_pool2d(x, {.kernel_size = 2}).to_vector<float>(), fast.to_vector<float>());
    }
}

// Rows by vectors: windows that overlap or follow one another, with NaN and infinities among the
// elements, against the maxima of slices.
TEST(MaxPool, WindowsOfOneRow) {
  manual_seed(4);
  for (const DType dtype : {f32, f64})
    for (const int64_t length : {2, 3, 7, 16, 33, 70, 131}) {
      Variable x = randn({3, 2, length}, {.dtype = dtype});
      x[0][1][length / 2] = std::numeric_limits<double>::quiet_NaN();
      x[2][0][1] = -std::numeric_limits<double>::infinity();
      const auto from = x.to_vector<double>();
      for (const auto& [kernel, stride, padding] :
           {std::array<int64_t, 3>{2, 2, 0}, {2, 1, 0}, {3, 1, 1}, {2, 1, 1}}) {
        const Variable y =
            max_pool1d(x, {.kernel_size = kernel, .stride = stride, .padding = padding});
        const auto got = y.to_vector<double>();
        const int64_t windows = y.size(2);
        for (int64_t i = 0; i < int64_t(got.size()); ++i) {
          double expected = -std::numeric_limits<double>::infinity();
          for (int64_t k = 0; k < kernel; ++k)
            if (const int64_t j = i % windows * stride - padding + k; j >= 0 && j < length)
              if (const double value = from[size_t(i / windows * length + j)];
                  value > expected || std::isnan(value))
                expected = value;
          if (std::isnan(expected))
            EXPECT_TRUE(std::isnan(got[size_t(i)])) << length << ' ' << kernel << ' ' << i;
          else
            EXPECT_EQ(got[size_t(i)], expected) << length << ' ' << kernel << ' ' << i;
        }
      }
    }
}

// Windows of many elements, compared in vectors: the results and positions of float32 are those of
// float64, which the general kernel computes. Equal elements, NaN and infinities included.
TEST(MaxPool, WideWindows) {
  manual_seed(5);
  const double inf = std::numeric_limits<double>::infinity();
  Variable x = (randn({2, 3, 18, 21}) * 2).round();
  x[0][1][4][5] = std::numeric_limits<double>::quiet_NaN();
  x[0][1][16][20] = std::numeric_limits<double>::quiet_NaN();
  x[1][0] = -inf;
  x[1][1][3][3] = inf;
  const Variable wide = x.to(f64);
  const auto expect_same = [](const ValuesIndices& a, const ValuesIndices& b) {
    EXPECT_TRUE(a.values.to(f64).isclose(b.values, 0, 0, /*equal_nan=*/true).all().item() != 0);
    EXPECT_TRUE(a.indices.equal(b.indices));
  };
  for (const MaxPool2dOptions& o :
       {MaxPool2dOptions{.kernel_size = {18, 21}},
        {.kernel_size = {2, 21}},
        {.kernel_size = 9},
        {.kernel_size = {5, 8}, .stride = 3, .padding = {2, 4}, .ceil_mode = true},
        {.kernel_size = {18, 10}, .stride = 10, .padding = {9, 5}}})
    expect_same(max_pool2d_with_indices(x, o), max_pool2d_with_indices(wide, o));
  for (const Size2d& size : {Size2d(1), Size2d(2, 1), Size2d(2)})
    expect_same(adaptive_max_pool2d_with_indices(x, size),
                adaptive_max_pool2d_with_indices(wide, size));
}

// Average windows that tile the image, whose gradients are written instead of added.
TEST(AvgPool, GradientsOfTiles) {
  for (const Size2d& kernel : {Size2d(6, 8), Size2d(2), Size2d(3, 8), Size2d(6, 1), Size2d(1, 2)}) {
    Variable x = counted({2, 3, 6, 8}), z = counted({2, 3, 6, 8});
    x.requires_grad_(), z.requires_grad_();
    const Variable y = avg_pool2d(x, {.kernel_size = kernel});
    // A padding moves the windows, so that they do not tile the image; the extra ones are cut off.
    const Variable all =
        avg_pool2d(pad(z, {kernel.width, kernel.width, kernel.height, kernel.height}),
                   {.kernel_size = kernel});
    const Variable same = narrow(narrow(all, 2, 1, y.size(2)), 3, 1, y.size(3));
    ASSERT_TRUE(y.allclose(same));
    sum(y * y).backward();
    sum(same * same).backward();
    EXPECT_TRUE(x.grad().allclose(z.grad()));
  }
}

TEST(MaxPool, ThirdOrder) {
  Variable x = counted({1, 2, 4, 4}, f64);
  x.requires_grad_();
  const auto result = gradcheck(
      [](const auto& in) {
        const Variable y = max_pool2d(in[0], {.kernel_size = 3, .stride = 1, .padding = 1});
        return grad(sum(y * y * y), in[0], {.create_graph = true});
      },
      {x}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

TEST(AvgPool, DividesByWhatItCounts) {
  const Variable x = image({1, 2, 3, 4}, 2, 2);
  const AvgPool2dOptions padded{.kernel_size = 2, .stride = 2, .padding = 1};
  EXPECT_EQ(avg_pool2d(x, padded).to_vector<float>(), (std::vector<float>{0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(avg_pool2d(x, {.kernel_size = 2, .stride = 2, .padding = 1, .count_include_pad = false})
                .to_vector<float>(),
            (std::vector<float>{1, 2, 3, 4}));
  // In ceil_mode the last window divides by its size inside the padded image, not by the kernel's
  // size.
  EXPECT_EQ(avg_pool2d(image({1, 2, 4}, 1, 3), {.kernel_size = {1, 2}, .ceil_mode = true})
                .to_vector<float>(),
            (std::vector<float>{1.5, 4}));
}

TEST(Pool, CeilModeNeverBeginsAWindowInThePaddingBehind) {
  const Variable x = counted({1, 1, 4, 4});
  EXPECT_EQ(max_pool2d(x, {.kernel_size = 3, .stride = 2}).shape(), (Shape{1, 1, 1, 1}));
  EXPECT_EQ(max_pool2d(x, {.kernel_size = 3, .stride = 2, .ceil_mode = true}).shape(),
            (Shape{1, 1, 2, 2}));
  EXPECT_EQ(max_pool2d(x, {.kernel_size = 2, .stride = 3, .padding = 1, .ceil_mode = true}).shape(),
            (Shape{1, 1, 2, 2}));
  EXPECT_EQ(
      max_pool2d(counted({1, 1, 2, 2}), {.kernel_size = 3, .stride = 2, .ceil_mode = true}).shape(),
      (Shape{1, 1, 1, 1}));
}

TEST(AdaptiveAvgPool, OneIsTheMeanAndTheSizeItselfTheIdentity) {
  const Variable x = counted({2, 3, 5, 7});
  const auto all = adaptive_avg_pool2d(x, 1).to_vector<float>();
  const auto means = mean(x, {2, 3}).to_vector<float>();
  for (size_t i = 0; i < all.size(); ++i) EXPECT_FLOAT_EQ(all[i], means[i]);
  EXPECT_EQ(adaptive_avg_pool2d(x, {5, 7}).to_vector<float>(), x.to_vector<float>());
}

TEST(Pool, T03_BatchOfNothing) {
  Variable x = counted({0, 3, 4, 4});
  x.requires_grad_();
  EXPECT_EQ(max_pool2d(x, {.kernel_size = 2}).shape(), (Shape{0, 3, 2, 2}));
  sum(avg_pool2d(x, {.kernel_size = 2})).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
  const int64_t most = (int64_t(1) << 31) - 1;
  for (auto pool : {adaptive_max_pool2d, adaptive_avg_pool2d}) {
    EXPECT_EQ(pool(x, {1, most}, Where::current()).shape(), (Shape{0, 3, 1, most}));
    EXPECT_THROW(pool(x, {1, most + 1}, Where::current()), ArgumentError);
  }
}

TEST(Pool, ErrorsNameTheOpAndTheSizes) {
  const Variable x = counted({1, 2, 4, 4});
  try {
    max_pool2d(x, {.kernel_size = 3, .padding = 2});
    FAIL() << "a padding of more than half the kernel";
  } catch (const ShapeError&) {
    FAIL() << "an argument, not a shape, is wrong";
  } catch (const ArgumentError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("max_pool2d: ", 0), 0u) << text;
    EXPECT_NE(text.find("(2, 2)"), text.npos) << text;
  }
  EXPECT_THROW(max_pool2d(x, {.kernel_size = 5}), ShapeError);
  EXPECT_THROW(max_pool2d(x, {.kernel_size = 3, .dilation = 2}), ShapeError);
  EXPECT_THROW(max_pool2d(x, {.kernel_size = 0}), ArgumentError);
  EXPECT_THROW(max_pool2d(x, {.kernel_size = 2, .stride = 0}), ArgumentError);
  EXPECT_THROW(max_pool2d(counted({4, 4}), {.kernel_size = 2}), ShapeError);
  EXPECT_THROW(max_pool2d(counted({1, 2, 0, 4}), {.kernel_size = 2, .padding = 1}), ShapeError);
  EXPECT_THROW(avg_pool2d(x, {.kernel_size = 2, .padding = 2}), ArgumentError);
  EXPECT_THROW(avg_pool2d(x, {.kernel_size = 5}), ShapeError);
  EXPECT_THROW(adaptive_avg_pool2d(x, {0, 2}), ArgumentError);
  EXPECT_THROW(adaptive_avg_pool2d(counted({4, 4}), 2), ShapeError);
}

}  // namespace
}  // namespace tapegrad
