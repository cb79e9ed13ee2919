// Convolutions of one point (kernels of size 1) that are products of matrices.
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "core/base/generator.h"
#include "core/dispatch/dispatch_log.h"
#include "core/dispatch/implementations.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

// Channels that fill no blocks: a product of matrices for each image.
TEST(Conv, PointsAreProductsForAnyNumberOfThreads) {
  const int64_t threads = get_num_threads();
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{5, 17}, {33, 2}, {130, 21}, {300, 6}}) {
    std::vector<std::vector<float>> first;
    for (const int count : {1, 2, 5}) {
      set_num_threads(count);
      manual_seed(1);
      const Variable x = randn({2, in, 31, 29}).requires_grad_();
      const Variable w = randn({out, in, 1, 1}).requires_grad_();
      const Variable b = randn({out}).requires_grad_();
      const Variable y = conv2d_relu(x, w, b), seed = randn(y.shape());
      const std::vector<Variable> leaves{x, w, b}, gradients = grad(y, leaves, seed, {});
      // Computes the layer in float64 by products and sums.
      const Variable x64 = x.detach().to(f64), w64 = reshape(w.detach().to(f64), {1, out, in, 1});
      const Variable z =
          sum(reshape(x64, {2, 1, in, 899}) * w64, {2}) + reshape(b.detach().to(f64), {1, out, 1});
      EXPECT_LT(amax(abs(relu(z) - reshape(y.detach().to(f64), {2, out, 899}))).item(), 1e-3);
      const Variable dz = reshape(seed.to(f64), {2, out, 899}) * (z > 0).to(f64);
      const Variable dw = sum(unsqueeze(dz, 2) * reshape(x64, {2, 1, in, 899}), {0, 3});
      EXPECT_LT(amax(abs(dw - reshape(gradients[1].to(f64), {out, in}))).item(), 1e-2);
      const Variable dx = sum(unsqueeze(dz, 2) * w64, {1});
      EXPECT_LT(amax(abs(dx - reshape(gradients[0].to(f64), {2, in, 899}))).item(), 1e-3);
      std::vector<std::vector<float>> all{y.to_vector<float>()};
      for (const Variable& gradient : gradients) all.push_back(gradient.to_vector<float>());
      if (first.empty() || only_fallbacks()) first = all;  // oneDNN divides sums among threads
      EXPECT_EQ(all, first) << in << " " << out << " " << count;
    }
  }
  set_num_threads(threads);
}

// A stride reads a part of the positions: the results are those of these positions alone.
TEST(Conv, StridedPointsAreProductsOfTheirPositions) {
  for (const auto& [in, out, height, width] :
       {std::array<int64_t, 4>{17, 33, 9, 10}, {20, 3, 12, 31}, {36, 72, 1, 70}}) {
    const Variable x = randn({3, in, height, width}).requires_grad_();
    const Variable w = randn({out, in, 1, 1}).requires_grad_(), b = randn({out}).requires_grad_();
    DispatchLog log;
    const Variable y = conv2d(x, w, b, {.stride = {2, 3}});
    if (!only_fallbacks()) {
      EXPECT_GE(log.calls("conv2d:points"), 1);
    }
    const Variable positions = slice(slice(x, 2, 0, height, 2), 3, 0, width, 3);
    const Variable expected = conv2d(positions, w, b), seed = randn(y.shape());
    const std::vector<Variable> leaves{x, w, b};
    const auto got = grad(y, leaves, seed, {}), wanted = grad(expected, leaves, seed, {});
    EXPECT_LT(amax(abs(y - expected)).item(), 1e-4);
    for (size_t i = 0; i < leaves.size(); ++i)
      EXPECT_LT(amax(abs(got[i] - wanted[i])).item(), 1e-4) << in << ' ' << i;
  }
}

// Few positions in each of many images: one product for the rows of several images.
TEST(Conv, PointsOfManySmallImages) {
  const int64_t threads = get_num_threads();
  for (const auto& [images, in, out, positions] : {std::array<int64_t, 4>{40, 90, 30, 16},
                                                   {3, 300, 50, 16},
                                                   {9, 20, 30, 8},
                                                   {300, 129, 50, 7},
                                                   {20, 7, 5, 3},
                                                   {70, 20, 9, 4}}) {
    std::vector<std::vector<float>> first;
    for (const int count : {1, 2, 5}) {
      set_num_threads(count);
      manual_seed(1);
      const Variable x = randn({images, in, positions}).requires_grad_();
      const Variable w = randn({out, in, 1}).requires_grad_(), b = randn({out}).requires_grad_();
      const Variable y = conv1d(x, w, b), seed = randn(y.shape());
      const std::vector<Variable> leaves{x, w, b}, gradients = grad(y, leaves, seed, {});
      const Variable x64 = unsqueeze(x.detach().to(f64), 1), w64 = w.detach().to(f64);
      const Variable dy = unsqueeze(seed.to(f64), 2);
      const Variable sums = sum(x64 * w64, {2}) + reshape(b.detach().to(f64), {out, 1});
      EXPECT_LT(amax(abs(sums - y.detach().to(f64))).item(), 1e-4);
      EXPECT_LT(amax(abs(sum(dy * w64, {1}) - gradients[0].to(f64))).item(), 1e-4);
      EXPECT_LT(amax(abs(unsqueeze(sum(dy * x64, {0, 3}), 2) - gradients[1].to(f64))).item(), 1e-3);
      EXPECT_LT(amax(abs(sum(seed.to(f64), {0, 2}) - gradients[2].to(f64))).item(), 1e-3);
      std::vector<std::vector<float>> all{y.to_vector<float>()};
      for (const Variable& gradient : gradients) all.push_back(gradient.to_vector<float>());
      if (first.empty() || only_fallbacks()) first = all;  // oneDNN divides sums among threads
      EXPECT_EQ(all, first) << images << " " << in << " " << count;
    }
  }
  set_num_threads(threads);
}

}  // namespace
}  // namespace tapegrad
