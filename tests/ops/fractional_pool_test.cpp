// Fractional max pooling. The expected numbers are those of torch.nn.functional (PyTorch 2.15, in
// float64) with the same random numbers.
#include "ops/pool_composed.h"

#include <cmath>

#include <gtest/gtest.h>

#include "nn/fractional_pool.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/error_message.h"

namespace tapegrad {
namespace {

using testing::expect_error;

/// sin(0.7 (i + shift)) for the element i.
Variable wave(const Shape& shape, double shift) {
  const Variable x = arange(ones(shape).numel(), {.dtype = f64});
  return reshape(sin(0.7 * (x + shift)), shape);
}

Variable samples() {
  return tensor({{{0.1, 0.9}, {0.5, 0.5}, {0.99, 0.0}}, {{0.3, 0.7}, {0.62, 0.11}, {0.0, 0.45}}},
                {.dtype = f64});
}

TEST(FractionalMaxPool, HasTheWindowsOfPyTorch) {
  const Shape shape{2, 3, 7, 9};
  const Variable x = (wave(shape, 0) * wave(shape, 5)).requires_grad_();
  const nn::FractionalMaxPool2d pool(
      {.kernel_size = {2, 3}, .output_size = {4, 5}, ._random_samples = samples()});
  const auto [y, places] = pool.forward_with_indices(x);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4, 5}));
  EXPECT_NEAR(sum(y).item(), -13.78333255161945, 1e-12);
  EXPECT_EQ(places.to_vector<int64_t>(),
            (std::vector<int64_t>{
                0, 12, 13, 13, 17, 18, 30, 31, 31, 35, 27, 39, 40, 40, 44, 45, 57, 58, 58, 62,
                0, 13, 13, 5,  17, 18, 31, 31, 23, 35, 36, 40, 40, 41, 53, 45, 49, 49, 50, 62,
                0, 12, 4,  4,  17, 9,  21, 13, 13, 26, 27, 39, 31, 31, 44, 45, 57, 49, 49, 62,
                0, 12, 4,  4,  17, 9,  21, 13, 13, 26, 27, 39, 31, 31, 44, 45, 57, 49, 49, 62,
                0, 4,  4,  16, 17, 9,  13, 13, 25, 26, 27, 39, 39, 43, 35, 45, 57, 57, 61, 53,
                0, 12, 12, 4,  8,  18, 30, 30, 22, 26, 36, 48, 48, 40, 44, 45, 57, 57, 49, 53}));
  sum(y * wave(y.shape(), 9)).backward();
  const Variable numbers = reshape(arange(x.numel(), {.dtype = f64}), shape);
  EXPECT_NEAR(sum(x.grad() * numbers).item(), 210.162192167493, 1e-9);
}

TEST(FractionalMaxPool, PoolsVolumes) {
  const Shape shape{1, 2, 5, 6, 7};
  const auto [y, places] = fractional_max_pool3d_with_indices(
      wave(shape, 0) * wave(shape, 5),
      {.kernel_size = {2, 3, 2},
       .output_ratio = {0.5, 0.5, 0.6},
       ._random_samples = tensor({{{0.1, 0.9, 0.4}, {0.5, 0.25, 0.8}}}, {.dtype = f64})});
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2, 3, 4}));
  EXPECT_NEAR(sum(y).item(), 0.9107217788536903, 1e-12);
  EXPECT_EQ(places.to_vector<int64_t>(),
            (std::vector<int64_t>{49,  58,  4,   13,  49,  58,  67,  13,  22,  31,  67,  76,
                                  175, 184, 130, 139, 148, 184, 179, 139, 148, 157, 166, 166,
                                  50,  59,  59,  5,   50,  59,  59,  68,  77,  23,  32,  68,
                                  140, 171, 171, 131, 189, 149, 144, 180, 189, 198, 207, 167}));
}

TEST(FractionalMaxPool, TakesAnInputWithoutBatch) {
  const Shape shape{2, 3, 7, 9};
  const Variable x = (wave(shape, 0) * wave(shape, 5))[0];
  const auto [y, places] = fractional_max_pool2d_with_indices(
      x, {.kernel_size = 3, .output_size = 1, ._random_samples = samples().slice(0, 0, 1)});
  EXPECT_EQ(y.shape(), (Shape{3, 1, 1}));
  EXPECT_NEAR(y[0].item(), -0.12210076660317877, 1e-15);
  EXPECT_EQ(places.to_vector<int64_t>(), (std::vector<int64_t>{62, 62, 62}));
}

TEST(FractionalMaxPool, DrawsWindows) {
  const Variable x = rand({2, 3, 12, 12});
  const nn::FractionalMaxPool2d pool(2, {.output_ratio = 0.7});
  manual_seed(1);
  const Variable first = pool(x), second = pool(x);
  EXPECT_EQ(first.shape(), (Shape{2, 3, 8, 8}));
  EXPECT_FALSE(first.equal(second));
  manual_seed(1);
  EXPECT_TRUE(pool(x).equal(first));
  const Variable nan = tensor({{{{1.0, NAN}, {2.0, 3.0}}}});
  EXPECT_TRUE(std::isnan(fractional_max_pool2d(nan, 2, {.output_size = 1}).item()));
}

TEST(FractionalMaxPool, RefusesSizes) {
  const Variable x = ones({1, 2, 6, 6});
  expect_error<ShapeError>("5 windows of 3 do not fit in dimension 2 of [1, 2, 6, 6]",
                           [&] { fractional_max_pool2d(x, 3, {.output_size = 5}); });
  expect_error<ArgumentError>("give either .output_size or .output_ratio",
                              [&] { fractional_max_pool2d(x, {.kernel_size = 2}); });
  expect_error<ArgumentError>("give either .output_size or .output_ratio", [&] {
    fractional_max_pool2d(x, {.kernel_size = 2, .output_size = 3, .output_ratio = 0.5});
  });
  expect_error<ArgumentError>(".output_ratio is 1, not in (0, 1)",
                              [&] { fractional_max_pool2d(x, 2, {.output_ratio = 1.0}); });
  expect_error<ShapeError>("_random_samples is [1, 2], not [1, 2, 2]", [&] {
    fractional_max_pool2d(x, {.kernel_size = 2, .output_size = 3, ._random_samples = ones({1, 2})});
  });
  expect_error<ShapeError>("fractional_pool_test.cpp", [] {
    nn::FractionalMaxPool3d(2, 2)(ones({2, 2}));
  });
  expect_error<ArgumentError>("FractionalMaxPool2d", [] { nn::FractionalMaxPool2d(0, 2); });
}

}  // namespace
}  // namespace tapegrad
