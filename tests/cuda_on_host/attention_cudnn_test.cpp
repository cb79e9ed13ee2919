// Attention by cuDNN, compared with our blocked attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/cudnn/attention.h"
#include "backends/cuda/cudnn/available.h"
#include "core/tape/variable.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/internal/attention_blocks.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

using namespace backends::cuda;

/// Returns a tensor in the layout of a network: [examples, length, heads, columns] in memory.
Tensor heads(int64_t examples, int64_t length, int64_t columns, DType dtype) {
  return transpose(randn({examples, length, 2, columns}).to(dtype).to(gpu), 1, 2).value();
}
std::vector<double> values_of(const Tensor& x) { return Variable(x).to(f64).to_vector<double>(); }

/// Expects equality up to `tolerance` times the largest element, for rounding errors.
void expect_near(const Tensor& x, const Tensor& y, double tolerance, const char* name) {
  const std::vector<double> a = values_of(x), b = values_of(y);
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_FALSE(std::isnan(a[i])) << name << ' ' << i;
    largest = std::max(largest, std::abs(b[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  EXPECT_LE(difference, tolerance * largest) << name;
}

class CudaAttentionCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_cudnn(gpu); !reason.empty()) GTEST_SKIP() << reason;
    manual_seed(1);
  }
};

struct Sizes {
  int64_t examples, queries, keys, features, width;
};

TEST_F(CudaAttentionCudnn, GivesWhatBlocksGive) {
  for (const Sizes& s : {Sizes{2, 512, 512, 16, 16}, Sizes{1, 640, 896, 8, 32}})
    for (const bool causal : {false, true}) {
      const DType dtype = causal ? bf16 : f16;
      SCOPED_TRACE(testing::Message() << dtype << ", " << s.keys << " keys");
      const Tensor q = heads(s.examples, s.queries, s.features, dtype),
                   k = heads(s.examples, s.keys, s.features, dtype),
                   v = heads(s.examples, s.keys, s.width, dtype), none;
      const Tensor dy = randn({s.examples, 2, s.queries, s.width}).to(dtype).to(gpu).value();
      struct Results {
        Tensor y, log_sums, dq, dk, dv;
      };
      const auto results = [&] {
        return Results{dy.empty_like(), Tensor::empty({s.examples, 2, s.queries}, f32, gpu),
                       q.empty_like(q.shape()), k.empty_like(k.shape()), v.empty_like(v.shape())};
      };
      Results a = results(), b = results();
      if (!cudnn_attention(q, k, v, causal, 0.25, a.y, a.log_sums))
        GTEST_SKIP() << "this cuDNN has no kernel of attention for this device, or no NVRTC";
      ASSERT_TRUE(
          cudnn_attention_backward(dy, q, k, v, causal, 0.25, a.y, a.log_sums, a.dq, a.dk, a.dv));
      const bool before = use_cudnn(false);
      kernels::attention(q, k, v, none, causal, 0.25, 0.0, {}, b.y, b.log_sums);
      kernels::attention_backward(dy, q, k, v, none, causal, 0.25, 0.0, {}, b.y, b.log_sums, b.dq,
                                  b.dk, b.dv);
      use_cudnn(before);
      expect_near(a.log_sums, b.log_sums, 1e-5, "log_sums");
      // Weights are rounded before they are multiplied, and y before the gradient reads it.
      const double tolerance = dtype == bf16 ? 4 * 0x1p-8 : 4 * 0x1p-11;
      expect_near(a.y, b.y, tolerance, "y");
      expect_near(a.dq, b.dq, tolerance, "dq");
      expect_near(a.dk, b.dk, tolerance, "dk");
      expect_near(a.dv, b.dv, tolerance, "dv");
    }
}

TEST_F(CudaAttentionCudnn, LargeScoresDoNotOverflow) {
  // Scores from -2^14 to 2^14, of which each query effectively sees only the largest.
  const Variable position = (arange(1024) - 511.5).to(f32);
  const Variable k = expand(reshape(position, {1, 1, 1024, 1}), {1, 1, 1024, 8}).to(f16).to(gpu);
  const Variable y = scaled_dot_product_attention(k * 0 + 4, k, k, {.scale = 1.0});
  for (const double number : values_of(y.value())) ASSERT_EQ(number, 511.5);
}

TEST_F(CudaAttentionCudnn, LargeNegativeScores) {
  // The first column makes all scores about -120, where exp of the negated logarithm of their sum
  // overflows float.
  const auto heads = [](double first) {
    const Variable others = randn({1, 1, 1024, 7});
    return cat({full({1, 1, 1024, 1}, first), others}, -1).to(bf16).to(gpu);
  };
  const Variable q = heads(1).detach().requires_grad_(), k = heads(-960), v = heads(0);
  const auto gradient = [&](bool by_cudnn) {
    const bool before = use_cudnn(by_cudnn);
    const Variable y = scaled_dot_product_attention(q, k, v, {.scale = 0.125});
    const Variable dq = grad(sum(y * y), q);
    use_cudnn(before);
    // the first column is the rounding error of terms that cancel
    return narrow(dq, -1, 1, 7).value();
  };
  expect_near(gradient(true), gradient(false), 4 * 0x1p-8, "dq");
}

TEST_F(CudaAttentionCudnn, AGraphRepeatsTheBits) {
  const auto train = [](bool graph) {
    manual_seed(6);
    const Variable k(heads(2, 512, 16, bf16)), v(heads(2, 512, 16, bf16));
    GraphedStep step(
        [&](const Variable& x) {
          const Variable q = x.detach().requires_grad_();
          const Variable y = scaled_dot_product_attention(q, k, v, {.is_causal = true});
          return grad(sum((y * y).to(f32)), q);
        },
        {}, {.enabled = graph});
    std::vector<std::vector<double>> results;
    for (int i = 1; i < 5; ++i)
      results.push_back(values_of(step(Variable(heads(2, 512, 16, bf16))).value()));
    EXPECT_EQ(step.is_graphed(), graph) << step.reason();
    return results;
  };
  EXPECT_EQ(train(true), train(false));
}

}  // namespace
}  // namespace tapegrad
