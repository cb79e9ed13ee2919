// Batched matrix products: one call of cuBLAS each, with arguments that the stand-in records and
// checks, and results that equal the CPU's.
#include <gtest/gtest.h>

#include "core/base/device.h"
#include "core/base/generator.h"
#include "library_calls.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using Calls = std::vector<std::string>;

struct RecordedProducts {
  Calls calls;
  RecordedProducts() { coh::products = &calls; }
  ~RecordedProducts() { coh::products = nullptr; }
};

/// Expects the only call of cuBLAS for a product of views, and the CPU's result.
template <typename Views>
void expect_call(DType dtype, const Shape& shape, const Views& views, const std::string& call) {
  manual_seed(1);
  const Variable x = randn(shape, {.device = cpu}).to(dtype);
  const auto [a, b] = views(x);
  const auto expected = matmul(a, b).to(f64).template to_vector<double>();
  const auto [gpu_a, gpu_b] = views(x.to(gpu));
  RecordedProducts recorded;
  const auto result = matmul(gpu_a, gpu_b).to(f64).template to_vector<double>();
  EXPECT_EQ(recorded.calls, Calls{call}) << dtype << shape;
  ASSERT_EQ(result.size(), expected.size());
  const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : 0.02;
  for (size_t i = 0; i < result.size(); ++i)
    ASSERT_NEAR(result[i], expected[i], tolerance * (1 + std::abs(expected[i])))
        << dtype << ' ' << i;
}

/// Queries and keys of attention, from [batch, time, heads, size].
std::pair<Variable, Variable> queries_and_keys(const Variable& x) {
  const Variable heads = transpose(x, 1, 2);
  return {heads, transpose(heads, -2, -1)};
}

TEST(CudaProducts, BatchesOfHeadsAreOneCall) {
  for (const DType dtype : {f32, f64, f16, bf16})
    expect_call(dtype, {3, 4, 2, 8}, queries_and_keys,
                "gemmBatched(TN, 4 x 4 x 8, ld 16 16 4, batch 6)");
}

TEST(CudaProducts, BroadcastsAmongHeads) {  // one set of keys for all heads
  const auto views = [](const Variable& x) {
    const Variable heads = transpose(x, 1, 2);
    return std::pair(heads, transpose(narrow(heads, 1, 0, 1), -2, -1));
  };
  for (const DType dtype : {f32, bf16})
    expect_call(dtype, {3, 4, 2, 8}, views, "gemmBatched(TN, 4 x 4 x 8, ld 16 16 4, batch 6)");
}

TEST(CudaProducts, MergedStridesNeedNoAddresses) {
  const auto views = [](const Variable& x) { return std::pair(x, transpose(x, -2, -1)); };
  expect_call(f32, {3, 2, 4, 8}, views, "gemmStridedBatched(TN, 4 x 4 x 8, ld 8 8 4, batch 6)");
}

// Heads of 3 elements begin at odd multiples of 2 bytes, for which cuBLAS's tensor cores fault.
TEST(CudaProducts, CopiesOperandsThatAreNotAligned) {
  for (const DType dtype : {f16, bf16})
    expect_call(dtype, {2, 4, 2, 3}, queries_and_keys,
                "gemmStridedBatched(NN, 4 x 4 x 3, ld 4 3 4, batch 4)");
  expect_call(f32, {2, 4, 2, 3}, queries_and_keys, "gemmBatched(TN, 4 x 4 x 3, ld 6 6 4, batch 4)");
  set_matmul_precision(MatmulPrecision::kHigh);
  expect_call(f32, {2, 4, 2, 3}, queries_and_keys,
              "gemmStridedBatched(NN, 4 x 4 x 3, ld 4 3 4, batch 4)");
  set_matmul_precision(MatmulPrecision::kHighest);
}

TEST(CudaProducts, WithoutInnerSize) {
  const Variable heads = transpose(rand({2, 4, 3, 0}, {.device = gpu}), 1, 2);
  for (const double x : matmul(heads, transpose(heads, -2, -1)).to(f64).to_vector<double>())
    EXPECT_EQ(x, 0);
}

}  // namespace
}  // namespace tapegrad
