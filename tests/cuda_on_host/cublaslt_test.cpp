// Products with an epilogue, and without one if cuBLASLt has no algorithm.
#include <gtest/gtest.h>

#include <cmath>

#include "core/tape/variable.h"
#include "cublaslt_calls.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/linear.h"
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
  linear_relu(x, weight);  // may run the trial with NaN
  const int before = coh::cublaslt_calls();
  for (const Variable& b : {bias, Variable()})
    EXPECT_EQ(values_of(linear_relu(x, weight, b)),
              values_of(linear_relu(x.to(cpu), weight.to(cpu), b.defined() ? b.to(cpu) : b)));
  EXPECT_EQ(coh::cublaslt_calls() - before, 2);
}

// NVIDIA does not document how the epilogues treat NaN. The backend tests it once per device and
// type; if NaN is lost, our own pass applies the ReLU.
TEST(CudaLinear, CutsByItselfWhereCublasLtLosesNaN) {
  const Device second{DeviceType::kCuda, 1};
  const TensorOptions there{.dtype = f16, .device = second};
  coh::cublaslt_relu_drops_nan(true);
  const int before = coh::cublaslt_calls();
  for (const double value : {double(NAN), 2.0, -3.0})
    for (const Variable& bias : {ones({16}, there), Variable()}) {
      const Variable y = linear_relu(full({8, 8}, value, there), ones({16, 8}, there), bias);
      const double expected =
          std::isnan(value) ? value : std::max(value * 8 + (bias.defined() ? 1 : 0), 0.0);
      for (const double got : values_of(y))
        EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << got;
    }
  EXPECT_EQ(coh::cublaslt_calls() - before, 1 + 3);  // the trial, and three products with a bias
  coh::cublaslt_relu_drops_nan(false);
}

TEST(CudaLinear, TakesGeluOnTheWay) {
  manual_seed(7);
  const auto run = [](const Variable& x, const Variable& weight, const Variable& bias,
                      bool records) {
    std::vector<Variable> leaves{x.detach(), weight.detach(),
                                 bias.defined() ? bias.detach() : bias};
    for (Variable& leaf : leaves)
      if (leaf.defined() && records) leaf.requires_grad_();
    const Variable y = linear_gelu(leaves[0], leaves[1], leaves[2]);
    std::vector<std::vector<double>> results{values_of(y)};
    if (!records) return results;
    sum(y).backward();
    for (const Variable& leaf : leaves)
      if (leaf.defined()) results.push_back(values_of(leaf.grad()));
    return results;
  };
  // Counts the GELU epilogues; the results must be those of the CPU.
  const auto gelus = [&](const Variable& x, const Variable& weight, const Variable& bias,
                         double eps) {
    const int before = coh::cublaslt_gelus();
    for (const bool records : {false, true}) {
      const auto got = run(x, weight, bias, records);
      const auto expected =
          run(x.to(cpu), weight.to(cpu), bias.defined() ? bias.to(cpu) : bias, records);
      for (size_t k = 0; k < got.size(); ++k) {
        double largest = 0;
        for (const double value : expected[k]) largest = std::max(largest, std::abs(value));
        for (size_t i = 0; i < got[k].size(); ++i)
          EXPECT_NEAR(got[k][i], expected[k][i], 2 * eps * largest) << k << ' ' << i;
      }
    }
    return coh::cublaslt_gelus() - before;
  };
  const auto drawn = [](const Shape& shape, DType dtype) {
    return (randn(shape) * 0.5).to(dtype).to(gpu);
  };
  for (const auto& [dtype, eps] : {std::pair{bf16, 0x1p-7}, {f16, 0x1p-10}}) {
    const Variable x = drawn({6, 24}, dtype), weight = drawn({16, 24}, dtype);
    EXPECT_EQ(gelus(x, weight, drawn({16}, dtype), eps), 2);
    EXPECT_EQ(gelus(x, weight, {}, eps), 2);
    EXPECT_EQ(gelus(drawn({2, 3, 24}, dtype), weight, drawn({16}, dtype), eps), 2);
    EXPECT_EQ(gelus(x, drawn({12, 24}, dtype), {}, eps), 0);  // rows of 24 bytes
  }
  const Variable x = drawn({6, 24}, f32), weight = drawn({16, 24}, f32), bias = drawn({16}, f32);
  EXPECT_EQ(gelus(x, weight, bias, 0x1p-23), 0);  // cuBLASLt's GELU is less exact
  set_matmul_precision(MatmulPrecision::kHigh);
  EXPECT_EQ(gelus(x, weight, bias, 0x1p-10), 2);
  // Rows of 12 numbers: no epilogue if the input of the GELU is stored too, which requires
  // multiples of 8.
  EXPECT_EQ(gelus(x, drawn({12, 24}, f32), drawn({12}, f32), 0x1p-10), 1);
  set_matmul_precision(MatmulPrecision::kHighest);
  EXPECT_EQ(gelus(drawn({6, 24}, f64), drawn({16, 24}, f64), {}, 0x1p-50), 0);
}

TEST(CudaLinear, TakesGelusGradientOnTheWay) {
  for (const DType dtype : {bf16, f32}) {
    const auto run = [&](Device device) {
      manual_seed(8);
      std::vector<Variable> in;
      for (const Shape& shape : {Shape{6, 8}, {16, 8}, {16}, {24, 16}, {24}, {8, 24}})
        in.push_back((randn(shape) * 0.5).to(dtype).to(device).requires_grad_());
      const Variable y =
          linear(gelu(linear(linear_gelu(in[0], in[1], in[2]), in[3], in[4]), Gelu::kTanh), in[5]);
      const int before = coh::cublaslt_gelu_gradients();
      sum(y).backward();
      EXPECT_EQ(coh::cublaslt_gelu_gradients() - before, device == gpu && dtype == bf16 ? 2 : 0);
      std::vector<std::vector<double>> results{values_of(y)};
      for (const Variable& leaf : in) results.push_back(values_of(leaf.grad()));
      return results;
    };
    const auto got = run(gpu), expected = run(cpu);
    for (size_t k = 0; k < got.size(); ++k) {
      double largest = 0;
      for (const double value : expected[k]) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < got[k].size(); ++i)
        EXPECT_NEAR(got[k][i], expected[k][i], (dtype == f32 ? 0x1p-21 : 0x1p-5) * largest)
            << dtype << ' ' << k << ' ' << i;
    }
  }
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
