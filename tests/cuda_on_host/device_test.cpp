// Random numbers, products and gradients on one device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "core/base/error.h"
#include "core/cuda.h"
#include "core/dispatch/dispatch_log.h"
#include "core/dispatch/implementations.h"
#include "core/dispatch/kernels.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/linalg.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

TEST(CudaRandom, DrawsWhatTheCpuDraws) {
  for (DType dtype : {f32, f64, f16, bf16}) {
    const auto draw = [&](Device device) {
      manual_seed(99);
      std::vector<std::vector<double>> drawn;
      const TensorOptions options{.dtype = dtype, .device = device};
      drawn.push_back(rand({1003}, options).to_vector<double>());
      drawn.push_back(randn({1003}, options).to_vector<double>());
      drawn.push_back(randperm(1003, {.device = device}).to_vector<double>());
      drawn.push_back(randint(-5, 1000000007, {777}, {.device = device}).to_vector<double>());
      drawn.push_back(bernoulli(full({501}, 0.3, options)).to_vector<double>());
      return drawn;
    };
    EXPECT_EQ(draw(gpu), draw(cpu)) << dtype;
  }
}

TEST(CudaMatmul, Tf32IsASwitch) {
  for (const auto precision :
       {MatmulPrecision::kHigh, MatmulPrecision::kMedium, MatmulPrecision::kHighest}) {
    set_matmul_precision(precision);
    const Variable x = ones({3, 4}, {.device = gpu});
    EXPECT_EQ(sum(matmul(x, transpose(x, 0, 1))).item(), 36);
  }
}

TEST(CudaCopies, SourcesMayChangeAtOnce) {
  std::vector<Tensor> copies;
  for (int64_t i = 0; i < 40; ++i) {
    Tensor host = Tensor::full({i % 4 == 3 ? 3000000 : 7000 * i + 1}, double(i), f32);
    copies.push_back(host.to(gpu));
    kernels::fill(host, -1);
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    const Variable copy(copies[i]);
    EXPECT_EQ(min(copy).item(), double(i));
    EXPECT_EQ(max(copy).item(), double(i));
  }
}

TEST(CudaPinned, IsATensorLikeOthers) {
  Variable x = randn({5, 7}, {.device = cpu}).requires_grad_();
  const Variable p = cuda::pin_memory(transpose(x, 0, 1));
  EXPECT_TRUE(cuda::is_pinned(p));
  EXPECT_TRUE(cuda::is_pinned(narrow(p, 0, 2, 3)));
  EXPECT_TRUE(cuda::pin_memory(p).is_same(p));
  EXPECT_EQ(p.device(), cpu);
  for (const Variable& other : {x, clone(p), p + 1, p.to(f64), p.to(gpu)})
    EXPECT_FALSE(cuda::is_pinned(other));
  EXPECT_EQ(p.to_vector<float>(), transpose(x, 0, 1).to_vector<float>());
  EXPECT_EQ(p.to(gpu).to_vector<float>(), p.to_vector<float>());
  const Variable part = narrow(p, 0, 2, 3), strided = transpose(p, 0, 1);
  EXPECT_EQ(part.to(gpu).to_vector<float>(), part.to_vector<float>());
  EXPECT_EQ(strided.to(gpu).to_vector<float>(), x.to_vector<float>());
  sum(p.to(gpu) * 3).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(35, 3));
  EXPECT_THROW(cuda::pin_memory(x.to(gpu)), DeviceError);
  EXPECT_EQ(cuda::pin_memory(zeros({0, 3}, {.device = cpu})).to(gpu).numel(), 0);
}

TEST(CudaPinned, IsNotReusedBeforeTheDeviceHasReadIt) {
  std::vector<Variable> copies;
  for (int i = 0; i < 60; ++i) {
    const Variable x = full({40000 + i}, double(i), {.device = cpu});
    copies.push_back(cuda::pin_memory(x).to(gpu));
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    EXPECT_EQ(min(copies[i]).item(), double(i));
    EXPECT_EQ(max(copies[i]).item(), double(i));
  }
}

TEST(CudaPinned, MayBeReadInTwoStreams) {
  const cuda::Stream side = cuda::Stream::create();
  std::vector<Variable> here, there;
  for (int i = 0; i < 20; ++i) {
    Variable x = cuda::pin_memory(full({500000}, double(i), {.device = cpu}));
    here.push_back(x.to(gpu));
    const cuda::StreamGuard guard(side);
    there.push_back(x.to(gpu));
    side.synchronize();  // the other copy may still be running
  }
  for (size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(min(here[i]).item(), double(i));
    EXPECT_EQ(max(there[i]).item(), double(i));
  }
}

TEST(CudaLinear, ExactSumsAreTheCpus) {
  struct Sizes {
    int64_t rows, in, out;
  };
  // cuBLASLt has algorithms for the first two sizes; the numbers are exact in every type.
  for (const auto& [rows, in, out] : {Sizes{32, 64, 48}, Sizes{128, 32, 16}, Sizes{5, 7, 3}})
    for (const DType dtype : {f32, bf16, f16}) {
      const auto run = [&](Device device) {
        manual_seed(12);
        const auto whole = [&](const Shape& shape) {
          return randint(-1, 2, shape).to(dtype).to(device).requires_grad_();
        };
        const Variable x = whole({rows, in}), weight = whole({out, in}), bias = whole({out});
        const Variable y = linear(x, weight, bias);
        sum(y * whole({rows, out}).detach()).backward();
        std::vector<std::vector<double>> results;
        for (const Variable& v : std::vector<Variable>{y, x.grad(), weight.grad(), bias.grad()})
          results.push_back(v.to(f64).to_vector<double>());
        return results;
      };
      EXPECT_EQ(run(gpu), run(cpu)) << dtype << ' ' << rows << ' ' << in << ' ' << out;
    }
}

// NaN must be kept by every implementation, since a GradScaler looks for it.
TEST(CudaLinear, ActivationsKeepNaN) {
  for (const DType dtype : {f32, bf16, f16})
    for (const int64_t out : {16, 3, 64, 256}) {
      const TensorOptions on_gpu{.dtype = dtype, .device = gpu};
      const Variable x = full({out, 32}, double(NAN), on_gpu);
      const Variable weight = ones({out, 32}, on_gpu), bias = ones({out}, on_gpu);
      for (const Variable& b : {bias, Variable()})
        for (const Variable& y : {linear_relu(x, weight, b), linear_gelu(x, weight, b)})
          EXPECT_TRUE(std::isnan(max(y).item()) && std::isnan(min(y).item())) << dtype << out;
    }
}

TEST(CudaLinear, GeluAndItsGradientAreTheCpus) {
  for (const auto& [dtype, eps] : {std::pair{f32, 0x1p-20}, {bf16, 0x1p-7}, {f16, 0x1p-10}}) {
    const auto run = [dtype = dtype](Device device) {
      manual_seed(13);
      const auto leaf = [&](const Shape& shape) {
        return randn(shape).to(dtype).to(device).requires_grad_();
      };
      const Variable x = leaf({32, 64}), weight = leaf({48, 64}), bias = leaf({48});
      const Variable behind = leaf({16, 48});
      const Variable hidden = linear_gelu(x, weight, bias);
      const Variable y = linear(linear_gelu(x, weight, bias), behind);
      sum(y).backward();
      std::vector<std::vector<double>> results;
      for (const Variable& v :
           std::vector<Variable>{hidden, y, x.grad(), weight.grad(), bias.grad(), behind.grad()})
        results.push_back(v.to(f64).to_vector<double>());
      return results;
    };
    const auto got = run(gpu), expected = run(cpu);
    for (size_t k = 0; k < got.size(); ++k) {
      double largest = 0;
      for (const double value : expected[k]) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < got[k].size(); ++i)
        EXPECT_NEAR(got[k][i], expected[k][i], 8 * eps * largest) << dtype << ' ' << k;
    }
  }
}

/// Runs three layers of small whole numbers with ReLU in between; the first result may have a
/// second use. Returns the result and gradients of first and second order.
std::vector<std::vector<double>> run_relu_layers(Device device, DType dtype, int64_t width,
                                                 bool besides) {
  manual_seed(17);
  std::vector<Variable> in;
  for (const Shape& shape :
       {Shape{3, 8, 16}, {width, 16}, {width}, {24, width}, {24}, {8, 24}, {3, 8, 8}})
    in.push_back((randint(0, 8, shape) == 0.0).to(dtype) - (randint(0, 8, shape) == 0.0).to(dtype));
  for (Variable& x : in) x = x.to(device).requires_grad_();
  const Variable first = linear_relu(in[0], in[1], in[2]);
  const Variable y = linear(linear_relu(first, in[3], in[4]), in[5]);
  Variable loss = sum(y * in[6]);
  if (besides) loss = loss + sum(first);
  const Variable of_weight = grad(loss, in[3], {.create_graph = true});
  std::vector<Variable> results{y, of_weight};
  const std::vector<Variable> of_it{in[0], in[1], in[6]};
  for (const Variable& x : grad(sum(of_weight), of_it, {}, {.retain_graph = true}))
    results.push_back(x);
  for (const Variable& x : grad(loss, in)) results.push_back(x);
  std::vector<std::vector<double>> values;
  for (const Variable& x : results) values.push_back(x.to(f64).to_vector<double>());
  return values;
}

TEST(CudaLinear, ReluBetweenLayersIsTheCpus) {
  for (const DType dtype : {f32, bf16, f16, f64})
    for (const int64_t width : {16, 136, 256, 5})
      for (const bool besides : {false, true})
        EXPECT_EQ(run_relu_layers(gpu, dtype, width, besides),
                  run_relu_layers(cpu, dtype, width, besides))
            << dtype << ' ' << width << ' ' << besides;
}

TEST(CudaMaxPool, GradientsAreTheBitsOfTheCpu) {
  const MaxPool2dOptions options[] = {
      {.kernel_size = 2},
      {.kernel_size = 3, .stride = 1, .padding = 1},
      {.kernel_size = {3, 2}, .stride = Size2d(2, 3), .padding = {1, 0}, .ceil_mode = true},
      {.kernel_size = {2, 3}, .stride = 1, .padding = 1, .dilation = {3, 2}},
      {.kernel_size = 1, .stride = 3}};
  for (const DType dtype : {f32, bf16})
    for (const MaxPool2dOptions& o : options) {
      const auto gradient = [&](Device device) {
        manual_seed(6);
        // Few different values, so that many elements are equal.
        const Variable x = randint(0, 4, {2, 3, 13, 11}).to(dtype).to(device).requires_grad_();
        const Variable y = max_pool2d(x, o);
        sum(y * randn(y.shape(), {.device = device}).to(dtype)).backward();
        return x.grad().to(f64).to_vector<double>();
      };
      EXPECT_EQ(gradient(gpu), gradient(cpu)) << dtype;
    }
}

/// Without cuSOLVER, linalg.cholesky runs on the CPU.
const char* const kByCpu = "linalg.cholesky";

TEST(CudaByCpu, IsSaidOncePerLineAndLogged) {
  const OnlyImplementation fallback(kByCpu, "");
  ::testing::internal::CaptureStderr();
  const DispatchLog log;
  const Variable x = eye(3, 3, {.device = gpu});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(linalg::cholesky(x).device(), gpu);
  linalg::cholesky(x);
  const int line = __LINE__ - 1;
  const std::string text =
      std::regex_replace(::testing::internal::GetCapturedStderr(), std::regex("at [^ ]*/"), "at ");
  const std::string notice =
      "tapegrad: cuda: linalg.cholesky runs on the CPU, because its library is missing or refuses "
      "the operands, at device_test.cpp:";
  EXPECT_EQ(text, notice + std::to_string(line - 1) + '\n' + notice + std::to_string(line) + '\n');
  const std::vector<std::string> kernels = log.kernels();
  for (const char* name : {"cuda/float32/linalg.cholesky:by_cpu", "cpu/float32/linalg.cholesky"})
    EXPECT_EQ(std::count(kernels.begin(), kernels.end(), name), 1) << name;
}

TEST(CudaByCpu, TheLogExplainsWhere) {
  const OnlyImplementation fallback(kByCpu, "");
  const Variable there = eye(3, 3, {.device = gpu}), here = ones({3, 4}, {.device = cpu});
  set_default_device(gpu);
  const DispatchLog log;
  linalg::cholesky(there);
  exp(here);
  tanh(there);
  const std::string text = std::regex_replace(log.explain(), std::regex(" +"), " ");
  set_default_device(cpu);
  for (const char* line :
       {"cuda linalg.cholesky:by_cpu float32 1 copied to the CPU and back: no kernel for a GPU\n",
        "cpu exp float32 1 its operands are on the CPU, although the default device is cuda\n",
        "cuda tanh float32 1 its operands are there\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

}  // namespace
}  // namespace tapegrad
