// Attention by cuDNN's graphs: that it is asked, and for what, and that it agrees with blocks.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/attention_cudnn.h"
#include "backends/cuda/cudnn.h"
#include "backends/cuda/cudnn_graph.h"
#include "core/allocator.h"
#include "core/cuda.h"
#include "core/functional.h"
#include "core/variable.h"
#include "cudnn_calls.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

using namespace backends::cuda;

/// The examples, heads, queries, keys, columns of q and k, and of v.
struct Sizes {
  int64_t examples, heads, queries, keys, features, width;
};
constexpr Sizes kEnough{2, 2, 512, 512, 8, 16};  // of scores, for cuDNN

struct Heads {
  Variable q, k, v;

  /// In memory as a network has them, or dense.
  explicit Heads(const Sizes& s, DType dtype = bf16, bool in_order = false) {
    const auto draw = [&](int64_t length, int64_t columns) {
      return in_order
                 ? randn({s.examples, s.heads, length, columns}).to(dtype).to(gpu)
                 : transpose(randn({s.examples, length, s.heads, columns}).to(dtype).to(gpu), 1, 2);
    };
    q = draw(s.queries, s.features);
    k = draw(s.keys, s.features);
    v = draw(s.keys, s.width);
  }
};

struct Results {
  std::vector<std::vector<double>> values;  // y, and the gradients in q, k and v
  int graphs;                               // that cuDNN ran for them
};
Results run(const Heads& heads, const AttentionOptions& options = {}, bool by_cudnn = true) {
  const bool before = use_cudnn(by_cudnn);
  const int graphs = coh::cudnn_graphs_run();
  Results results;
  const Variable q = heads.q.detach().requires_grad_(), k = heads.k.detach().requires_grad_(),
                 v = heads.v.detach().requires_grad_();
  const Variable y = scaled_dot_product_attention(q, k, v, options);
  std::vector<Variable> all{y};
  for (const Variable& dx : grad(sum(y * y), std::vector{q, k, v})) all.push_back(dx);
  for (const Variable& x : all) results.values.push_back(x.to(f64).to_vector<double>());
  results.graphs = coh::cudnn_graphs_run() - graphs;
  use_cudnn(before);
  return results;
}

bool goes_by_cudnn(const Heads& heads, const AttentionOptions& options = {}) {
  const int graphs = coh::cudnn_graphs_run();
  scaled_dot_product_attention(heads.q, heads.k, heads.v, options);
  return coh::cudnn_graphs_run() == graphs + 1;
}

/// What both round on their way, of the largest element of each.
void expect_near(const Results& got, const Results& wanted, double tolerance) {
  constexpr const char* kNames[] = {"y", "dq", "dk", "dv"};
  for (size_t i = 0; i < 4; ++i) {
    double largest = 0, difference = 0;
    for (size_t j = 0; j < wanted.values[i].size(); ++j) {
      largest = std::max(largest, std::abs(wanted.values[i][j]));
      difference = std::max(difference, std::abs(got.values[i][j] - wanted.values[i][j]));
      ASSERT_FALSE(std::isnan(got.values[i][j]));
    }
    EXPECT_LE(difference, tolerance * largest) << kNames[i];
  }
}

TEST(CudaCudnnAttention, GivesWhatBlocksGive) {
  manual_seed(1);
  constexpr Sizes kLonger{1, 3, 440, 800, 16, 8};  // more keys than queries; no multiples of 64
  for (const bool causal : {false, true})
    for (const Sizes& sizes : {kEnough, kLonger}) {
      const DType dtype = causal ? bf16 : f16;
      SCOPED_TRACE(testing::Message() << dtype << ", " << sizes.keys << " keys");
      const Heads heads(sizes, dtype, /*in_order=*/causal);
      const Results by_cudnn = run(heads, {.is_causal = causal});
      EXPECT_EQ(by_cudnn.graphs, 2);
      const Results by_blocks = run(heads, {.is_causal = causal}, /*by_cudnn=*/false);
      EXPECT_EQ(by_blocks.graphs, 0);
      // Weights are rounded before they are multiplied, y before the gradient reads it.
      expect_near(by_cudnn, by_blocks, dtype == bf16 ? 4 * 0x1p-8 : 4 * 0x1p-11);
    }
}

TEST(CudaCudnnAttention, BlocksDoWhatItDoesNot) {
  manual_seed(2);
  const Heads heads(kEnough);
  EXPECT_TRUE(goes_by_cudnn(heads));
  EXPECT_FALSE(goes_by_cudnn(heads, {.attn_mask = randn({512, 512}).to(bf16).to(gpu)}));
  EXPECT_FALSE(goes_by_cudnn(heads, {.dropout_p = 0.5}));
  EXPECT_FALSE(goes_by_cudnn(Heads(kEnough, f32)));
  EXPECT_FALSE(goes_by_cudnn(Heads({2, 2, 64, 64, 8, 8})));     // few scores
  EXPECT_FALSE(goes_by_cudnn(Heads({2, 2, 512, 512, 12, 8})));  // columns in no eights
  EXPECT_FALSE(goes_by_cudnn(Heads({2, 2, 512, 512, 24, 8})));  // cuDNN knows no way
  Heads shifted(kEnough);
  shifted.q = transpose(narrow(randn({2, 512, 2, 12}).to(bf16).to(gpu), 3, 4, 8), 1, 2);
  EXPECT_FALSE(goes_by_cudnn(shifted));  // rows that begin anywhere
}

TEST(CudaCudnnAttention, OnlyWantedGradients) {
  manual_seed(3);
  const Heads heads(kEnough);
  const Variable v = heads.v.detach().requires_grad_();
  const Variable y = scaled_dot_product_attention(heads.q, heads.k, v);
  const int before = coh::cudnn_graphs_run();
  const Variable dv = grad(sum(y * y), v);
  EXPECT_EQ(coh::cudnn_graphs_run() - before, 1);
  EXPECT_EQ(dv.to(f64).to_vector<double>(), run(heads).values[3]);
}

TEST(CudaCudnnAttention, SecondDerivativesAreMadeOfOps) {
  manual_seed(4);
  const Heads heads(kEnough, f16);
  const Variable q = heads.q.detach().requires_grad_();
  const auto twice = [&](bool by_cudnn) {
    const bool before = use_cudnn(by_cudnn);
    const Variable y = scaled_dot_product_attention(q, heads.k, heads.v);
    const Variable dq = grad(sum(y * y), q, {.create_graph = true});
    const Variable result = grad(sum(dq * dq), q);
    use_cudnn(before);
    return result.to(f64).to_vector<double>();
  };
  const auto a = twice(true), b = twice(false);
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  EXPECT_LE(difference, 16 * 0x1p-11 * largest);
}

TEST(CudaCudnnAttention, BlocksWantNoMemoryForAWorkspace) {
  manual_seed(5);
  const Heads heads({1, 1, 1024, 1024, 40, 8});
  empty_cache(gpu);
  const MemoryStats before = memory_stats(gpu);
  set_memory_limit(before.in_use + before.cached + (8 << 20), gpu);
  EXPECT_FALSE(goes_by_cudnn(heads));
  set_memory_limit(-1, gpu);
  EXPECT_TRUE(goes_by_cudnn(heads));
}

TEST(CudaCudnnAttention, PlantedMistakesAreNoticed) {
  using cuda::CudaError;
  Graph g;
  const Graph::Value x = g.tensor(Graph::dense({1, 1, 2, 4}, CUDNN_DATA_HALF)), half = g.number();
  const Graph::Value y = g.tensor(Graph::dense({1, 1, 2, 4}));
  EXPECT_THROW(g.tensor(Graph::dense({1, 0, 2, 4})), CudaError);
  EXPECT_THROW(g.matmul(x, x), CudaError);
  EXPECT_THROW(g.map(CUDNN_POINTWISE_MUL, half, x), CudaError);  // of the form of a number
  EXPECT_THROW(g.map(CUDNN_POINTWISE_EXP, x, half), CudaError);  // has one operand
  g.map(CUDNN_POINTWISE_MUL, x, half, y);
  const CudnnUse use(gpu);
  const auto plan = g.plan({.handle = use.handle()});
  ASSERT_TRUE(plan);
  const Tensor from = Tensor::full({8}, 3, f16, gpu), to = Tensor::full({8}, 0, f32, gpu);
  const float factor = 0.5;
  const auto run = [&](std::vector<const void*> addresses) { plan->run(use, addresses); };
  run({address_of(from), &factor, address_of(to)});
  EXPECT_EQ(Variable(to).to_vector<float>(), std::vector<float>(8, 1.5f));
  EXPECT_THROW(run({address_of(from), &factor}), CudaError);
  EXPECT_THROW(run({address_of(from), &factor, to.data<float>() + 1}), CudaError);
  alignas(16) float host[8] = {};
  EXPECT_DEATH(run({address_of(from), &factor, host}), "host address");
}

TEST(CudaCudnnAttention, AGraphRepeatsTheBits) {
  const auto train = [](bool graph) {
    manual_seed(6);
    const Heads heads(kEnough);
    Variable weight = randn({8, 8}).to(bf16).to(gpu).requires_grad_();
    GraphedStep step(
        [&](const Variable& x) {
          weight.zero_grad();
          const Variable y =
              scaled_dot_product_attention(x * sum(weight), heads.k, heads.v, {.is_causal = true});
          const Variable loss = sum((y * y).to(f32));
          loss.backward();
          return loss;
        },
        {}, {.enabled = graph});
    std::vector<double> results;
    for (int i = 0; i < 4; ++i) {
      results.push_back(step(heads.q * double(i + 1)).item());
      for (const double dx : weight.grad().to(f64).to_vector<double>()) results.push_back(dx);
    }
    EXPECT_EQ(step.is_graphed(), graph) << step.reason();
    return results;
  };
  EXPECT_EQ(train(true), train(false));
}

}  // namespace
}  // namespace tapegrad
