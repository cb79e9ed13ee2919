// Products with an epilogue, and without one where cuBLASLt has no algorithm.
#include <gtest/gtest.h>

#include "core/variable.h"
#include "cublaslt_calls.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

/// Small whole numbers: sums are exact in every type.
Variable whole(const Shape& shape, DType dtype = f32) {
  return randint(-2, 3, shape).to(dtype).to(gpu);
}
std::vector<double> values_of(const Variable& x) { return x.to(f64).to_vector<double>(); }

TEST(CudaLinear, AddsTheBiasOnTheWay) {
  manual_seed(2);
  for (const DType dtype : {f32, bf16, f16}) {
    const Variable x = whole({6, 24}, dtype), weight = whole({16, 24}, dtype);
    const Variable bias = whole({16}, dtype);
    const auto expected = values_of(linear(x.to(cpu), weight.to(cpu), bias.to(cpu)));
    for (int again = 0; again < 2; ++again) {
      const int before = coh::cublaslt_calls();
      EXPECT_EQ(values_of(linear(x, weight, bias)), expected) << dtype;
      EXPECT_EQ(coh::cublaslt_calls() - before, 1);
    }
    const Variable columns = t(whole({24, 8}, dtype));  // a transposed operand
    EXPECT_EQ(values_of(linear(columns, weight, bias)),
              values_of(linear(columns.to(cpu), weight.to(cpu), bias.to(cpu))));
  }
}

TEST(CudaLinear, GoesWithoutWhereThereIsNoAlgorithm) {
  manual_seed(3);
  const int before = coh::cublaslt_calls();
  const auto expect_same = [](const Variable& x, const Variable& weight, const Variable& bias) {
    EXPECT_EQ(values_of(linear(x, weight, bias)),
              values_of(linear(x.to(cpu), weight.to(cpu), bias.to(cpu))));
  };
  expect_same(whole({6, 8}), whole({5, 8}), whole({5}));  // rows of 20 bytes
  expect_same(reshape(narrow(whole({49}), 0, 1, 48), {6, 8}), whole({4, 8}), whole({4}));
  expect_same(whole({6, 8}, f64), whole({4, 8}, f64), whole({4}, f64));
  expect_same(whole({0, 8}), whole({4, 8}), whole({4}));
  expect_same(whole({6, 0}), whole({4, 0}), whole({4}));
  EXPECT_EQ(coh::cublaslt_calls(), before);
}

TEST(CudaLinear, CutsAtZeroOnTheWay) {
  manual_seed(4);
  const Variable x = whole({6, 24}), weight = whole({16, 24}), bias = whole({16});
  const int before = coh::cublaslt_calls();
  for (const Variable& b : {bias, Variable()})
    EXPECT_EQ(values_of(linear_relu(x, weight, b)),
              values_of(linear_relu(x.to(cpu), weight.to(cpu), b ? b.to(cpu) : b)));
  EXPECT_EQ(coh::cublaslt_calls() - before, 2);
}

TEST(CudaLinear, SumsTheBiasGradientOnTheWayToTheWeights) {
  for (const DType dtype : {f32, bf16}) {
    const auto gradients = [&](Device device) {
      manual_seed(5);
      const auto leaf = [&](const Shape& shape) {
        return whole(shape, dtype).to(device).requires_grad_();
      };
      const Variable x = leaf({8, 24}), weight = leaf({16, 24}), bias = leaf({16});
      const Variable y = linear_relu(x, weight, bias), seed = whole({8, 16}, dtype).to(device);
      const int before = coh::cublaslt_calls();
      sum(y * seed).backward();
      EXPECT_EQ(coh::cublaslt_calls() - before, device == cpu ? 0 : 1);
      std::vector<std::vector<double>> results;
      for (const Variable& leaf : {x, weight, bias}) results.push_back(values_of(leaf.grad()));
      return results;
    };
    EXPECT_EQ(gradients(gpu), gradients(cpu));
  }
}

}  // namespace
}  // namespace tapegrad
