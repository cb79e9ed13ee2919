// Speed of kernels that multiply matrices, from their number of multiplications and additions.
#include <cublas_v2.h>

#include <cmath>

#include "backends/cuda/blas/blas.h"
#include "backends/cuda/runtime/library.h"
#include "benchmarks/gpu.h"
#include "benchmarks/measure.h"
#include "core/base/error.h"
#include "core/cuda.h"
#include "core/tape/recording.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/internal/attention_blocks.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"

namespace tapegrad::bench {
namespace {

using ::bench::print_line;

/// The product of two square matrices by cuBLAS alone, without this library's overhead.
class Cublas {
 public:
  Cublas() {
    if (create_(&handle_) != CUBLAS_STATUS_SUCCESS) fail<cuda::CudaError>("gpu: cublasCreate");
  }
  void multiply(const Tensor& a, const Tensor& b, Tensor& c) const {
    const int n = int(c.shape()[0]);
    const cudaDataType_t type = backends::cuda::data_type(c.dtype());
    const float one = 1, zero = 0;
    set_stream_(handle_, static_cast<cudaStream_t>(cuda::current_stream().native()));
    if (gemm_(handle_, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, static_cast<const void*>(&one),
              static_cast<const void*>(b.storage().data()), type, n,
              static_cast<const void*>(a.storage().data()), type, n,
              static_cast<const void*>(&zero), static_cast<void*>(c.storage().data()), type, n,
              backends::cuda::compute_type(c.dtype()),
              CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS)
      fail<cuda::CudaError>("gpu: cublasGemmEx");
  }

 private:
  template <typename F>
  using Found = backends::cuda::Found<F>;
  /// Selects one of two overloads in the header.
  using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                              int k, const void* alpha, const void* a, cudaDataType, int lda,
                              const void* b, cudaDataType, int ldb, const void* beta, void* c,
                              cudaDataType, int ldc, cublasComputeType_t, cublasGemmAlgo_t);
  static_assert(requires { static_cast<Gemm*>(&cublasGemmEx); });

  const Found<decltype(cublasCreate_v2)> create_{backends::cuda::find_in_cublas("cublasCreate_v2")};
  const Found<decltype(cublasSetStream_v2)> set_stream_{
      backends::cuda::find_in_cublas("cublasSetStream_v2")};
  const Found<Gemm> gemm_{backends::cuda::find_in_cublas("cublasGemmEx")};
  cublasHandle_t handle_ = nullptr;
};

/// Prints the TFLOP/s of a call with `products` products of [n, n] x [n, n].
void print_products(const std::string& name, int64_t n, double products,
                    const std::function<void()>& call) {
  print_line(name + '.' + std::to_string(n),
             products * 2e-9 * double(n) * double(n) * double(n) / device_ms(call), "TFLOP/s");
}

/// One layer with cuBLASLt's epilogues, and three layers with the gradients of their weights.
void measure_layers(int64_t n) {
  const TensorOptions options{.dtype = bf16};
  const Variable x = randn({n, n}, options), bias = randn({n}, options);
  std::vector<Variable> weights;
  for (int i = 0; i < 3; ++i)
    weights.push_back(randn({n, n}, options) * (1 / std::sqrt(double(n))));
  {
    const NoGrad no_grad;
    print_products("linear.bfloat16", n, 1, [&] { linear(x, weights[0], bias); });
    print_products("linear_relu.bfloat16", n, 1, [&] { linear_relu(x, weights[0], bias); });
    print_products("linear_gelu.bfloat16", n, 1, [&] { linear_gelu(x, weights[0], bias); });
  }
  for (Variable& weight : weights) weight = weight.detach().requires_grad_();
  const auto layers = [&](Activation activation) {
    const Epilogue epilogue{activation};
    grad(sum(linear(linear(linear(x, weights[0], bias, epilogue), weights[1], bias, epilogue),
                    weights[2])),
         weights);
  };
  print_products("relu_layers.bfloat16", n, 8, [&] { layers(Activation::kRelu); });
  print_products("gelu_layers.bfloat16", n, 8, [&] { layers(Activation::kGelu); });
}

}  // namespace

void measure_products() {
  const Cublas cublas;
  const auto lines = [&](const std::string& kind, DType dtype) {
    const NoGrad no_grad;
    for (const int64_t n : {1024, 4096, 8192}) {
      const Variable a = rand({n, n}, {.dtype = dtype}), b = rand({n, n}, {.dtype = dtype});
      Tensor c = matmul(a, b).value();
      print_products("cublas." + kind, n, 1, [&] { cublas.multiply(a.value(), b.value(), c); });
      print_products("matmul." + kind, n, 1, [&] { matmul(a, b); });
    }
  };
  lines("float32", f32);
  set_matmul_precision(MatmulPrecision::kHigh);
  lines("tf32", f32);
  set_matmul_precision(MatmulPrecision::kHighest);
  lines("float16", f16);
  lines("bfloat16", bf16);
  for (const int64_t n : {1024, 4096}) measure_layers(n);
}

/// Attention with 16 heads, causal and not; forward, and with the gradients of all three operands.
void measure_attention() {
  const auto line = [](DType dtype, int64_t length, int64_t features, bool causal, bool blocks) {
    const Variable x = randn({16, length, features}, {.dtype = dtype}).requires_grad_();
    const double scale = 1 / std::sqrt(double(features));
    const auto run = [&] {
      const AttentionOptions options{.is_causal = causal};
      return blocks ? scaled_dot_product_attention(x, x, x, options)
                    : detail::attention_by_ops(x, x, x, options, scale, default_generator());
    };
    // Counts two products forward and five for the gradient, even if a kernel computes more.
    const double product =
        16 * 2e-9 * double(length) * double(length) * double(features) / (causal ? 2 : 1);
    const std::string name = std::string(blocks ? "attention." : "attention_by_ops.") +
                             std::string(tapegrad::name(dtype)) + '.' + std::to_string(length) +
                             'x' + std::to_string(features) + (causal ? ".causal" : "");
    print_line(name, 2 * product / device_ms([&] {
                       const NoGrad no_grad;
                       run();
                     }),
               "TFLOP/s");
    const Variable dy = ones_like(x).detach();
    print_line(name + ".with_gradient", 7 * product / device_ms([&] { run().backward(dy); }),
               "TFLOP/s");
  };
  for (const DType dtype : {bf16, f32})
    for (const int64_t features : {64, 128})
      for (const bool causal : {false, true})
        for (const bool blocks : {true, false}) line(dtype, 2048, features, causal, blocks);
}

}  // namespace tapegrad::bench
