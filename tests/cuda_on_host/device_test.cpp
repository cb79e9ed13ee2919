// Random numbers and products of one device.
#include <gtest/gtest.h>

#include "core/cuda.h"
#include "ops/create.h"
#include "ops/matmul.h"
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

}  // namespace
}  // namespace tapegrad
