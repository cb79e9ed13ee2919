// Resized and sampled images: exact values, errors and corner cases. Numbers that are not computed
// by hand are PyTorch 1.13's.
#include "ops/resample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/expect_near.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::expect_near;
using testing::leaf;
using testing::values;
using Doubles = std::vector<double>;

TEST(Interpolate, AreaIsTheMeanOfThePixels) {
  const Variable x = randn({2, 3, 7, 10}), line = randn({1, 2, 9}), volume = randn({1, 2, 4, 6, 5});
  const auto same = [](const Variable& a, const Variable& b) {
    EXPECT_EQ(a.shape(), b.shape());
    EXPECT_EQ(a.to_vector<double>(), b.to_vector<double>());
  };
  same(interpolate(x, {.size = {3, 4}, .mode = "area"}), adaptive_avg_pool2d(x, {3, 4}));
  same(interpolate(x, {.scale_factor = 0.5, .mode = "area"}), adaptive_avg_pool2d(x, {3, 5}));
  same(interpolate(line, {.size = 4, .mode = "area"}), adaptive_avg_pool1d(line, 4));
  same(interpolate(volume, {.size = {2, 3, 5}, .mode = "area"}),
       adaptive_avg_pool3d(volume, {2, 3, 5}));
  EXPECT_THROW(interpolate(x, {.size = 4, .mode = "area", .align_corners = true}), ArgumentError);
  EXPECT_THROW(grid_sample(x, zeros({2, 3, 4, 2}), {.mode = "area"}), ArgumentError);
}

TEST(Interpolate, Exact) {
  const Variable x = leaf({1, 2, 4}, {1, 1, 3});
  EXPECT_EQ(values(interpolate(x, {.size = {5}})), (Doubles{1, 1, 2, 2, 4}));
  EXPECT_EQ(values(interpolate(x, {.size = {5}, .mode = SampleMode::kNearestExact})),
            (Doubles{1, 1, 2, 4, 4}));
  EXPECT_EQ(
      values(interpolate(x, {.size = {5}, .mode = SampleMode::kLinear, .align_corners = true})),
      (Doubles{1, 1.5, 2, 3, 4}));
  EXPECT_EQ(values(interpolate(x, {.scale_factor = 2.0, .mode = SampleMode::kLinear})),
            (Doubles{1, 1.25, 1.75, 2.5, 3.5, 4}));
  EXPECT_EQ(interpolate(ones({1, 1, 3}), {.scale_factor = 1.7}).shape(), (Shape{1, 1, 5}));
  // A factor for each dimension, as in PyTorch.
  EXPECT_EQ(values(interpolate(reshape(x, {1, 1, 3, 1}),
                               {.scale_factor = {2.0, 1.0}, .mode = SampleMode::kLinear})),
            (Doubles{1, 1.25, 1.75, 2.5, 3.5, 4}));
}

TEST(Interpolate, AConstantStaysOne) {
  for (const auto mode : {SampleMode::kLinear, SampleMode::kCubic})
    for (const bool align : {false, true})
      expect_near(interpolate(full({1, 1, 3, 4}, 5.0, {.dtype = f64}),
                              {.size = {7, 2}, .mode = mode, .align_corners = align}),
                  Doubles(14, 5.0));
}

TEST(Interpolate, NearestCopiesPixels) {
  const Variable x = reshape(arange(-30, 30, {.dtype = f64}), {2, 3, 2, 5});
  const Doubles from = values(x);
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{4, 10},
                                      {6, 15},
                                      {8, 20},
                                      {2, 5},
                                      {3, 7},
                                      {1, 3},
                                      {5, 4},
                                      {1, 30}}) {
    const Doubles got = values(interpolate(x, {.size = std::vector{height, width}}));
    for (int64_t i = 0; i < int64_t(got.size()); ++i) {
      const int64_t plane = i / (height * width), row = i / width % height * 2 / height,
                    column = i % width * 5 / width;
      ASSERT_EQ(got[size_t(i)], from[size_t((plane * 2 + row) * 5 + column)])
          << height << ' ' << width << ' ' << i;
    }
  }
}

TEST(Interpolate, RefusesWhatCannotBeMeant) {
  const Variable x = ones({1, 2, 3, 4});
  EXPECT_THROW(interpolate(x, {}), ArgumentError);
  EXPECT_THROW(interpolate(x, {.size = {2}, .scale_factor = 2.0}), ArgumentError);
  EXPECT_THROW(interpolate(x, {.size = {1, 2, 3}}), ArgumentError);
  EXPECT_THROW(interpolate(x, {.size = {0, 2}}), ShapeError);
  EXPECT_THROW(interpolate(x, {.size = {std::numeric_limits<int64_t>::max(), 2}}), ShapeError);
  EXPECT_THROW(interpolate(x, {.scale_factor = 0.1}), ShapeError);
  EXPECT_THROW(interpolate(x, {.scale_factor = std::nan("")}), ArgumentError);
  EXPECT_THROW(interpolate(x, {.scale_factor = {2.0, -1.0}}), ArgumentError);
  EXPECT_THROW(interpolate(x, {.scale_factor = {2.0, 1.0, 1.0}}), ArgumentError);
  EXPECT_THROW(interpolate(x, {.size = {2}, .align_corners = true}), ArgumentError);
  EXPECT_THROW(interpolate(ones({2, 3}), {.size = {2}}), ShapeError);
  EXPECT_THROW(interpolate(ones({1, 2, 3}), {.size = {2}, .mode = SampleMode::kCubic}), ShapeError);
  EXPECT_THROW(interpolate(x, {.size = {2, 2}, .mode = "trilinear"}), ShapeError);
  EXPECT_THROW(interpolate(ones({1, 2, 3}), {.size = {2}, .mode = "bilinear"}), ShapeError);
  EXPECT_THROW(interpolate(ones({1, 2, 3, 4, 5}), {.size = {2}, .mode = "bilinear"}), ShapeError);
  EXPECT_EQ(interpolate(x, {.size = {2, 2}, .mode = "bilinear"}).shape(), (Shape{1, 2, 2, 2}));
}

TEST(GridSample, TheIdentityGridGivesTheImage) {
  const Variable x = leaf({1, 2, 3, 4, 5, 6}, {1, 1, 2, 3});
  const Variable theta = leaf({1, 0, 0, 0, 1, 0}, {1, 2, 3});
  for (const bool align : {false, true}) {
    const Variable grid = affine_grid(theta, {1, 1, 2, 3}, align);
    for (const auto mode : {SampleMode::kNearest, SampleMode::kLinear, SampleMode::kCubic})
      expect_near(grid_sample(x, grid, {.mode = mode, .align_corners = align}), values(x));
  }
}

TEST(GridSample, OutsideAndNan) {
  const Variable x = leaf({1, 2, 3, 4}, {1, 1, 2, 2});
  const double nan = std::nan("");
  const Variable grid = leaf({-5, -5, 1e300, 0, nan, 0, -1, -1}, {1, 1, 4, 2});
  expect_near(grid_sample(x, grid, {.align_corners = true}), {0, 0, 0, 1});
  expect_near(grid_sample(x, grid, {.padding_mode = GridPadding::kBorder, .align_corners = true}),
              {1, 3, 0, 1});
  expect_near(grid_sample(x, leaf({3, -1}, {1, 1, 1, 2}),
                          {.padding_mode = GridPadding::kReflection, .align_corners = true}),
              {1});
  EXPECT_THROW(grid_sample(x, ones({1, 1, 4, 3}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(grid_sample(x, ones({2, 1, 4, 2}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(grid_sample(x, ones({1, 1, 4, 2}, {.dtype = f32})), DTypeError);
  EXPECT_THROW(affine_grid(ones({1, 2, 3}), {2, 1, 2, 2}), ShapeError);
  EXPECT_THROW(affine_grid(ones({1, 2, 3}), {1, 1, 2}), ShapeError);
}

}  // namespace
}  // namespace tapegrad
