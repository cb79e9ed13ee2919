// Convolution and pooling in one and three dimensions, transposed convolution and unpooling: exact
// values and errors. Numbers that are not computed by hand are PyTorch 1.13's.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/dispatch/dispatch_log.h"
#include "core/dispatch/implementations.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::leaf;
using testing::make;
using testing::values;

using Doubles = std::vector<double>;
Variable ramp(const Shape& shape) { return reshape(arange(1, 1 + numel(shape)).to(f64), shape); }

TEST(Conv1d, ExactAndRefused) {
  EXPECT_EQ(values(conv1d(ramp({1, 1, 4}), leaf({1, -1}, {1, 1, 2}), leaf({10}, {1}),
                          {.stride = 2, .padding = 1})),
            (Doubles{9, 9, 14}));
  EXPECT_THROW(conv1d(ramp({4}), ones({1, 1, 2}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(conv1d(ramp({1, 1, 2}), ones({1, 1, 3}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(conv3d(ramp({1, 1, 4, 4}), ones({1, 1, 2, 2, 2}, {.dtype = f64})), ShapeError);
}

// Float32 has kernels for volumes; float64 is composed of images.
TEST(Conv3d, KernelsAgreeWithImages) {
  struct Setting {
    Shape x, weight;
    Conv3dOptions options;
  };
  const Setting settings[] = {
      {{2, 1, 6, 8, 7}, {16, 1, 3, 3, 3}, {.padding = 1}},
      {{2, 16, 6, 8, 8}, {32, 16, 3, 3, 3}, {.padding = 1}},
      {{1, 16, 7, 9, 8}, {8, 16, 3, 3, 3}, {.stride = 2, .padding = 1}},
      {{2, 32, 5, 6, 6}, {16, 32, 1, 1, 1}, {}},
      {{2, 3, 6, 9, 9}, {5, 3, 2, 3, 2}, {.stride = {1, 2, 3}, .padding = {1, 0, 1}}},
      {{2, 8, 7, 8, 9}, {16, 4, 3, 3, 3}, {.padding = 2, .dilation = 2, .groups = 2}},
      {{2, 16, 5, 6, 7}, {16, 1, 3, 3, 3}, {.padding = 1, .groups = 16}},
      {{2, 17, 6, 8, 16}, {20, 17, 3, 3, 3}, {.padding = 1}},
      {{2, 3, 4, 9, 17}, {18, 3, 2, 3, 3}, {.padding = {2, 1, 1}, .dilation = {3, 1, 2}}},
      {{3, 20, 5, 7, 18}, {18, 20, 3, 5, 3}, {.stride = {2, 1, 1}, .padding = {1, 2, 0}}},
      {{2, 20, 6, 18, 33}, {36, 20, 3, 3, 3}, {.stride = {3, 2, 2}, .padding = 1}},
      {{2, 20, 5, 9, 14}, {20, 20, 2, 1, 3}, {.stride = {3, 1, 1}, .padding = {0, 0, 1}}},
      {{5, 12, 3, 6, 10}, {18, 6, 3, 3, 3}, {.padding = 1, .groups = 2}},
      {{2, 6, 4, 8, 17}, {27, 2, 3, 2, 3}, {.stride = 2, .padding = 1, .groups = 3}},
  };
  for (const auto& [x_shape, w_shape, options] : settings) {
    const auto run = [&](DType dtype, bool transposed) {
      manual_seed(1);
      const auto random = [&](const Shape& shape) {
        return rand(shape, {.dtype = f64}).to(dtype).detach().requires_grad_();
      };
      Variable x = random(x_shape), w = random(w_shape), b = random({w_shape[0]}), y;
      if (transposed)
        y = conv_transpose3d(conv3d(x, w, b, options), w, {},
                             {.stride = options.stride,
                              .padding = options.padding,
                              .groups = options.groups,
                              .dilation = options.dilation});
      else
        y = conv3d(x, w, b, options);
      const Variable dx = grad({sum(y.square())}, {x}, {.create_graph = true})[0];
      sum(dx.square()).backward();
      std::vector<Doubles> all;
      for (const Variable& each : std::vector<Variable>{y, dx, x.grad(), w.grad(), b.grad()})
        all.push_back(values(each));
      return all;
    };
    for (const bool transposed : {false, true}) {
      const auto got = run(f32, transposed), expected = run(f64, transposed);
      for (size_t i = 0; i < got.size(); ++i) {
        double largest = 0;
        for (double value : expected[i]) largest = std::max(largest, std::fabs(value));
        for (size_t k = 0; k < got[i].size(); ++k)
          ASSERT_NEAR(got[i][k], expected[i][k], 1e-5 * largest)
              << x_shape << ' ' << w_shape << ' ' << transposed << ' ' << i;
      }
    }
  }
}

TEST(Conv3d, ChannelsBetweenBlocksAreComputedAlongRows) {
  const int64_t threads = get_num_threads();
  std::vector<Doubles> first;
  for (const int count : {1, 2, 5}) {
    set_num_threads(count);
    manual_seed(1);
    const Variable x = randn({3, 17, 5, 9, 16}).requires_grad_();
    const Variable w = randn({20, 17, 3, 3, 3}).requires_grad_();
    DispatchLog log;
    const Variable y = conv3d(x, w, {}, {.padding = 1});
    sum(y.square()).backward();
    if (!only_fallbacks()) {
      EXPECT_EQ(log.calls("conv3d:small"), 1);
      EXPECT_GE(log.calls("conv3d_backward:small"), 1);
    }
    const std::vector all{values(y), values(x.grad()), values(w.grad())};
    if (first.empty() || only_fallbacks()) first = all;
    EXPECT_EQ(all, first) << count;
  }
  set_num_threads(threads);
}

TEST(Conv3d, FrozenWeights) {
  const Variable x = rand({1, 4, 3, 4, 4}), w = rand({8, 4, 2, 2, 2});
  Variable bias = zeros({8}).requires_grad_();
  sum(conv3d(x, w, bias)).backward();
  EXPECT_EQ(values(bias.grad()), Doubles(8, 2 * 3 * 3));
  EXPECT_THROW(conv3d(x, w, bias.to(f64)), DTypeError);
  EXPECT_THROW(conv3d(x, w, zeros({7})), ShapeError);
  EXPECT_THROW(conv3d(x, w, bias, {.stride = 0}), ArgumentError);
  EXPECT_THROW(conv_transpose3d(x, w), ShapeError);
}

TEST(ConvTranspose, T27_OutputPadding) {
  const Variable x = ramp({1, 1, 4}), w = ones({1, 1, 2}, {.dtype = f64});
  EXPECT_EQ(values(conv_transpose1d(x, w, {}, {.stride = 2, .output_padding = 1})),
            (Doubles{1, 1, 2, 2, 3, 3, 4, 4, 0}));
  // An output padding larger than the stride, but smaller than the dilation.
  EXPECT_EQ(values(conv_transpose1d(x, w, {}, {.output_padding = 2, .dilation = 3})),
            (Doubles{1, 2, 3, 5, 2, 3, 4, 0, 0}));
  EXPECT_THROW(conv_transpose1d(x, w, {}, {.output_padding = 1}), ArgumentError);
  EXPECT_THROW(conv_transpose1d(x, w, {}, {.output_padding = -1}), ArgumentError);
  EXPECT_THROW(conv_transpose1d(x, w, {}, {.padding = 3}), ShapeError);
  EXPECT_THROW(conv_transpose2d(ramp({1, 2, 2, 2}), ramp({3, 1, 2, 2})), ShapeError);
  EXPECT_THROW(conv_transpose2d(ramp({1, 2, 2, 2}), ramp({2, 1, 2, 2}), ramp({2})), ShapeError);
  EXPECT_THROW(conv_transpose3d(ramp({1, 2, 2, 2, 2}), ramp({2, 2, 2, 2, 2}), ramp({2}),
                                {.groups = std::numeric_limits<int64_t>::max()}),
               ArgumentError);
  EXPECT_THROW(conv_transpose2d(ramp({1, 2, 2, 2}), ramp({2, 1, 2, 2}), {}, {.groups = 3}),
               ShapeError);
  EXPECT_THROW(
      conv_transpose3d(ramp({1, 1, 1, 2, 2}), ramp({1, 1, 1, 2, 2}), {}, {.padding = {1, 0, 0}}),
      ShapeError);
  EXPECT_THROW(conv_transpose3d(ramp({1, 1, 2, 2, 2}), ramp({1, 1, 1, 2, 2}), {},
                                {.output_padding = {1, 0, 0}}),
               ArgumentError);
}

// <conv(x), y> = <x, conv_transpose(y)>, exactly for whole numbers.
TEST(ConvTranspose, T27_IsTheAdjoint) {
  const auto inner = [](const Variable& a, const Variable& b) {
    double sum = 0;
    const Doubles x = values(a), y = values(b);
    for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    return sum;
  };
  const Variable x = ramp({2, 4, 5, 7}), w = ramp({6, 2, 3, 2});
  const Variable y = conv2d(x, w, {}, {.stride = {2, 3}, .padding = {1, 0}, .groups = 2});
  const Variable seed = fmod(ramp(y.shape()), 7);
  EXPECT_EQ(
      inner(y, seed),
      inner(x, conv_transpose2d(
                   seed, w, {},
                   {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {0, 2}, .groups = 2})));
}

TEST(Pool, T30_IndicesAreOfTheFirst) {
  const Variable x = leaf({3, 1, 3, 2, 5, 5}, {1, 1, 6});
  const ValuesIndices y = max_pool1d_with_indices(x, {.kernel_size = 3, .stride = 2});
  EXPECT_EQ(values(y.values), (Doubles{3, 5}));
  EXPECT_EQ(y.indices.dtype(), i64);
  EXPECT_EQ(values(y.indices), (Doubles{0, 4}));
  const Variable falling = reshape(15 - arange(16).to(f64), {1, 1, 2, 2, 4});
  const ValuesIndices z = max_pool3d_with_indices(falling, {.kernel_size = {2, 1, 2}});
  EXPECT_EQ(values(z.values), (Doubles{15, 13, 11, 9}));
  EXPECT_EQ(values(z.indices), (Doubles{0, 2, 4, 6}));
  const ValuesIndices rising =
      max_pool3d_with_indices(ramp({1, 2, 2, 2, 4}), {.kernel_size = {2, 1, 2}});
  EXPECT_EQ(values(rising.indices), (Doubles{9, 11, 13, 15, 9, 11, 13, 15}));
  const ValuesIndices equal = max_pool3d_with_indices(ones({1, 1, 2, 2, 2}), {.kernel_size = 2});
  EXPECT_EQ(values(equal.indices), (Doubles{0}));
}

TEST(Pool, UnpoolPutsMaximaBack) {
  const Variable x = ramp({1, 2, 4, 6});
  const ValuesIndices y = max_pool2d_with_indices(x, {.kernel_size = 2});
  const Variable back = max_unpool2d(y.values, y.indices, {.kernel_size = 2});
  EXPECT_EQ(back.shape(), x.shape());
  const Doubles from = values(x), to = values(back);
  for (int64_t i = 0; i < 48; ++i)
    EXPECT_EQ(to[size_t(i)], i / 6 % 2 == 1 && i % 2 == 1 ? from[size_t(i)] : 0) << i;
  EXPECT_EQ(
      max_unpool2d(y.values, y.indices, {.kernel_size = 2, .output_size = Size2d(5, 6)}).shape(),
      (Shape{1, 2, 5, 6}));
}

TEST(Pool, OfSeveralAtOnePositionTheLastStays) {
  const Variable x = leaf({1, 2, 3}, {1, 1, 3});
  const Variable y = max_unpool1d(x, tensor({4, 0, 4}, {1, 1, 3}), {.kernel_size = 2});
  EXPECT_EQ(values(y), (Doubles{2, 0, 0, 0, 3, 0}));
  y.backward(ramp({1, 1, 6}));
  EXPECT_EQ(values(x.grad()), (Doubles{0, 1, 5}));
  EXPECT_THROW(max_unpool1d(x, tensor({0, 6, 1}, {1, 1, 3}), {.kernel_size = 2}), IndexError);
  EXPECT_THROW(max_unpool1d(x, tensor({0, -1, 1}, {1, 1, 3}), {.kernel_size = 2}), IndexError);
  EXPECT_THROW(max_unpool1d(x, tensor({0, 1}, {1, 1, 2}), {.kernel_size = 2}), ShapeError);
  EXPECT_THROW(max_unpool1d(x, x, {.kernel_size = 2}), DTypeError);
}

TEST(Pool, LpKeepsSigns) {
  const Variable x = leaf({1, -2, 3, -4}, {1, 1, 4});
  EXPECT_EQ(values(lp_pool1d(x, {.norm_type = 1, .kernel_size = 2})), (Doubles{-1, -1}));
  EXPECT_NEAR(values(lp_pool1d(x, {.norm_type = 2, .kernel_size = 2}))[1], 5, 1e-15);
  EXPECT_THROW(lp_pool1d(x, {.norm_type = 0, .kernel_size = 2}), ArgumentError);
}

// Without indices, maxima of two or three neighbours have a loop of their own.
TEST(Pool, NarrowWindowsAgreeWithIndices) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t size : {3, 8, 67})
    for (int64_t kernel : {2, 3})
      for (int64_t stride : {1, 2, 3})
        for (int64_t padding : {0, 1}) {
          Doubles numbers;
          for (int64_t i = 0; i < 4 * size; ++i)
            numbers.push_back(i % 23 == 7 ? nan : double(i * 31 % 17) - 8);
          const Variable x = make(numbers, {2, 2, size}).to(f32);
          const MaxPool1dOptions o{.kernel_size = kernel, .stride = stride, .padding = padding};
          const Doubles got = values(max_pool1d(x, o)),
                        expected = values(max_pool1d_with_indices(x, o).values);
          ASSERT_EQ(got.size(), expected.size());
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])))
                << size << ' ' << kernel << ' ' << stride << ' ' << padding << ' ' << i;
        }
}

TEST(Pool, RefusesOtherRanks) {
  const Variable images = ones({1, 1, 4, 4});
  EXPECT_THROW(max_pool1d(images, {.kernel_size = 2}), ShapeError);
  EXPECT_THROW(max_pool3d(images, {.kernel_size = 2}), ShapeError);
  EXPECT_THROW(avg_pool3d(images, {.kernel_size = 2}), ShapeError);
  EXPECT_THROW(adaptive_max_pool1d(images, 2), ShapeError);
  EXPECT_THROW(adaptive_max_pool2d(images, {0, 1}), ArgumentError);
  EXPECT_THROW(adaptive_avg_pool3d(ones({1, 1, 2, 2, 2}), {0, 1, 1}), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
