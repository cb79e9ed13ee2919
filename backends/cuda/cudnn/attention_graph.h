// The graphs of attention that cuDNN has kernels for: products, a softmax by its parts and a
// comparison of places, in just this order of operations. (What it recognises is told by NVIDIA's
// cudnn-frontend, which composes the same.) The formulas are those of attention_backward.cu.
#pragma once

#include <optional>

#include "backends/cuda/cudnn/graph.h"

namespace tapegrad::backends::cuda {

/// How q, k and v lie: [examples, heads, length, columns]. What else there is lies densely.
struct AttentionProblem {
  Graph::Form q, k, v;
  bool causal;  // then run() also takes, last, the address of what a hidden score is
};

/// run() takes the addresses of q, k, v, y, log_sums and the scale.
std::optional<GraphPlan> plan_attention(const AttentionProblem& p, GraphTarget target);
/// q, k, v, y, dy, log_sums, memory for as many numbers, dq, dk, dv, the scale and a one.
std::optional<GraphPlan> plan_attention_backward(const AttentionProblem& p, GraphTarget target);

}  // namespace tapegrad::backends::cuda
