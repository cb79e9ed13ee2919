// Random numbers, products and gradients of one device.
#include <gtest/gtest.h>

#include "core/cuda.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
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
  EXPECT_FALSE(cuda::tf32());
  cuda::set_tf32(true);
  EXPECT_TRUE(cuda::tf32());
  const Variable x = ones({3, 4}, {.device = gpu});
  EXPECT_EQ(sum(matmul(x, transpose(x, 0, 1))).item(), 36);
  cuda::set_tf32(false);
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
        // Of few values, so that many are equal.
        const Variable x = randint(0, 4, {2, 3, 13, 11}).to(dtype).to(device).requires_grad_();
        const Variable y = max_pool2d(x, o);
        sum(y * randn(y.shape(), {.device = device}).to(dtype)).backward();
        return x.grad().to(f64).to_vector<double>();
      };
      EXPECT_EQ(gradient(gpu), gradient(cpu)) << dtype;
    }
}

}  // namespace
}  // namespace tapegrad
