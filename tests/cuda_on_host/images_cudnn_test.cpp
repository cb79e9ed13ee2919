// Batch normalisation and pooling by cuDNN, compared with our own kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/cudnn/available.h"
#include "backends/cuda/layout/packed.h"
#include "core/autograd/derivatives.h"
#include "core/tape/recording.h"
#include "core/tape/variable.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

using namespace backends::cuda;
using Values = std::vector<double>;

Values values_of(const Variable& x) { return x.to(f64).to_vector<double>(); }

/// Expects equality up to `tolerance` times the largest element, for rounding errors, and equal
/// positions of NaN.
void expect_near(const Values& a, const Values& b, double tolerance, const std::string& name) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::isnan(a[i]), std::isnan(b[i])) << name << ' ' << i;
    if (!std::isfinite(b[i])) continue;
    largest = std::max(largest, std::abs(b[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  EXPECT_LE(difference, tolerance * largest) << name;
}

/// Half an eps for rounding the result, and half for sums in float32.
double epsilon(DType dtype) { return dtype == bf16 ? 0x1p-7 : dtype == f16 ? 0x1p-10 : 0x1p-21; }

/// Returns f's results with cuDNN and without.
template <typename F>
auto both(const F& f) {
  const bool before = use_cudnn(true);
  auto with = f();
  use_cudnn(false);
  auto without = f();
  use_cudnn(before);
  return std::pair(std::move(with), std::move(without));
}

/// Returns channels-last images, as from a convolution.
Variable packed(const Variable& images) {
  const Tensor x = images.value().clone();
  const Variable pixels(pixels_or_copy(x));
  Variable memory(pixels_to_write(x));
  copy_(memory, pixels);
  set_packed(x);
  return Variable(x);
}

class CudaImagesCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_cudnn(gpu); !reason.empty()) GTEST_SKIP() << reason;
    manual_seed(1);
  }
};

TEST_F(CudaImagesCudnn, BatchNormGivesWhatOursDoes) {
  struct Case {
    Shape shape;
    DType dtype, parameters;  // u8 stands for no parameters
    double middle, scale;
  };
  // The second case is far from zero, with a variance that is small relative to eps.
  for (const Case& c :
       {Case{{8, 16, 90, 92}, bf16, f32, 0.5, 2}, Case{{2, 64, 128, 65}, f16, u8, 4, 0.01},
        Case{{4, 256, 33, 32}, f16, f16, 600, 8}}) {
    SCOPED_TRACE(testing::Message() << c.shape << ' ' << c.dtype);
    const int64_t channels = c.shape[1];
    const Variable images = (randn(c.shape) * c.scale + c.middle).to(c.dtype).to(gpu);
    const Variable dy = randn(c.shape).to(c.dtype).to(gpu);
    const bool plain = c.parameters == u8;
    const Variable weight = plain ? Variable() : (rand({channels}) + 0.5).to(c.parameters).to(gpu);
    const Variable bias = plain ? Variable() : randn({channels}).to(c.parameters).to(gpu);
    const auto [with, without] = both([&] {
      std::vector<Variable> inputs{packed(images).requires_grad_()};
      for (const Variable& parameter : {weight, bias})
        if (parameter.defined()) inputs.push_back(parameter.detach().requires_grad_());
      const auto ones_each = [&] { return full({channels}, 1, {.dtype = f32}).to(gpu); };
      const Variable mean = ones_each(), var = ones_each();
      const Variable y =
          plain ? batch_norm(inputs[0], mean, var, {}, {}, {.training = true, .momentum = 0.25})
                : batch_norm(inputs[0], mean, var, inputs[1], inputs[2],
                             {.training = true, .momentum = 0.25});
      EXPECT_TRUE(y.value().storage().is_packed());
      std::vector<Values> results{values_of(mean), values_of(var)};
      const std::vector<Variable> gradients = grad(y, inputs, packed(dy));
      EXPECT_TRUE(gradients[0].value().storage().is_packed());
      results.push_back(values_of(y));
      for (const Variable& each : gradients) results.push_back(values_of(each));
      return results;
    });
    constexpr const char* kNames[] = {"running mean", "running var", "y", "dx", "dweight", "dbias"};
    for (size_t i = 0; i < with.size(); ++i)
      expect_near(with[i], without[i], i < 2 ? 1e-5 : epsilon(i < 4 ? c.dtype : c.parameters),
                  kNames[i]);
  }
}

struct Windows {
  Shape images;
  Size2d size, stride, padding;
  bool ceil_mode = false;
};

/// Returns y and, for average pooling, the gradient.
std::vector<Values> pool(const Variable& images, bool last, const Windows& w, int mode) {
  const Variable x = (last ? packed(images) : images.detach()).requires_grad_();
  if (mode == 0) {
    const NoGrad off;
    return {values_of(max_pool2d(x, {.kernel_size = w.size,
                                     .stride = w.stride,
                                     .padding = w.padding,
                                     .ceil_mode = w.ceil_mode}))};
  }
  const Variable y = mode == 3 ? adaptive_avg_pool2d(x, w.size)
                               : avg_pool2d(x, {.kernel_size = w.size,
                                                .stride = w.stride,
                                                .padding = w.padding,
                                                .ceil_mode = w.ceil_mode,
                                                .count_include_pad = mode == 1});
  manual_seed(2);
  const Variable weights = randint(1, 9, y.shape()).to(y.dtype()).to(gpu);
  return {values_of(y), values_of(grad(y, std::vector{x}, weights)[0])};
}

TEST_F(CudaImagesCudnn, PoolingGivesWhatOursDoes) {
  const Windows in_order[] = {
      {{39, 3, 13, 11}, {2, 2}, {2, 2}, {0, 0}},       {{39, 3, 13, 11}, {3, 2}, {2, 1}, {1, 1}},
      {{31, 5, 12, 9}, {5, 5}, {3, 4}, {2, 2}},        {{183, 1, 9, 10}, {1, 3}, {3, 5}, {0, 1}},
      {{75, 2, 10, 11}, {3, 3}, {2, 2}, {1, 1}, true}, {{29, 4, 12, 12}, {4, 6}, {4, 6}, {0, 0}},
      {{29, 4, 12, 12}, {12, 12}, {1, 1}, {0, 0}},     {{68, 3, 9, 9}, {3, 3}, {3, 3}, {0, 0}},
      {{68, 3, 9, 9}, {3, 3}, {3, 3}, {1, 1}}};  // as many elements
  const Windows last[] = {{{2, 32, 130, 126}, {3, 3}, {2, 2}, {1, 1}},
                          {{8, 256, 28, 28}, {7, 7}, {7, 7}, {0, 0}}};
  const auto compare = [](const Windows& w, DType dtype, bool is_last) {
    const Variable x = randn(w.images).to(dtype).to(gpu);
    for (int mode = 0; mode < 4; ++mode) {
      SCOPED_TRACE(testing::Message() << "mode " << mode << ' ' << dtype << ' ' << w.images);
      const auto [with, without] = both([&] { return pool(x, is_last, w, mode); });
      for (size_t i = 0; i < with.size(); ++i)
        expect_near(with[i], without[i], mode == 0 ? 0 : epsilon(dtype), i == 0 ? "y" : "dx");
    }
  };
  for (const DType dtype : {f32, f16, bf16})
    for (const Windows& w : in_order) compare(w, dtype, /*is_last=*/false);
  compare(last[0], bf16, /*is_last=*/true);
  compare(last[1], f16, /*is_last=*/true);
}

/// Rows of 256, pooled in pairs; the values of the first pairs.
TEST_F(CudaImagesCudnn, ANaNIsTheLargest) {
  const NoGrad off;
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> pairs{nan, 1, 1, nan, nan, infinity, -infinity, -infinity, nan, nan};
  const Values wanted{nan, nan, nan, -infinity, nan};
  for (const bool last : {false, true})
    for (const DType dtype : {f16, bf16}) {
      const Shape shape = last ? Shape{1, 8, 512, 256} : Shape{1, 8, 8, 256};
      std::vector<float> values(size_t(numel(shape)), 0.5f);
      for (size_t row = 0; row < values.size(); row += 256)
        std::copy(pairs.begin(), pairs.end(), values.begin() + std::ptrdiff_t(row));
      const Variable x = tensor(values, shape).to(dtype).to(gpu);
      const Values y = values_of(max_pool2d(last ? packed(x) : x, {.kernel_size = {1, 2}}));
      for (size_t row = 0; row < y.size(); row += 128)
        for (size_t i = 0; i < 6; ++i) {
          const double expected = i < 5 ? wanted[i] : 0.5;
          ASSERT_TRUE(std::isnan(expected) ? std::isnan(y[row + i]) : y[row + i] == expected)
              << i << ' ' << y[row + i] << ' ' << dtype << (last ? " last" : "");
        }
    }
}

/// A training step on channels-last images.
TEST_F(CudaImagesCudnn, AGraphRepeatsTheBits) {
  const auto train = [](bool graph) {
    manual_seed(6);
    const auto draw = [](const Shape& shape) { return randn(shape).to(bf16).to(gpu).detach(); };
    Variable filter = draw({32, 8, 1, 1}).requires_grad_();
    Variable weight = draw({32}).to(f32).detach().requires_grad_();
    Variable bias = draw({32}).to(f32).detach().requires_grad_();
    Variable mean = zeros({32}, {.dtype = f32}).to(gpu), var = ones({32}, {.dtype = f32}).to(gpu);
    GraphedStep step(
        [&](const Variable& x) {
          for (const Variable* each : {&filter, &weight, &bias}) each->zero_grad();
          const Variable y =
              batch_norm(conv2d(x, filter), mean, var, weight, bias, {.training = true});
          const Variable z = avg_pool2d(y, {.kernel_size = 3, .stride = 2, .padding = 1});
          const Variable loss = sum((z * z).to(f32));
          loss.backward();
          return loss;
        },
        {}, {.enabled = graph});
    std::vector<Values> results;
    for (int i = 0; i < 4; ++i) {
      results.push_back(values_of(step(draw({2, 8, 128, 128}))));
      for (const Variable& each :
           std::vector<Variable>{filter.grad(), weight.grad(), bias.grad(), mean, var})
        results.push_back(values_of(each));
    }
    EXPECT_EQ(step.is_graphed(), graph) << step.reason();
    return results;
  };
  EXPECT_EQ(train(true), train(false));
}

}  // namespace
}  // namespace tapegrad
