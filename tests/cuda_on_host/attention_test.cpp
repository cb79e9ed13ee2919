// Blocked attention on a device, compared with composed ops in double on the CPU.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/autograd/derivatives.h"
#include "core/base/allocator.h"
#include "core/dispatch/dispatch_log.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/internal/attention_blocks.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/cases/operand.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

enum class Masked { kNo, kCausal, kBool, kAdded };

struct Sizes {
  int64_t queries, keys, features, width;
};
std::ostream& operator<<(std::ostream& out, const Sizes& s) {
  return out << s.queries << " queries, " << s.keys << " keys, " << s.features << " features, "
             << s.width << " wide";
}

Variable drawn(const Shape& shape, DType dtype) { return randn(shape).to(dtype); }

/// Two examples with two heads, in the layout of a network: [2, length, 2, columns] in memory.
struct Heads {
  Variable q, k, v, dy;  // dy [2, 2, length, columns]
  AttentionOptions options;

  Heads(const Sizes& s, Masked mask, DType dtype)
      : q(drawn({2, s.queries, 2, s.features}, dtype)),
        k(drawn({2, s.keys, 2, s.features}, dtype)),
        v(drawn({2, s.keys, 2, s.width}, dtype)),
        dy(drawn({2, 2, s.queries, s.width}, dtype)) {
    options.is_causal = mask == Masked::kCausal;
    if (mask == Masked::kBool) options.attn_mask = rand({2, 1, s.queries, s.keys}) > 0.3;
    if (mask == Masked::kAdded) options.attn_mask = drawn({2, s.queries, s.keys}, dtype);
  }
};

/// Returns y and the gradients of q, k and v, computed in a dtype on a device.
std::vector<Variable> run(const Heads& heads, DType dtype, Device device, bool by_ops) {
  const auto there = [&](const Variable& x) { return x.to(dtype).to(device); };
  std::vector<Variable> inputs;
  for (const Variable& x : {heads.q, heads.k, heads.v})
    inputs.push_back(there(x).detach().requires_grad_());
  AttentionOptions options = heads.options;
  if (Variable& mask = options.attn_mask; mask.defined())
    mask = mask.dtype() == boolean ? mask.to(device) : there(mask);
  const Variable q = transpose(inputs[0], 1, 2), k = transpose(inputs[1], 1, 2),
                 v = transpose(inputs[2], 1, 2);
  const double scale = 1 / std::sqrt(double(q.size(-1)));
  RandomGenerator generator(11);
  std::vector<Variable> results{by_ops
                                    ? detail::attention_by_ops(q, k, v, options, scale, generator)
                                    : scaled_dot_product_attention(q, k, v, options, generator)};
  for (Variable& dx : grad(sum(results[0] * there(heads.dy)), inputs)) results.push_back(dx);
  return results;
}

/// Tolerance in units of eps(dtype) times the largest element. With 16-bit floats each weight is
/// rounded before it is multiplied (by at most half an eps), y before the gradient reads it, and
/// the result once more. In a gradient whose terms cancel, the error is a few times as large.
double tolerance(DType dtype) { return size_of(dtype) == 2 ? 4 : 32; }

void expect_what_ops_give(const Sizes& sizes, Masked mask, DType dtype, double dropout_p = 0) {
  Heads heads(sizes, mask, dtype);
  heads.options.dropout_p = dropout_p;
  const std::vector<Variable> wanted = run(heads, f64, cpu, /*by_ops=*/true);
  DispatchLog log;
  const std::vector<Variable> got = run(heads, dtype, gpu, /*by_ops=*/false);
  EXPECT_EQ(log.calls("attention"), 1);
  EXPECT_EQ(log.calls("attention_backward"), 1);
  constexpr const char* kNames[] = {"y", "dq", "dk", "dv"};
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(testing::mismatch(testing::to_array(got[i].to(cpu).value()),
                                testing::to_array(wanted[i].value()),
                                tolerance(dtype) * testing::epsilon(dtype)),
              "")
        << kNames[i] << ", " << name(dtype) << ", " << sizes << ", mask " << int(mask);
}

// Tiles have 64 or 32 rows, and rows of 64 or 128 numbers are loaded in groups of eight or one by
// one.
constexpr Sizes kSizes[] = {{1, 1, 1, 1},      {17, 65, 8, 5},    {65, 17, 40, 40},
                            {64, 64, 64, 64},  {129, 70, 64, 32}, {33, 130, 20, 128},
                            {70, 97, 128, 77}, {2, 200, 128, 128}};

class CudaAttentionOf : public ::testing::TestWithParam<DType> {};

TEST_P(CudaAttentionOf, BlocksGiveWhatOpsGive) {
  manual_seed(4);
  for (const Sizes& sizes : kSizes)
    for (const Masked mask : {Masked::kNo, Masked::kCausal, Masked::kBool, Masked::kAdded})
      expect_what_ops_give(sizes, mask, GetParam());
}

TEST_P(CudaAttentionOf, BlocksDropWhatOpsDrop) {
  manual_seed(10);
  for (const Sizes& sizes : kSizes)
    for (const Masked mask : {Masked::kNo, Masked::kCausal})
      if (sizes.queries > 1) expect_what_ops_give(sizes, mask, GetParam(), 0.3);
}

INSTANTIATE_TEST_SUITE_P(, CudaAttentionOf, ::testing::Values(f16, bf16, f32, f64),
                         [](const auto& dtype) { return std::string(name(dtype.param)); });

TEST(CudaAttention, OtherLayouts) {
  manual_seed(5);
  for (const DType dtype : {bf16, f32}) {
    const Variable k = drawn({2, 16, 70}, dtype), v = drawn({1, 70, 16}, dtype),
                   q = drawn({2, 40, 17}, dtype);
    const auto attention = [&](DType type, Device device, bool by_ops) {
      const auto there = [&](const Variable& x) { return x.to(type).to(device); };
      // Rows with odd offsets, elements that are not adjacent, one head broadcast to two.
      const Variable queries = narrow(there(q), -1, 1, 16), keys = transpose(there(k), 1, 2),
                     values = expand(there(v), {2, 70, 16});
      return by_ops ? detail::attention_by_ops(queries, keys, values, {}, 0.25, default_generator())
                    : scaled_dot_product_attention(queries, keys, values);
    };
    DispatchLog log;
    EXPECT_EQ(testing::mismatch(testing::to_array(attention(dtype, gpu, false).to(cpu).value()),
                                testing::to_array(attention(f64, cpu, true).value()),
                                tolerance(dtype) * testing::epsilon(dtype)),
              "");
    EXPECT_EQ(log.calls("attention"), 1);
  }
}

TEST(CudaAttention, AGradientThatBeginsAnywhere) {
  manual_seed(9);
  const Variable x = randn({1, 20, 16}).to(bf16).to(gpu).requires_grad_();
  const Variable numbers = randn({1 + 20 * 16}).to(bf16).to(gpu);
  const Variable dy = reshape(narrow(numbers, 0, 1, 20 * 16), {1, 20, 16});
  const auto gradient = [&](const Variable& above) {
    x.zero_grad();
    scaled_dot_product_attention(x, x, x).backward(above);
    return x.grad().to(cpu).value();
  };
  const Tensor wanted = gradient(clone(dy));
  EXPECT_TRUE(testing::same_bits(gradient(dy), wanted));
}

TEST(CudaAttention, RowsThatSeeNothing) {
  for (const DType dtype : {f16, f32}) {
    const TensorOptions there{.dtype = dtype, .device = gpu};
    const Variable x = ones({3, 2}, there).requires_grad_();
    const Variable seen = tensor({1, 0, 0, 0, 0, 0, 1, 1, 0}, {3, 3}).to(boolean).to(gpu);
    const Variable y = scaled_dot_product_attention(x, x, x, {.attn_mask = seen});
    EXPECT_EQ(y.to(f64).to_vector<double>(), (std::vector<double>{1, 1, 0, 0, 1, 1}));
    for (const double dx : grad(sum(y), x).to(f64).to_vector<double>())
      EXPECT_TRUE(std::isfinite(dx));
    const Variable hidden = full({3, 3}, -INFINITY, there);
    for (const double number :
         scaled_dot_product_attention(x, x, x, {.attn_mask = hidden}).to(f64).to_vector<double>())
      EXPECT_EQ(number, 0);
  }
}

TEST(CudaAttention, LargeScoresDoNotOverflow) {
  for (const DType dtype : {f16, bf16, f32}) {
    // Scores from -900 to 900, with the largest in the last tile.
    const Variable x = (arange(100) - 49.5).to(f32);
    const Variable k = unsqueeze(x * 0.5, 1).to(dtype).to(gpu),
                   v = unsqueeze(x, 1).to(dtype).to(gpu);
    const Variable y =
        scaled_dot_product_attention(full({1, 1}, 36, {.dtype = dtype, .device = gpu}), k, v);
    EXPECT_EQ(y.to(f64).item(), 49.5);
  }
}

TEST(CudaAttention, WideHeadsGoByOps) {
  manual_seed(6);
  const Heads heads({9, 20, 129, 4}, Masked::kCausal, f32);
  DispatchLog log;
  const auto got = run(heads, f32, gpu, false), wanted = run(heads, f64, cpu, true);
  EXPECT_EQ(log.calls("attention"), 0);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(testing::mismatch(testing::to_array(got[i].to(cpu).value()),
                                testing::to_array(wanted[i].value()), 1e-5),
              "");
}

TEST(CudaAttention, OnlyWantedGradientsAreComputed) {
  manual_seed(7);
  const Heads heads({20, 30, 8, 8}, Masked::kNo, f32);
  const auto all = run(heads, f32, gpu, false);
  const auto turned = [](const Variable& x) { return transpose(x, 1, 2).to(gpu); };
  for (size_t one = 0; one < 3; ++one) {
    std::vector<Variable> inputs{turned(heads.q), turned(heads.k), turned(heads.v)};
    inputs[one].requires_grad_();
    const Variable y = scaled_dot_product_attention(inputs[0], inputs[1], inputs[2]);
    const Variable dx = grad(sum(y * heads.dy.to(gpu)), inputs[one]);
    EXPECT_TRUE(
        testing::same_bits(dx.to(cpu).value(), transpose(all[one + 1], 1, 2).to(cpu).value()))
        << one;
  }
}

TEST(CudaAttention, ScoresAreNotStored) {
  const Variable x = randn({1, 2, 512, 16}, {.dtype = f32, .device = gpu}).requires_grad_();
  reset_peak_memory(gpu);
  const int64_t before = memory_stats(gpu).in_use;
  sum(scaled_dot_product_attention(x, x, x)).backward();
  const int64_t scores = 2 * 512 * 512 * int64_t(sizeof(float));
  EXPECT_LT(memory_stats(gpu).peak - before, scores / 2);
}

TEST(CudaAttention, AGraphRepeatsIt) {
  manual_seed(8);
  const Variable x = randn({2, 2, 70, 24}, {.dtype = f32, .device = gpu});
  const auto step_of = [](const Variable& input) {
    Variable leaf = input.detach().to(bf16).requires_grad_();
    const Variable y = scaled_dot_product_attention(leaf, leaf, leaf, {.is_causal = true});
    return grad(sum(y * y), leaf).to(f32);
  };
  GraphedStep step([&](const Variable& input) { return step_of(input); });
  const Tensor wanted = step_of(x).to(cpu).value();
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(testing::same_bits(step(x).to(cpu).value(), wanted)) << i;
  EXPECT_EQ(step.reason(), "");
  EXPECT_TRUE(step.is_graphed());
}

TEST(CudaAttention, AGraphDrawsAnew) {
  const Variable x = randn({2, 2, 70, 24}, {.dtype = f32, .device = gpu});
  const auto step_of = [](const Variable& input) {
    Variable leaf = input.detach().requires_grad_();
    const Variable y = scaled_dot_product_attention(leaf, leaf, leaf, {.dropout_p = 0.2});
    return grad(sum(y * y), leaf);
  };
  manual_seed(8);
  std::vector<Tensor> wanted;
  for (int i = 0; i < 7; ++i) wanted.push_back(step_of(x).to(cpu).value());
  EXPECT_FALSE(testing::same_bits(wanted[5], wanted[6]));
  manual_seed(8);
  GraphedStep step([&](const Variable& input) { return step_of(input); });
  for (int i = 0; i < 7; ++i)
    EXPECT_TRUE(testing::same_bits(step(x).to(cpu).value(), wanted[size_t(i)])) << i;
  EXPECT_TRUE(step.is_graphed()) << step.reason();
}

}  // namespace
}  // namespace tapegrad
