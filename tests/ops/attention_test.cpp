// Attention: exact values, errors, and blocks compared with the composed op.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/autograd/gradcheck.h"
#include "core/base/allocator.h"
#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/internal/attention_blocks.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/expect_near.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::expect_near;
using testing::leaf;
using Doubles = std::vector<double>;
Variable wave(const Shape& shape) {
  Doubles numbers(numel(shape));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(double(i * i % 97) + 0.5);
  return tensor(numbers, shape, {.dtype = f64, .requires_grad = true});
}

TEST(Attention, AQueryThatSeesNoKeyGivesZero) {
  const Variable q = wave({2, 3}), k = wave({2, 3}), v = wave({2, 3});
  const Variable mask = tensor({0, 0, 1, 0}, {2, 2}) != 0;
  const Variable y = scaled_dot_product_attention(q, k, v, {.attn_mask = mask});
  const Doubles values = v.to_vector<double>();
  expect_near(y, {0, 0, 0, values[0], values[1], values[2]});
  sum(y).backward();
  for (const Variable& x : {q, k, v})
    for (const double dx : x.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(dx));
  EXPECT_EQ(q.grad().to_vector<double>(), Doubles(6, 0));
}

// Also for a mask that is added, such as that of a sequence of nothing but padding.
TEST(Attention, AMaskOfMinusInfinitiesGivesZero) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const bool by_ops : {false, true}) {
    const Variable q = wave({2, 3}), k = wave({2, 3}), v = wave({2, 3});
    Variable mask = tensor({-infinity, -infinity, 0.0, -infinity}, {2, 2}, {.dtype = f64});
    mask.requires_grad_(by_ops);
    const Variable y = scaled_dot_product_attention(q, k, v, {.attn_mask = mask});
    const Doubles values = v.to_vector<double>();
    expect_near(y, {0, 0, 0, values[0], values[1], values[2]});
    const std::vector<Variable> first = grad({sum(y)}, {q, k, v}, {.create_graph = true});
    EXPECT_EQ(first[0].to_vector<double>(), Doubles(6, 0));
    EXPECT_EQ(first[2].to_vector<double>(), (Doubles{1, 1, 1, 0, 0, 0}));
    for (const Variable& dx : grad({sum(square(first[2] * v))}, {q, k, v}))
      for (const double each : dx.to_vector<double>()) EXPECT_TRUE(std::isfinite(each));
  }
}

TEST(Attention, ScoresOfMinusInfinityAreNotAMask) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Variable q = leaf({1, 1}, {2, 1}), k = leaf({-infinity, 2}, {2, 1}), v = wave({2, 1});
  const Variable mask = tensor({1, 0, 1, 1}, {2, 2}) != 0;
  const Variable y = scaled_dot_product_attention(q, k, v, {.attn_mask = mask});
  EXPECT_TRUE(std::isnan(y[0].item()));  // the only visible key has the score -infinity
  EXPECT_EQ(y[1].item(), v[1].item());
}

TEST(Attention, BroadcastsAndDropsShares) {
  const Variable q = wave({2, 3, 4, 5}), k = wave({6, 5}), v = wave({6, 2});
  EXPECT_EQ(scaled_dot_product_attention(q, k, v).shape(), (Shape{2, 3, 4, 2}));
  EXPECT_EQ(scaled_dot_product_attention(q, k, v, {.dropout_p = 1.0}).to_vector<double>(),
            Doubles(48, 0));
}

TEST(Attention, Refuses) {
  const Variable q = wave({2, 3}), v = wave({2, 4});
  EXPECT_THROW(scaled_dot_product_attention(q, v, v), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(q, q, wave({3, 4})), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(q, q, v, {.attn_mask = q, .is_causal = true}),
               ArgumentError);
  EXPECT_THROW(scaled_dot_product_attention(q, q, v, {.dropout_p = 1.5}), ArgumentError);
  EXPECT_THROW(scaled_dot_product_attention(q, q.to(f32), v), DTypeError);
}

/// softmax(scale q k^T + mask) v, composed of ops that are tested elsewhere.
Variable by_ops(const Variable& q, const Variable& k, const Variable& v, const Variable& added) {
  const double scale = 1 / std::sqrt(double(q.size(-1)));
  return matmul(softmax(matmul(q * scale, transpose(k, -2, -1)) + added, -1), v);
}

// Full and partial blocks of 128 queries and 512 keys; heads in the layout of a network.
TEST(Attention, BlocksGiveWhatOpsGive) {
  enum class Mask { kNone, kCausal, kBool, kAdded };
  manual_seed(3);
  for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {128, 512}, {129, 513}, {200, 600}, {300, 70}})
    for (const Mask mask : {Mask::kNone, Mask::kCausal, Mask::kBool, Mask::kAdded}) {
      const auto heads = [&](int64_t length, int64_t width) {
        return randn({2, length, 3, width}, {.dtype = f64, .requires_grad = true});
      };
      const Variable q = heads(queries, 8), k = heads(keys, 8), v = heads(keys, 5);
      const std::vector<Variable> inputs{q, k, v};
      const auto turned = [](const Variable& x) { return transpose(x, 1, 2); };
      const TensorOptions wide{.dtype = f64};
      Variable added = zeros({queries, keys}, wide), seen;
      AttentionOptions options{.is_causal = mask == Mask::kCausal};
      if (mask == Mask::kCausal) seen = unsqueeze(arange(queries), 1) >= arange(keys);
      if (mask == Mask::kBool) seen = rand({2, 1, queries, keys}) > 0.2, options.attn_mask = seen;
      if (mask == Mask::kAdded) added = options.attn_mask = randn({3, queries, keys}, wide);
      if (seen.defined()) added = where(seen, 0.0, -INFINITY).to(f64);
      if (mask == Mask::kBool && keys == 1) continue;  // may hide the only key
      const Variable wanted = by_ops(turned(q), turned(k), turned(v), added);
      const Variable factor = randn(wanted.shape(), wide);
      const auto gradients = grad(sum(wanted * factor), inputs);
      const Variable y = scaled_dot_product_attention(turned(q), turned(k), turned(v), options);
      const auto expect_close = [&](const Variable& got, const Variable& want, double tolerance) {
        EXPECT_LT(max(abs(got.to(f64) - want)).item(), tolerance)
            << queries << " x " << keys << ", mask " << int(mask);
      };
      expect_close(y, wanted, 1e-13);
      const auto got = grad(sum(y * factor), inputs);
      for (size_t i = 0; i < inputs.size(); ++i) expect_close(got[i], gradients[i], 1e-12);
      const auto low = [&](const Variable& x) { return turned(x).to(f32); };
      if (mask == Mask::kAdded) options.attn_mask = added.to(f32);
      expect_close(scaled_dot_product_attention(low(q), low(k), low(v), options), wanted, 1e-5);
    }
}

// 64 heads of short sequences are computed by ops, 16 at a time in blocks.
TEST(Attention, ShortSequencesOfManyHeads) {
  manual_seed(4);
  const auto drawn = [](int64_t length) { return randn({32, 2, length, 8}, {.dtype = f64}); };
  for (const int64_t keys : {5, 7})
    for (const int kind : {0, 1, 2}) {
      const Variable q = drawn(5).requires_grad_(), k = drawn(keys).requires_grad_(),
                     v = drawn(keys).requires_grad_();
      AttentionOptions options;
      if (kind == 1) options.is_causal = true;
      if (kind == 2) options.attn_mask = rand({5, keys}) > 0.3;
      const Variable y = scaled_dot_product_attention(q, k, v, options);
      std::vector<Variable> parts;
      for (int64_t i = 0; i < 32; i += 8)
        parts.push_back(scaled_dot_product_attention(q.slice(0, i, i + 8), k.slice(0, i, i + 8),
                                                     v.slice(0, i, i + 8), options));
      const Variable whole = cat(parts, 0), seed = drawn(5);
      EXPECT_TRUE(allclose(y, whole, 1e-12, 1e-12));
      const std::vector<Variable> all{q, k, v};
      const auto dx = grad(sum(y * seed), all), dz = grad(sum(whole * seed), all);
      for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(allclose(dx[i], dz[i], 1e-10, 1e-12)) << i;
    }
}

TEST(Attention, BlocksDropWhatOpsDrop) {
  manual_seed(4);
  for (const auto& [queries, keys] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 5}, {128, 512}, {130, 515}, {257, 70}})
    for (const bool causal : {false, true}) {
      const auto heads = [](int64_t length, int64_t width) {
        return randn({2, 3, length, width}, {.dtype = f64, .requires_grad = true});
      };
      const std::vector<Variable> inputs{heads(queries, 8), heads(keys, 8), heads(keys, 5)};
      const auto& [q, k, v] = std::tie(inputs[0], inputs[1], inputs[2]);
      const AttentionOptions options{.dropout_p = 0.3, .is_causal = causal};
      RandomGenerator one(7), other(7);
      const Variable y = scaled_dot_product_attention(q, k, v, options, one);
      const Variable wanted = detail::attention_by_ops(q, k, v, options, 1 / std::sqrt(8.0), other);
      EXPECT_EQ(one.state(), other.state());
      EXPECT_LT(max(abs(y - wanted)).item(), 1e-13) << queries << " x " << keys;
      const Variable factor = randn(y.shape(), {.dtype = f64});
      const auto got = grad(sum(y * factor), inputs), want = grad(sum(wanted * factor), inputs);
      for (size_t i = 0; i < inputs.size(); ++i)
        EXPECT_LT(max(abs(got[i] - want[i])).item(), 1e-12) << queries << " x " << keys;
    }
  const auto small = [] { return randn({2, 3}, {.dtype = f64, .requires_grad = true}); };
  const auto result = gradcheck(
      [](const std::vector<Variable>& in) {
        RandomGenerator generator(9);
        return scaled_dot_product_attention(in[0], in[1], in[2], {.dropout_p = 0.4}, generator);
      },
      {small(), small(), small()}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

// Views of fewer heads give the bits of repeated heads, in blocks and with gradients.
TEST(Attention, HeadsOfGroupsAndBroadcastHeads) {
  manual_seed(5);
  const auto heads = [](int64_t count, int64_t length) {
    return randn({2, count, length, 8}, {.dtype = f64, .requires_grad = true});
  };
  const Variable q = heads(6, 130);
  for (const int64_t groups : {1, 2, 3, 6})
    for (const int kind : {0, 1, 2, 3}) {
      const Variable k = heads(groups, 70), v = heads(groups, 70);
      const std::vector<Variable> inputs{q, k, v};
      AttentionOptions options{.is_causal = kind == 1};
      if (kind == 2) options.attn_mask = rand({2, 6, 130, 70}) > 0.2;
      if (kind == 3) options.attn_mask = randn({2, 1, 130, 70}, {.dtype = f64});
      const auto repeated = [&](const Variable& x) { return repeat_interleave(x, 6 / groups, 1); };
      const Variable wanted = scaled_dot_product_attention(q, repeated(k), repeated(v), options);
      const Variable factor = randn(wanted.shape(), {.dtype = f64});
      const auto gradients = grad(sum(wanted * factor), inputs);
      options.enable_gqa = true;
      std::vector<Variable> results{scaled_dot_product_attention(q, k, v, options)};
      options.enable_gqa = false;
      if (groups == 1) results.push_back(scaled_dot_product_attention(q, k, v, options));
      for (const Variable& y : results) {
        EXPECT_EQ(y.to_vector<double>(), wanted.to_vector<double>()) << groups << ", " << kind;
        const auto got = grad(sum(y * factor), inputs);
        for (size_t i = 0; i < inputs.size(); ++i)
          EXPECT_LT(max(abs(got[i] - gradients[i])).item(), 1e-12) << groups << ", " << kind;
      }
    }
  const Variable x = randn({4, 2, 1024, 16}, {.requires_grad = true});
  const Variable key = randn({2, 1024, 16}, {.requires_grad = true});
  reset_peak_memory();
  const int64_t before = memory_stats().in_use;
  sum(scaled_dot_product_attention(x, key, key)).backward();
  EXPECT_LT(memory_stats().peak - before, 8 * 1024 * 1024 * int64_t(sizeof(float)));  // of scores
  EXPECT_THROW(scaled_dot_product_attention(q, heads(4, 5), heads(4, 5), {.enable_gqa = true}),
               ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(q, heads(4, 5), heads(4, 5)), ShapeError);
}

TEST(Attention, ScoresAreNotStored) {
  const Variable x = randn({1, 2, 2048, 16}, {.requires_grad = true});
  const auto peak_of = [](auto run) {
    reset_peak_memory();
    const int64_t before = memory_stats().in_use;
    run();
    return memory_stats().peak - before;
  };
  const int64_t scores = 2 * 2048 * 2048 * sizeof(float);
  EXPECT_GT(peak_of([&] { sum(by_ops(x, x, x, zeros({1}))).backward(); }), 2 * scores);
  for (const double p : {0.0, 0.2})
    EXPECT_LT(
        peak_of([&] { sum(scaled_dot_product_attention(x, x, x, {.dropout_p = p})).backward(); }),
        scores / 8);
}

TEST(Attention, AMaskChangedBehindIsFound) {
  const Variable q = wave({2, 3});
  Variable mask = wave({2, 2}).detach();
  const Variable y = scaled_dot_product_attention(q, q, q, {.attn_mask = mask});
  mask += 1.0;
  EXPECT_THROW(sum(y).backward(), AutogradError);
}

}  // namespace
}  // namespace tapegrad
