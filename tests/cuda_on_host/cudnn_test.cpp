// Which convolutions use cuDNN, and that the stand-in detects invalid calls.
#include <cudnn.h>
#include <gtest/gtest.h>

#include "backends/cuda/cudnn/available.h"
#include "core/base/allocator.h"
#include "core/tape/variable.h"
#include "cudnn_calls.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

/// Small whole numbers, whose sums are exact in every type.
Variable whole(const Shape& shape, DType dtype = f32) {
  return randint(-2, 3, shape).to(dtype).to(gpu);
}
std::vector<double> values_of(const Variable& x) { return x.to(f64).to_vector<double>(); }

/// Counts the convolutions that cuDNN computes in a step; the values must be the CPU's.
int calls_of(const Variable& x, const Variable& weight, const Variable& bias = {},
             const Conv2dOptions& options = {}) {
  const auto step = [&](Device device) {
    const auto leaf = [&](const Variable& v) { return v.detach().to(device).requires_grad_(); };
    const Variable a = leaf(x), w = leaf(weight), b = bias.defined() ? leaf(bias) : bias;
    const Variable y = conv2d(a, w, b, options);
    sum(y * y).backward();
    return std::vector{values_of(y), values_of(a.grad()), values_of(w.grad())};
  };
  const auto expected = step(cpu);
  const int before = coh::cudnn_calls();
  EXPECT_EQ(step(gpu), expected);
  return coh::cudnn_calls() - before;
}

TEST(CudaCudnn, ComputesTheResultAndBothGradients) {
  manual_seed(2);
  for (const DType dtype : {f32, f64, f16, bf16})
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(calls_of(whole({2, 2, 4, 4}, dtype), whole({4, 2, 3, 3}, dtype), whole({4}, dtype)),
                3)
          << dtype;
  const Variable x = whole({1, 4, 5, 6}), weight = whole({6, 2, 3, 1});
  EXPECT_EQ(calls_of(x, weight, {}, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2}), 3);
  // the first algorithm is not supported
  EXPECT_EQ(calls_of(x, weight, {}, {.dilation = {1, 2}, .groups = 2}), 3);
}

TEST(CudaCudnn, ColumnsDoWhatItDoesNot) {
  manual_seed(3);
  EXPECT_EQ(calls_of(whole({1, 2, 4, 4}), whole({3, 2, 2, 3})), 0);  // no supported algorithm
  EXPECT_EQ(calls_of(zeros({0, 2, 4, 4}), whole({3, 2, 3, 3})), 0);
  EXPECT_EQ(calls_of(whole({2, 2, 4, 4}), zeros({0, 2, 3, 3})), 0);
  const Variable shifted = reshape(narrow(whole({33}), 0, 1, 32), {1, 2, 4, 4});
  const int before = coh::cudnn_calls();
  EXPECT_EQ(values_of(conv2d(shifted, ones({1, 2, 3, 3}, {.device = gpu}))),
            values_of(conv2d(shifted.to(cpu), ones({1, 2, 3, 3}))));
  EXPECT_EQ(coh::cudnn_calls(), before);
  backends::cuda::use_cudnn(false);
  EXPECT_EQ(calls_of(whole({2, 2, 4, 4}), whole({4, 2, 3, 3})), 0);
  EXPECT_EQ(backends::cuda::why_no_cudnn(gpu), "cuDNN is not wanted");
  EXPECT_EQ(backends::cuda::describe_cudnn(), "no cuDNN (cuDNN is not wanted)");
  EXPECT_FALSE(backends::cuda::use_cudnn(true));
  EXPECT_EQ(backends::cuda::describe_cudnn(), "cuDNN 9.19");
}

TEST(CudaCudnn, TakesAWayThatTheMemoryIsEnoughFor) {
  manual_seed(5);
  const Variable x = whole({1, 2, 6, 6}), weight = whole({4, 2, 3, 3});
  empty_cache(gpu);
  const MemoryStats before = memory_stats(gpu);
  set_memory_limit(before.in_use + before.cached + (4 << 20), gpu);
  EXPECT_EQ(calls_of(x, weight, {}, {.stride = 3}), 3);
  EXPECT_FALSE(coh::cudnn_used_winograd());  // Winograd would need 16 MiB
  set_memory_limit(-1, gpu);
  EXPECT_EQ(calls_of(x, weight, {}, {.stride = 3}), 3);
  EXPECT_TRUE(coh::cudnn_used_winograd());
}

TEST(CudaCudnn, WinogradIsLeftOutWhereItIsNotWanted) {
  manual_seed(6);
  const Variable x = whole({1, 2, 6, 6}), weight = whole({4, 2, 3, 3});
  EXPECT_EQ(calls_of(x, weight), 3);
  EXPECT_TRUE(coh::cudnn_used_winograd());
  EXPECT_EQ(calls_of(x.to(f16), weight.to(f16)), 3);
  EXPECT_FALSE(coh::cudnn_used_winograd());
  set_conv_algorithm(ConvAlgorithm::kDirect);
  EXPECT_EQ(calls_of(x, weight), 3);
  EXPECT_FALSE(coh::cudnn_used_winograd());
  set_conv_algorithm(ConvAlgorithm::kAuto);
}

TEST(CudaCudnn, Float32IsNotRoundedUnlessAllowed) {
  const Variable x = ones({1, 1, 4, 4}, {.device = gpu}),
                 weight = ones({1, 1, 3, 3}, {.device = gpu});
  for (const auto precision : {MatmulPrecision::kHigh, MatmulPrecision::kHighest}) {
    set_matmul_precision(precision);
    EXPECT_EQ(sum(conv2d(x, weight)).item(), 36);
    EXPECT_EQ(coh::cudnn_used_tensor_cores(), precision == MatmulPrecision::kHigh);
  }
  conv2d(x.to(bf16), weight.to(bf16));
  EXPECT_TRUE(coh::cudnn_used_tensor_cores());
}

/// A convolution of 1 x 1 x 4 x 4 images with a 3 x 3 kernel to 1 x 1 x 2 x 2 results; valid until
/// a test changes it.
struct Call {
  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  Tensor numbers = Tensor::full({16}, 0, f32, gpu), result = Tensor::full({16}, 0, f32, gpu);
  const void* image = numbers.data<float>();
  float one = 1, zero = 0;
  cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;

  Call() {
    cudnnCreate(&handle);
    cudnnCreateTensorDescriptor(&x), cudnnCreateTensorDescriptor(&y);
    cudnnCreateFilterDescriptor(&weight), cudnnCreateConvolutionDescriptor(&convolution);
    cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 4, 4);
    cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 2, 2);
    cudnnSetFilter4dDescriptor(weight, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, 1, 3, 3);
    cudnnSetConvolution2dDescriptor(convolution, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                    CUDNN_DATA_FLOAT);
  }
  ~Call() {
    cudnnDestroyTensorDescriptor(x), cudnnDestroyTensorDescriptor(y);
    cudnnDestroyFilterDescriptor(weight), cudnnDestroyConvolutionDescriptor(convolution);
  }

  bool is_right() const {
    return cudnnConvolutionForward(handle, &one, x, image, weight, numbers.data<float>(),
                                   convolution, algorithm, nullptr, 0, &zero, y,
                                   result.data<float>()) == CUDNN_STATUS_SUCCESS;
  }
};

TEST(CudaCudnn, PlantedMistakesAreNoticed) {
  EXPECT_TRUE(Call().is_right());
  const auto is_noticed = [](auto plant) {
    Call call;
    plant(call);
    return !call.is_right();
  };
  EXPECT_TRUE(is_noticed([](Call& c) {
    cudnnSetTensor4dDescriptor(c.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 2, 3);
  }));
  EXPECT_TRUE(is_noticed([](Call& c) {
    cudnnSetTensor4dDescriptor(c.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 1, 1, 4, 4);
  }));
  EXPECT_TRUE(is_noticed([](Call& c) {  // mixed channels first and last
    cudnnSetTensor4dDescriptor(c.x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 1, 4, 4);
  }));
  EXPECT_TRUE(is_noticed([](Call& c) {
    cudnnSetFilter4dDescriptor(c.weight, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 1, 1, 3, 3);
  }));
  EXPECT_TRUE(is_noticed([](Call& c) {  // channels not a multiple of eight
    cudnnSetTensor4dDescriptor(c.x, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 1, 1, 4, 4);
    cudnnSetTensor4dDescriptor(c.y, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 1, 1, 2, 2);
    cudnnSetFilter4dDescriptor(c.weight, CUDNN_DATA_HALF, CUDNN_TENSOR_NHWC, 1, 1, 3, 3);
  }));
  EXPECT_TRUE(is_noticed([](Call& c) { cudnnSetConvolutionGroupCount(c.convolution, 2); }));
  EXPECT_TRUE(is_noticed([](Call& c) {
    cudnnSetConvolution2dDescriptor(c.convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                    CUDNN_DATA_FLOAT);
  }));
  EXPECT_TRUE(is_noticed([](Call& c) {
    cudnnSetConvolution2dDescriptor(c.convolution, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                    CUDNN_DATA_DOUBLE);
  }));
  EXPECT_TRUE(is_noticed([](Call& c) {  // no workspace
    c.algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  }));
  EXPECT_TRUE(is_noticed([](Call& c) { c.algorithm = CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING; }));
  EXPECT_TRUE(is_noticed([](Call& c) { c.image = c.numbers.data<float>() + 1; }));
  EXPECT_TRUE(is_noticed([](Call& c) { c.zero = 1; }));
  alignas(16) float host[16] = {};
  EXPECT_DEATH(is_noticed([&](Call& c) { c.image = host; }), "host address");
}

}  // namespace
}  // namespace tapegrad
