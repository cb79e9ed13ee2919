// Convolutions by cuDNN, compared with im2col.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/cudnn/available.h"
#include "backends/cuda/cudnn/conv.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

using namespace backends::cuda;

/// Runs convolutions with or without cuDNN during its lifetime.
class ByCudnn {
 public:
  explicit ByCudnn(bool on) : before_(use_cudnn(on)) {}
  ~ByCudnn() { use_cudnn(before_); }
  ByCudnn(const ByCudnn&) = delete;
  ByCudnn& operator=(const ByCudnn&) = delete;

 private:
  bool before_;
};

struct Geometry {
  Shape x, weight, y;
  Conv2dOptions options{};
};
const Geometry kGeometries[] = {
    {{2, 3, 9, 8}, {4, 3, 3, 3}, {2, 4, 9, 8}, {.padding = 1}},
    {{1, 2, 7, 9}, {6, 2, 5, 3}, {1, 6, 3, 9}, {.stride = {2, 1}, .padding = {1, 1}}},
    {{3, 4, 6, 6}, {8, 4, 1, 1}, {3, 8, 6, 6}},
    {{2, 4, 8, 8}, {8, 2, 3, 3}, {2, 8, 4, 4}, {.stride = 2, .padding = 1, .groups = 2}},
    {{2, 6, 5, 5}, {6, 1, 3, 3}, {2, 6, 5, 5}, {.padding = 1, .groups = 6}},
    {{1, 2, 9, 9}, {3, 2, 3, 3}, {1, 3, 5, 5}, {.dilation = 2}},
    {{2, 3, 8, 8}, {4, 3, 7, 7}, {2, 4, 4, 4}, {.stride = 2, .padding = 3}}};

Tensor draw(const Shape& shape, DType dtype) { return randn(shape).to(dtype).to(gpu).value(); }
std::vector<double> values_of(const Tensor& x) { return Variable(x).to(f64).to_vector<double>(); }

/// Expects equality up to `tolerance` times the largest element, for rounding errors of sums in
/// another order.
void expect_near(const Tensor& x, const Tensor& y, double tolerance) {
  const std::vector<double> a = values_of(x), b = values_of(y);
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
    ASSERT_FALSE(std::isnan(a[i]));
  }
  EXPECT_LE(difference, tolerance * largest);
}

TEST(CudaConvolution, CudnnAndColumnsAgree) {
  if (const std::string reason = why_no_cudnn(gpu); !reason.empty()) GTEST_SKIP() << reason;
  struct Case {
    DType dtype;
    ConvAlgorithm algorithm;
    double tolerance;
  };
  manual_seed(8);
  for (const Case& c :
       {Case{f32, ConvAlgorithm::kDirect, 1e-5},
        Case{f32, ConvAlgorithm::kAuto, 5e-5},  // Winograd's rounding error
        Case{f64, ConvAlgorithm::kAuto, 1e-14}, Case{f16, ConvAlgorithm::kAuto, 2e-3},
        Case{bf16, ConvAlgorithm::kAuto, 1.6e-2}}) {
    const DType dtype = c.dtype;
    set_conv_algorithm(c.algorithm);
    for (const Geometry& g : kGeometries) {
      SCOPED_TRACE(testing::Message() << dtype << ", image " << g.x << ", weight " << g.weight);
      const Tensor x = draw(g.x, dtype), weight = draw(g.weight, dtype), dy = draw(g.y, dtype);
      Tensor y = dy.empty_like(), dx = x.empty_like(), dw = weight.empty_like(), none;
      ASSERT_TRUE(cudnn_conv2d(x, weight, g.options, y));
      ASSERT_TRUE(cudnn_conv2d_input(dy, weight, g.options, dx));
      ASSERT_TRUE(cudnn_conv2d_weight(dy, x, g.options, dw));
      Tensor other_y = y.empty_like(), other_dx = dx.empty_like(), other_dw = dw.empty_like();
      {
        const ByCudnn columns(false);
        kernels::conv2d(x, weight, none, g.options, {}, other_y);
        kernels::conv2d_backward(dy, {}, x, weight, g.options, other_dx, other_dw, none);
      }
      expect_near(y, other_y, c.tolerance);
      expect_near(dx, other_dx, c.tolerance);
      expect_near(dw, other_dw, c.tolerance);
    }
  }
  set_conv_algorithm(ConvAlgorithm::kAuto);
}

TEST(CudaConvolution, ARepeatGivesTheSameBits) {
  manual_seed(9);
  const Tensor x = draw({4, 8, 14, 14}, f32), weight = draw({16, 8, 3, 3}, f32);
  const Tensor dy = draw({4, 16, 14, 14}, f32), none;
  const Conv2dOptions options{.padding = 1};
  const auto run = [&] {
    Tensor y = dy.empty_like(), dx = x.empty_like(), dw = weight.empty_like(), db;
    kernels::conv2d(x, weight, none, options, {}, y);
    kernels::conv2d_backward(dy, {}, x, weight, options, dx, dw, db);
    return std::vector{values_of(y), values_of(dx), values_of(dw)};
  };
  const auto first = run();
  for (int again = 0; again < 3; ++again) EXPECT_EQ(run(), first);
}

TEST(CudaConvolution, AGraphRepeatsTheBits) {
  const auto train = [](bool graph) {
    manual_seed(11);
    Variable weight = randn({6, 3, 3, 3}).to(gpu).requires_grad_();
    GraphedStep step(
        [&](const Variable& x) {
          weight.zero_grad();
          const Variable y = conv2d(x, weight, {}, {.stride = 2, .padding = 1});
          const Variable loss = sum(y * y);
          loss.backward();
          return loss;
        },
        {}, {.enabled = graph});
    std::vector<std::vector<double>> results;
    for (int i = 0; i < 6; ++i) {
      const Variable loss = step(randn({2, 3, 8, 8}).to(gpu));
      results.push_back({loss.item()});
      results.push_back(values_of(weight.grad().value()));
    }
    EXPECT_EQ(step.is_graphed(), graph) << step.reason();
    return results;
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(CudaConvolution, AddsTheBiasAndCutsAtZero) {
  manual_seed(10);
  const Variable x = randn({2, 3, 6, 8}), weight = randn({4, 3, 3, 3}), bias = randn({4});
  for (const bool by_cudnn : {true, false}) {
    const ByCudnn scope(by_cudnn);
    expect_near(conv2d(x.to(gpu), weight.to(gpu), bias.to(gpu)).value(),
                conv2d(x, weight, bias).value(), 1e-5);
    for (const Variable& b : {bias, Variable()})
      expect_near(conv2d_relu(x.to(gpu), weight.to(gpu), b.defined() ? b.to(gpu) : b).value(),
                  conv2d_relu(x, weight, b).value(), 1e-5);
  }
}

}  // namespace
}  // namespace tapegrad
