// Which ops use cuDNN's graphs, and that the stand-in detects invalid graphs.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/cudnn/graph.h"
#include "core/autograd/derivatives.h"
#include "core/base/allocator.h"
#include "core/cuda.h"
#include "core/tape/variable.h"
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

/// Numbers of examples, heads, queries and keys; columns of q and k, and of v.
struct Sizes {
  int64_t examples, heads, queries, keys, features, width;
};
constexpr Sizes kEnough{2, 2, 512, 512, 8, 16};  // enough scores for cuDNN

struct Heads {
  Variable q, k, v;

  /// In the layout of a network, or dense.
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

bool goes_by_cudnn(const Heads& heads, const AttentionOptions& options = {}) {
  const int graphs = coh::cudnn_graphs_run();
  scaled_dot_product_attention(heads.q, heads.k, heads.v, options);
  return coh::cudnn_graphs_run() == graphs + 1;
}

TEST(CudaCudnnGraph, BlocksDoWhatItDoesNot) {
  manual_seed(2);
  const Heads heads(kEnough);
  EXPECT_TRUE(goes_by_cudnn(heads));
  EXPECT_FALSE(goes_by_cudnn(heads, {.attn_mask = randn({512, 512}).to(bf16).to(gpu)}));
  EXPECT_FALSE(goes_by_cudnn(heads, {.dropout_p = 0.5}));
  EXPECT_FALSE(goes_by_cudnn(Heads(kEnough, f32)));
  EXPECT_FALSE(goes_by_cudnn(Heads({2, 2, 64, 64, 8, 8})));  // too few scores
  // the number of keys is not a multiple of 128
  EXPECT_FALSE(goes_by_cudnn(Heads({2, 2, 512, 576, 8, 8})));
  EXPECT_FALSE(goes_by_cudnn(Heads({2, 2, 576, 512, 8, 8})));
  // the number of columns is not a multiple of eight
  EXPECT_FALSE(goes_by_cudnn(Heads({2, 2, 512, 512, 12, 8})));
  EXPECT_FALSE(goes_by_cudnn(Heads({2, 2, 512, 512, 24, 8})));  // not supported by cuDNN
  EXPECT_FALSE(goes_by_cudnn(Heads({2, 2, 512, 512, 56, 8})));  // fails when executed
  Heads other(kEnough);
  const auto columns = [](int64_t first) {
    return transpose(narrow(randn({2, 512, 2, 12}).to(bf16).to(gpu), 3, first, 8), 1, 2);
  };
  for (const int64_t first : {0, 4}) {  // rows that are not aligned to 16 bytes
    other.q = columns(first);
    EXPECT_FALSE(goes_by_cudnn(other)) << first;
  }
}

TEST(CudaCudnnGraph, PlansAreToldApart) {
  manual_seed(6);
  const Heads heads(kEnough);
  const auto first_and_last_row = [&](bool causal) {
    const Variable y =
        scaled_dot_product_attention(heads.q, heads.k, heads.v, {.is_causal = causal});
    const auto row = [&](int64_t i) { return select(y, 2, i).to(f64).to_vector<double>(); };
    return std::pair{row(0), row(511)};
  };
  const auto all = first_and_last_row(false), causal = first_and_last_row(true);
  EXPECT_EQ(all.second, causal.second);  // sees all keys in both cases
  EXPECT_NE(all.first, causal.first);
}

TEST(CudaCudnnGraph, AGradientThatBeginsAnywhere) {
  manual_seed(7);
  const Heads heads(kEnough);
  const Variable q = heads.q.detach().requires_grad_();
  const Variable y = scaled_dot_product_attention(q, heads.k, heads.v);
  const Variable numbers = randn({1 + y.numel()}).to(bf16).to(gpu);
  const int before = coh::cudnn_graphs_run();
  y.backward(reshape(narrow(numbers, 0, 1, y.numel()), y.shape()));
  EXPECT_EQ(coh::cudnn_graphs_run(), before);  // our blocked kernel ran
}

TEST(CudaCudnnGraph, OnlyWantedGradients) {
  manual_seed(3);
  const Heads heads(kEnough);
  const auto gradients = [&](std::vector<int> wanted) {
    std::vector<Variable> inputs;
    for (const Variable* x : {&heads.q, &heads.k, &heads.v}) inputs.push_back(x->detach());
    std::vector<Variable> leaves;
    for (const int i : wanted) leaves.push_back(inputs[size_t(i)].requires_grad_());
    const Variable y = scaled_dot_product_attention(inputs[0], inputs[1], inputs[2]);
    const int before = coh::cudnn_graphs_run();
    std::vector<std::vector<double>> values;
    for (const Variable& dx : grad(sum(y * y), leaves))
      values.push_back(dx.to(f64).to_vector<double>());
    EXPECT_EQ(coh::cudnn_graphs_run() - before, 1);
    return values;
  };
  const auto all = gradients({0, 1, 2});
  EXPECT_EQ(gradients({2})[0], all[2]);
  EXPECT_EQ(gradients({1, 0}), (std::vector{all[1], all[0]}));
}

TEST(CudaCudnnGraph, SecondDerivativesAreMadeOfOps) {
  manual_seed(4);
  const Heads heads(kEnough);
  const Variable q = heads.q.detach().requires_grad_();
  const Variable y = scaled_dot_product_attention(q, heads.k, heads.v);
  const int before = coh::cudnn_graphs_run();
  const Variable dq = grad(sum(y * y), q, {.create_graph = true});
  EXPECT_EQ(coh::cudnn_graphs_run(), before);
  for (const double number : grad(sum(dq * dq), q).to(f64).to_vector<double>())
    ASSERT_TRUE(std::isfinite(number));
}

TEST(CudaCudnnGraph, BlocksWantNoMemoryForAWorkspace) {
  manual_seed(5);
  const Heads heads({1, 1, 1024, 1024, 40, 8});
  empty_cache(gpu);
  const MemoryStats before = memory_stats(gpu);
  set_memory_limit(before.in_use + before.cached + (8 << 20), gpu);
  EXPECT_FALSE(goes_by_cudnn(heads));
  set_memory_limit(-1, gpu);
  EXPECT_TRUE(goes_by_cudnn(heads));
}

TEST(CudaCudnnGraph, PlantedMistakesAreNoticed) {
  using cuda::CudaError;
  Graph g;
  const Graph::Value x = g.tensor(Graph::dense({1, 1, 2, 4}, CUDNN_DATA_HALF)), half = g.number();
  const Graph::Value y = g.tensor(Graph::dense({1, 1, 2, 4}));
  EXPECT_THROW(g.tensor(Graph::dense({1, 0, 2, 4})), CudaError);
  EXPECT_THROW(g.matmul(x, x), CudaError);
  EXPECT_THROW(g.map(CUDNN_POINTWISE_MUL, half, x), CudaError);  // half has the shape of a number
  EXPECT_THROW(g.map(CUDNN_POINTWISE_EXP, x, half), CudaError);  // exp has one operand
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

}  // namespace
}  // namespace tapegrad
